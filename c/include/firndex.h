/* firndex: hash tables that outlive the process, for C. The guide is docs/guide/c.md; firndex.hpp wraps this for C++.
 *
 * A store maps byte strings to byte strings, a table maps numbers of 64 bits to numbers of 64 bits. Both live in a
 * pool: a file that is mapped into memory. Once a call returns, its effect survives the death of the process.
 *
 * Results. Every call returns a code. Negative codes are errors; firndex_message() then has a message for people: what
 * was found, what was expected, and what to do. After an error everything is as before the call, but for batches, which
 * say what became of each entry, and as said below. Results that are not errors have codes from 0 on, such as
 * FIRNDEX_ABSENT. If a call fails, the variables that were to have its results are unspecified, but handles and values
 * in them are NULL and empty.
 *
 * Handles. A handle that is NULL, was closed, or is something else is an error, not undefined behaviour.
 *
 * Bytes. A pointer to bytes comes with their number. It may be NULL if that is 0. Keys have up to 64 KiB, values up to
 * 256 MiB.
 *
 * Threads. All threads may use a store or table at once. Values that were lent, and iterators, belong to the thread
 * that got them, and are released when it ends. Do not call firndex in a signal handler.
 *
 * Processes. One process at a time has a pool open, or several if it lets others in: firndex_options.guests. A forked
 * child must open the pool again, where its parent lets it in, or has closed it. */
#ifndef FIRNDEX_H
#define FIRNDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIRNDEX_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum firndex_code {
    /* Done, or found. */
    FIRNDEX_OK = 0,
    /* The key is absent. */
    FIRNDEX_ABSENT = 1,
    /* The key is present already: nothing was inserted. */
    FIRNDEX_PRESENT = 2,
    /* The key's state was not the expected one: nothing was changed. */
    FIRNDEX_DIFFERENT = 3,
    /* An iterator has returned all pairs. */
    FIRNDEX_END = 4,
    /* The pool was refused when it was opened, and made anew: firndex_options.reset_if_refused. */
    FIRNDEX_RESET = 5,
    /* An entry of a batch that has failed did not take effect. */
    FIRNDEX_UNDONE = 6,

    /* A defect of firndex. What returned before is stored. */
    FIRNDEX_ERROR_INTERNAL = -1,
    /* An argument that no call takes: NULL, a number that means nothing. */
    FIRNDEX_ERROR_ARGUMENT = -2,
    /* The handle is of another kind, or none of firndex. */
    FIRNDEX_ERROR_HANDLE = -3,
    /* The store or table was closed, or that of the iterator. */
    FIRNDEX_ERROR_CLOSED = -4,
    /* The value was released before, or the iterator freed. */
    FIRNDEX_ERROR_RELEASED = -5,
    /* The value or the iterator belongs to another thread. */
    FIRNDEX_ERROR_THREAD = -6,
    /* Values that are lent, or iterators of other threads, keep the store or table open. */
    FIRNDEX_ERROR_IN_USE = -7,
    /* The value does not fit into the buffer. */
    FIRNDEX_ERROR_TOO_SMALL = -8,
    /* More handles than there can be. */
    FIRNDEX_ERROR_TOO_MANY = -9,

    /* There is no pool. */
    FIRNDEX_ERROR_MISSING = -20,
    /* There is a file already. */
    FIRNDEX_ERROR_EXISTS = -21,
    /* The path cannot be used: its directory is missing, it is no file, or its name is too long. */
    FIRNDEX_ERROR_PATH = -22,
    /* The file is something else. */
    FIRNDEX_ERROR_NOT_A_POOL = -23,
    /* The pool holds something else than was asked for, or another version of firndex made it. */
    FIRNDEX_ERROR_MISMATCH = -24,
    /* Another process has the pool open. */
    FIRNDEX_ERROR_BUSY = -25,
    /* This process has the pool open: share that handle. */
    FIRNDEX_ERROR_ALREADY_OPEN = -26,
    /* The pool was not closed before the machine stopped or the file was copied, and cannot be restored. */
    FIRNDEX_ERROR_NOT_RESTORED = -27,
    /* The pool was not closed, so it cannot be opened for reading only. */
    FIRNDEX_ERROR_NEEDS_RECOVERY = -28,
    /* This user may not do that. */
    FIRNDEX_ERROR_DENIED = -29,
    /* Log and checkpoint cannot be where they are to be, or are somewhere else. */
    FIRNDEX_ERROR_LOG_PLACE = -30,
    /* The processor or the file system lacks something. */
    FIRNDEX_ERROR_UNSUPPORTED = -31,
    /* An option's value is out of its range, or names nothing that there is. */
    FIRNDEX_ERROR_OPTION = -32,

    /* The file system is full, or the pool's limit is reached. Nothing was changed. Reading and removing go on. */
    FIRNDEX_ERROR_FULL = -40,
    /* The key or the value is too long. */
    FIRNDEX_ERROR_TOO_LONG = -41,
    /* Too many keys share one hash or belong to the same buckets, as keys do that an attacker chose. */
    FIRNDEX_ERROR_CROWDED = -42,
    /* The pool is damaged. */
    FIRNDEX_ERROR_DAMAGED = -43,
    /* The log could not be written. With FIRNDEX_COMMIT the change may have been made: it survives a killed process. */
    FIRNDEX_ERROR_LOG = -44,
    /* There is no log to wait for: firndex_store_sync and firndex_table_sync need none. */
    FIRNDEX_ERROR_NOT_LOGGED = -45,
    /* The pool was opened for reading only. */
    FIRNDEX_ERROR_READ_ONLY = -46,
    /* The handle was opened before the process forked. */
    FIRNDEX_ERROR_FORKED = -47,
    /* A part of the pool's file is gone: firndex_options.survive_bus_errors. */
    FIRNDEX_ERROR_VANISHED = -48,
    /* The operating system failed. */
    FIRNDEX_ERROR_IO = -49,
    /* An error that this version has no code for. */
    FIRNDEX_ERROR_OTHER = -50,

    /* The pool's owner ended while it made this guest's change, which may have happened or not: look, and make it again
     * if not. Of a batch, entries that do not count as done may have taken effect. */
    FIRNDEX_ERROR_INTERRUPTED = -60,
    /* The owner has not answered this guest for firndex_options.patience_ms. What was asked of it may still happen. */
    FIRNDEX_ERROR_SILENT = -61,
    /* The owner could not do it. */
    FIRNDEX_ERROR_OWNER = -62,
    /* Only the owner can do it, and this process is a guest. */
    FIRNDEX_ERROR_FOR_OWNER = -63
} firndex_code;

/* Handles. There is nothing to read at these addresses. */
typedef struct firndex_store firndex_store;
typedef struct firndex_table firndex_table;
typedef struct firndex_store_iterator firndex_store_iterator;
typedef struct firndex_table_iterator firndex_table_iterator;

/* The version of the library, which may be newer than FIRNDEX_VERSION, that of this header. */
const char *firndex_version(void);

/* The message of the calling thread's last error; "" before the first. It stays until the thread's next error. */
const char *firndex_message(void);

/* The name of a code, such as "FIRNDEX_ERROR_BUSY". */
const char *firndex_code_name(int code);

/* ---- Opening ---- */

typedef enum firndex_mode {
    /* Opens a pool, which must exist. */
    FIRNDEX_OPEN = 1,
    /* Creates a pool where no file may exist. */
    FIRNDEX_CREATE = 2,
    /* Opens a pool, or creates it if there is no file. */
    FIRNDEX_OPEN_OR_CREATE = 3
} firndex_mode;

/* What survives power loss. The default is what the pool had last; for a new one FIRNDEX_PERIODIC on a disk, and
 * FIRNDEX_PROCESS in /dev/shm. */
typedef enum firndex_durability {
    /* The whole pool, if it was closed, or synced and not written since; otherwise it is refused. */
    FIRNDEX_PROCESS = 1,
    /* Everything before the last sync, and normally all but the last 5 ms. */
    FIRNDEX_PERIODIC = 2,
    /* Every change that returned. */
    FIRNDEX_COMMIT = 3
} firndex_durability;

/* The memory under a pool in a file. The default is FIRNDEX_DAX where the file system offers it. */
typedef enum firndex_medium {
    FIRNDEX_MAPPED = 1,
    FIRNDEX_DAX = 2
} firndex_medium;

typedef enum firndex_choice {
    FIRNDEX_YES = 1,
    FIRNDEX_NO = 2
} firndex_choice;

/* A parameter of an engine: docs/guide/choosing-an-engine.md. */
typedef struct firndex_parameter {
    const char *name;
    uint64_t value;
} firndex_parameter;

/* How a pool is opened. Begin with FIRNDEX_OPTIONS_INIT. Zero and NULL are the defaults. */
typedef struct firndex_options {
    /* sizeof(firndex_options), by which the library knows the header. */
    size_t struct_size;
    /* A new pool's hash table: "iceberg", "level", "clevel", "rewo", "pfht". An existing one must have it. */
    const char *engine;
    /* The directory of log and checkpoint. Default: the pool's. Each opening for writing must name it. */
    const char *log_directory;
    /* Parameters of a new pool's engine. */
    const firndex_parameter *parameters;
    size_t parameters_count;
    /* A new pool has room for this many pairs from the start. Pools grow in any case. */
    uint64_t capacity;
    /* Limit of the pool's size. Default: 64 GiB, or four times its size if that is more. */
    uint64_t max_bytes;
    /* How often FIRNDEX_PERIODIC writes to the disk, in microseconds. Default: 5000. */
    uint64_t durable_every_us;
    /* Size of the log in bytes from which on checkpoints are made. Default: 16 times the pool, 256 MiB at most. */
    uint64_t checkpoint_at;
    /* How long to wait for a pool whose process lets nobody in, in milliseconds. Default: not at all. */
    uint64_t wait_ms;
    /* Part of the slots in use at which the index doubles. Default: 0.85. */
    double resize_at;
    /* Part of the slots in use below which it halves by itself, on engines that can. Default: never. */
    double shrink_at;
    /* Part of the space for keys and values that may be free before it is given back. Default: never. */
    double compact_at;
    /* A firndex_durability. */
    int durability;
    /* A firndex_medium. */
    int medium;
    /* A firndex_choice: whether checksums of the file are written when it is closed. Default: as last time. */
    int keep_sums;
    /* Threads that prepare space ahead of writers. Default: 1. FIRNDEX_NO_HELPERS: none. */
    int helpers;
    /* Threads that rebuild what is in memory when the pool is opened. Default: one per processor. */
    uint32_t threads;
    /* Opens for reading only, as several processes may at once. Nothing in the file changes. */
    bool read_only;
    /* Opens for reading although pairs were lost. */
    bool may_lack_pairs;
    /* For caches: puts an empty pool in place of one that is of no use. firndex_store_was_reset says so. */
    bool reset_if_refused;
    /* Makes it an error, and not the end of the process, if a part of the file vanishes: FIRNDEX_ERROR_VANISHED. */
    bool survive_bus_errors;
    /* How long a guest's calls wait for an owner that does not answer, in milliseconds. Default: 10000. */
    uint64_t patience_ms;
    /* A firndex_choice: whether other processes may use the pool while this one, its owner, has it open. They open it
     * as usual, and are guests, whose changes the owner makes. When it ends, a guest becomes the owner. Default: no. */
    int guests;
    /* A firndex_choice: whether this process, as a guest, leaves it to others to become the owner. Default: no. */
    int never_own;
} firndex_options;

#define FIRNDEX_NO_HELPERS (-1)
#ifdef __cplusplus
#define FIRNDEX_OPTIONS_INIT {sizeof(firndex_options), nullptr, nullptr, nullptr, 0, 0, 0, 0, 0, 0, \
    0, 0, 0, 0, 0, 0, 0, 0, false, false, false, false, 0, 0, 0}
#else
#define FIRNDEX_OPTIONS_INIT {.struct_size = sizeof(firndex_options)}
#endif

/* Opens or creates a store, as `mode` (a firndex_mode) says. `options` may be NULL. */
firndex_code firndex_store_open(const char *path, int mode, const firndex_options *options, firndex_store **store);
firndex_code firndex_table_open(const char *path, int mode, const firndex_options *options, firndex_table **table);

/* Makes one in memory, which ends with the process. `options` may be NULL. */
firndex_code firndex_store_in_memory(const firndex_options *options, firndex_store **store);
firndex_code firndex_table_in_memory(const firndex_options *options, firndex_table **table);

/* Writes everything to the device, marks the pool as closed, and closes it, once no call of another thread uses it any
 * more; calls that begin meanwhile fail with FIRNDEX_ERROR_CLOSED. The calling thread's iterators end. While values of
 * it are lent, or other threads have iterators of it, this fails with FIRNDEX_ERROR_IN_USE, and it stays open. After an
 * error of the pool it is closed all the same, as if the process had been killed. NULL is closed already. */
firndex_code firndex_store_close(firndex_store *store);
firndex_code firndex_table_close(firndex_table *table);

/* Removes a pool that is not open, with its log and checkpoint. `options` may be NULL; it can name a log_directory. */
firndex_code firndex_remove(const char *path, const firndex_options *options);

/* ---- Stores: one key ---- */

typedef struct firndex_bytes {
    const void *data;
    size_t size;
} firndex_bytes;

typedef struct firndex_pair {
    firndex_bytes key;
    firndex_bytes value;
} firndex_pair;

/* A value that is lent: its bytes are in the pool, and stay as they are until firndex_value_release, in the thread that
 * got it. `hold` is 0, and `data` NULL, if there is none. Hold it briefly: until then the space of values that are
 * replaced is not used again, and the store cannot be closed. */
typedef struct firndex_value {
    const void *data;
    size_t size;
    uint64_t hold;
} firndex_value;

/* Copies the value of a key into `buffer`, and its size to `value_size`. FIRNDEX_ABSENT; FIRNDEX_ERROR_TOO_SMALL: only
 * `value_size` was written. */
firndex_code firndex_store_get(firndex_store *store, const void *key, size_t key_size, void *buffer,
                               size_t buffer_size, size_t *value_size);

/* Lends the value of a key. FIRNDEX_ABSENT. */
firndex_code firndex_store_get_value(firndex_store *store, const void *key, size_t key_size, firndex_value *value);

/* Releases a value that was lent. Does nothing if there is none, or `value` is NULL. */
firndex_code firndex_value_release(firndex_value *value);

/* The same for each of an array. Releases all it can, and returns the first error. */
firndex_code firndex_values_release(firndex_value *values, size_t count);

/* FIRNDEX_OK if the key is present, otherwise FIRNDEX_ABSENT. */
firndex_code firndex_store_contains(firndex_store *store, const void *key, size_t key_size);

/* The calls that change one key are atomic. `former`, which may be NULL, gets the value that was found, lent.
 * Nothing of the caller's is kept. */

/* Stores a pair, whether or not the key is present. */
firndex_code firndex_store_put(firndex_store *store, const void *key, size_t key_size, const void *value,
                               size_t value_size, firndex_value *former);

/* Stores a pair if the key is absent. FIRNDEX_PRESENT: it was not, and its value stays. */
firndex_code firndex_store_insert(firndex_store *store, const void *key, size_t key_size, const void *value,
                                  size_t value_size, firndex_value *former);

/* Replaces the value if the key is present. FIRNDEX_ABSENT: it was not, and nothing is stored. */
firndex_code firndex_store_update(firndex_store *store, const void *key, size_t key_size, const void *value,
                                  size_t value_size, firndex_value *former);

/* Removes a key. FIRNDEX_ABSENT. */
firndex_code firndex_store_remove(firndex_store *store, const void *key, size_t key_size, firndex_value *former);

/* Changes the state of a key from `expected` to `desired`; NULL is the state of an absent key. FIRNDEX_DIFFERENT: its
 * state was another one, which `found` gets, if that is not NULL, and nothing was changed. */
firndex_code firndex_store_compare_exchange(firndex_store *store, const void *key, size_t key_size,
                                            const firndex_bytes *expected, const firndex_bytes *desired,
                                            firndex_value *found);

/* ---- Stores: many keys ---- */

/* A batch is faster than single calls, but not atomic. `codes`, which may be NULL, gets what the single call would have
 * returned for each entry. If a batch of changes fails, it has FIRNDEX_OK for entries that took effect, the error for
 * the one that failed, if it was one, and FIRNDEX_UNDONE for the others. If one did not take effect, no later one with
 * its key did: you may do those again, in order. If an argument is refused, `codes` is not written. */

/* Lends the value of each key. Those that are absent get none. */
firndex_code firndex_store_get_many(firndex_store *store, const firndex_bytes *keys, size_t count,
                                    firndex_value *values);
firndex_code firndex_store_put_many(firndex_store *store, const firndex_pair *pairs, size_t count, int *codes);
firndex_code firndex_store_insert_many(firndex_store *store, const firndex_pair *pairs, size_t count, int *codes);
firndex_code firndex_store_update_many(firndex_store *store, const firndex_pair *pairs, size_t count, int *codes);
firndex_code firndex_store_remove_many(firndex_store *store, const firndex_bytes *keys, size_t count, int *codes);

/* ---- Stores: all keys ---- */

/* Begins an iteration, in no order, while other threads may write. A key that is present throughout comes exactly once.
 * Free the iterator soon: until then the space of replaced and removed pairs may not be used again. */
firndex_code firndex_store_iterate(firndex_store *store, firndex_store_iterator **iterator);

/* Tells the next pair, whose bytes stay until the next call for this iterator. FIRNDEX_END. After an error it ends. */
firndex_code firndex_store_iterator_next(firndex_store_iterator *iterator, firndex_bytes *key, firndex_bytes *value);

/* Ends an iteration. NULL has ended. */
firndex_code firndex_store_iterator_free(firndex_store_iterator *iterator);

/* ---- Tables ---- */

/* As for stores, with numbers in place of bytes. */

/* The state of a key. `value` is 0 if it is absent. */
typedef struct firndex_state {
    uint64_t value;
    bool is_present;
} firndex_state;

/* Tells the value of a key. FIRNDEX_ABSENT. */
firndex_code firndex_table_get(firndex_table *table, uint64_t key, uint64_t *value);
firndex_code firndex_table_contains(firndex_table *table, uint64_t key);
firndex_code firndex_table_put(firndex_table *table, uint64_t key, uint64_t value, firndex_state *former);
firndex_code firndex_table_insert(firndex_table *table, uint64_t key, uint64_t value, firndex_state *former);
firndex_code firndex_table_update(firndex_table *table, uint64_t key, uint64_t value, firndex_state *former);
firndex_code firndex_table_remove(firndex_table *table, uint64_t key, firndex_state *former);
firndex_code firndex_table_compare_exchange(firndex_table *table, uint64_t key, const uint64_t *expected,
                                            const uint64_t *desired, firndex_state *found);
firndex_code firndex_table_get_many(firndex_table *table, const uint64_t *keys, size_t count,
                                    firndex_state *states);
firndex_code firndex_table_put_many(firndex_table *table, const uint64_t *keys, const uint64_t *values,
                                    size_t count, int *codes);
firndex_code firndex_table_insert_many(firndex_table *table, const uint64_t *keys, const uint64_t *values,
                                       size_t count, int *codes);
firndex_code firndex_table_update_many(firndex_table *table, const uint64_t *keys, const uint64_t *values,
                                       size_t count, int *codes);
firndex_code firndex_table_remove_many(firndex_table *table, const uint64_t *keys, size_t count, int *codes);
firndex_code firndex_table_iterate(firndex_table *table, firndex_table_iterator **iterator);
firndex_code firndex_table_iterator_next(firndex_table_iterator *iterator, uint64_t *key, uint64_t *value);
firndex_code firndex_table_iterator_free(firndex_table_iterator *iterator);

/* ---- Pools ---- */

/* Number of pairs; exact when nothing writes. */
firndex_code firndex_store_len(firndex_store *store, uint64_t *pairs);
firndex_code firndex_table_len(firndex_table *table, uint64_t *pairs);

/* Makes everything that has returned survive power loss. */
firndex_code firndex_store_sync(firndex_store *store);
firndex_code firndex_table_sync(firndex_table *table);

/* Waits until all that this thread has done or seen survives power loss. FIRNDEX_ERROR_NOT_LOGGED: needs a log. */
firndex_code firndex_store_commit(firndex_store *store);
firndex_code firndex_table_commit(firndex_table *table);

/* Verifies every pair and every invariant. FIRNDEX_ERROR_DAMAGED: the message lists what was found. A guest cannot:
 * FIRNDEX_ERROR_FOR_OWNER. */
firndex_code firndex_store_check(firndex_store *store);
firndex_code firndex_table_check(firndex_table *table);

/* Halves the index. `is_halved`, which may be NULL, gets false if it has its first size, or is too full. */
firndex_code firndex_store_shrink(firndex_store *store, bool *is_halved);
firndex_code firndex_table_shrink(firndex_table *table, bool *is_halved);

/* Moves values together, so that the space between them serves values of any size. `freed_bytes` may be NULL. */
firndex_code firndex_store_compact(firndex_store *store, uint64_t *freed_bytes);

/* FIRNDEX_RESET if firndex_options.reset_if_refused made the pool anew; firndex_message() then says why. */
firndex_code firndex_store_was_reset(firndex_store *store);
firndex_code firndex_table_was_reset(firndex_table *table);

/* What happens to a file that is where a copy is to be written. */
typedef enum firndex_existing {
    /* It stays: FIRNDEX_ERROR_EXISTS. */
    FIRNDEX_KEEP = 1,
    /* A pool is replaced when the new one is complete. Any other file stays: FIRNDEX_ERROR_NOT_A_POOL. */
    FIRNDEX_REPLACE = 2
} firndex_existing;

typedef struct firndex_copied {
    uint64_t pairs;
    uint64_t bytes;
    /* Whether the copy shows the pool at one moment. If not, it is consistent for each key. */
    bool is_of_one_moment;
} firndex_copied;

/* Writes a clean copy of the pool to `out`, while others use it. `existing` is a firndex_existing. `copied` may be
 * NULL. */
firndex_code firndex_store_backup(firndex_store *store, const char *out, int existing, firndex_copied *copied);
firndex_code firndex_table_backup(firndex_table *table, const char *out, int existing, firndex_copied *copied);

/* What a process is to a pool: firndex_options.guests. */
typedef enum firndex_role {
    FIRNDEX_OWNER = 1,
    /* The owner, another process, makes its changes. */
    FIRNDEX_GUEST = 2
} firndex_role;

/* Tells what this process is to the pool: a firndex_role. A guest may become the owner. */
firndex_code firndex_store_role(firndex_store *store, int *role);
firndex_code firndex_table_role(firndex_table *table, int *role);

/* Figures of a pool. Begin with FIRNDEX_STATS_INIT. */
typedef struct firndex_stats {
    /* sizeof(firndex_stats), by which the library knows the header. */
    size_t struct_size;
    const char *engine;
    uint64_t pairs;
    /* Slots that the load factor is relative to. */
    uint64_t capacity;
    /* Since the pool was opened. */
    uint64_t resizes;
    uint64_t pool_bytes;
    /* Memory beside the pool, rebuilt on opening. */
    uint64_t sidecar_bytes;
    /* Space for keys and values of a store; of this, in use, and given back to the system. */
    uint64_t heap_bytes;
    uint64_t heap_used_bytes;
    uint64_t heap_vacant_bytes;
    /* How often the pool was opened for writing. */
    uint64_t incarnation;
    /* Of the log since the last checkpoint, and of that. 0 without a log. */
    uint64_t log_bytes;
    uint64_t checkpoint_bytes;
    double load_factor;
    double bytes_per_pair;
    double recovery_ms;
    uint8_t uuid[16];
    /* A firndex_durability. */
    int durability;
    /* Whether there is a log to wait for. */
    bool is_logged;
    /* How many guests the owner has. */
    uint64_t guests;
    /* A firndex_role. A guest has all other figures from the owner. */
    int role;
} firndex_stats;

#ifdef __cplusplus
#define FIRNDEX_STATS_INIT {sizeof(firndex_stats), nullptr, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {}, 0, false, \
    0, 0}
#else
#define FIRNDEX_STATS_INIT {.struct_size = sizeof(firndex_stats)}
#endif

firndex_code firndex_store_stats(firndex_store *store, firndex_stats *stats);
firndex_code firndex_table_stats(firndex_table *table, firndex_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
