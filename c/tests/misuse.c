/* What bad input gets: a code and a message, never a crash. */

#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

static firndex_store *store;
static firndex_table *table;
/* By a tool that watches memory, under which everything takes many times as long. */
static bool is_watched;

static void nothing(void) {
    char byte = 0;
    size_t size;
    uint64_t number = 0;
    firndex_value value;
    firndex_bytes bytes, no_bytes = {NULL, 5};
    firndex_pair no_pair = {{NULL, 5}, {NULL, 0}};
    firndex_store *no_store = store;
    firndex_store_iterator *iterator;
    const char *path = in_directory("other.firn");

    REFUSED(FIRNDEX_ERROR_ARGUMENT, "`path` is NULL", firndex_store_open(NULL, FIRNDEX_OPEN, NULL, &no_store));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_open(path, FIRNDEX_OPEN, NULL, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_table_open(NULL, FIRNDEX_OPEN, NULL, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_in_memory(NULL, NULL));
    REFUSED(FIRNDEX_ERROR_ARGUMENT, "FIRNDEX_CREATE", firndex_store_open(path, 0, NULL, &no_store));
    CHECK(no_store == NULL);
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_open(path, 17, NULL, &no_store));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_remove(NULL, NULL));

    REFUSED(FIRNDEX_ERROR_ARGUMENT, "NULL, expected a store", firndex_store_get(NULL, "a", 1, &byte, 1, &size));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_get(store, NULL, 1, &byte, 1, &size));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_get(store, "a", 1, NULL, 1, &size));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_get(store, "a", 1, &byte, 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_get_value(NULL, "a", 1, &value));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_get_value(store, NULL, 1, &value));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_get_value(store, "a", 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_contains(NULL, "a", 1));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_contains(store, NULL, 1));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_put(NULL, "a", 1, "b", 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_put(store, NULL, 1, "b", 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_put(store, "a", 1, NULL, 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_put(store, "a", SIZE_MAX, "b", 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_insert(store, NULL, 1, "b", 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_update(store, "a", 1, NULL, 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_remove(store, NULL, 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_remove(NULL, "a", 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_compare_exchange(store, NULL, 1, NULL, NULL, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_compare_exchange(store, "a", 1, &no_bytes, NULL, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_compare_exchange(NULL, "a", 1, NULL, NULL, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_get_many(store, NULL, 1, &value));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_get_many(store, &no_bytes, 1, &value));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_get_many(store, &no_bytes, SIZE_MAX, &value));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_get_many(store, &no_bytes, 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_put_many(store, NULL, 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_put_many(store, &no_pair, 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_remove_many(store, NULL, 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_remove_many(NULL, NULL, 0, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_iterate(NULL, &iterator));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_iterate(store, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_iterator_next(NULL, &bytes, &bytes));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_len(NULL, &number));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_len(store, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_sync(NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_commit(NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_check(NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_shrink(NULL, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_compact(NULL, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_was_reset(NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_stats(store, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_backup(store, NULL, FIRNDEX_KEEP, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_backup(store, path, 0, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_backup(NULL, path, FIRNDEX_KEEP, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_values_release(NULL, 1));

    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_table_get(table, 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_table_get(NULL, 1, &number));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_table_put(NULL, 1, 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_table_get_many(table, &number, 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_table_put_many(table, &number, NULL, 1, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_table_iterate(table, NULL));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_table_iterator_next(NULL, &number, &number));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_table_stats(table, NULL));

    /* Addresses that cannot be of what they are to be. */
    char odd[2 * sizeof(uint64_t)];
    void *at = odd + (8 - (uintptr_t)odd % 8) % 8 + 1;
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_table_get(table, 1, at));
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_table_put_many(table, &number, &number, 1, at));
    EXPECT(FIRNDEX_ABSENT, firndex_table_contains(table, 0));

    /* What has ended already needs no end. */
    EXPECT(FIRNDEX_OK, firndex_store_close(NULL));
    EXPECT(FIRNDEX_OK, firndex_table_close(NULL));
    EXPECT(FIRNDEX_OK, firndex_store_iterator_free(NULL));
    EXPECT(FIRNDEX_OK, firndex_table_iterator_free(NULL));
    EXPECT(FIRNDEX_OK, firndex_value_release(NULL));
    EXPECT(FIRNDEX_OK, firndex_values_release(NULL, 0));

    /* Nothing of it was done. */
    EXPECT(FIRNDEX_OK, firndex_store_len(store, &number));
    CHECK(number == 0 && access(path, F_OK) != 0);
    CHECK(strcmp(firndex_code_name(77), "unknown code") == 0);
    CHECK(strcmp(firndex_code_name(FIRNDEX_ERROR_BUSY), "FIRNDEX_ERROR_BUSY") == 0);
}

static void handles(void) {
    firndex_store *closed, *next;
    firndex_table *other;
    firndex_store_iterator *iterator, *freed;
    firndex_bytes key, value;
    uint64_t number;
    EXPECT(FIRNDEX_OK, firndex_store_in_memory(NULL, &closed));
    EXPECT(FIRNDEX_OK, firndex_store_put(closed, "a", 1, "b", 1, NULL));
    EXPECT(FIRNDEX_OK, firndex_store_close(closed));
    REFUSED(FIRNDEX_ERROR_CLOSED, "was closed", firndex_store_put(closed, "a", 1, "b", 1, NULL));
    EXPECT(FIRNDEX_ERROR_CLOSED, firndex_store_close(closed));
    EXPECT(FIRNDEX_ERROR_CLOSED, firndex_store_len(closed, &number));
    EXPECT(FIRNDEX_ERROR_CLOSED, firndex_store_iterate(closed, &iterator));
    CHECK(iterator == NULL);
    /* Its place may be another's by now, which has another handle. */
    EXPECT(FIRNDEX_OK, firndex_store_in_memory(NULL, &next));
    CHECK(next != closed);
    EXPECT(FIRNDEX_ERROR_CLOSED, firndex_store_put(closed, "a", 1, "b", 1, NULL));
    EXPECT(FIRNDEX_OK, firndex_store_len(next, &number));
    CHECK(number == 0);

    /* Handles of another kind, and what is none. */
    REFUSED(FIRNDEX_ERROR_HANDLE, "a table, expected a store", firndex_store_len((firndex_store *)table, &number));
    EXPECT(FIRNDEX_ERROR_HANDLE, firndex_table_put((firndex_table *)store, 1, 2, NULL));
    EXPECT(FIRNDEX_ERROR_HANDLE, firndex_table_close((firndex_table *)store));
    EXPECT(FIRNDEX_ERROR_HANDLE, firndex_store_len((firndex_store *)&number, &number));
    EXPECT(FIRNDEX_ERROR_HANDLE, firndex_store_close((firndex_store *)(uintptr_t)-1));
    EXPECT(FIRNDEX_ERROR_CLOSED, firndex_store_close((firndex_store *)((uintptr_t)store + 1)));
    EXPECT(FIRNDEX_ERROR_CLOSED, firndex_store_len((firndex_store *)((uintptr_t)store + 4096), &number));
    firndex_value no_value = {"a", 1, 12345};
    EXPECT(FIRNDEX_ERROR_HANDLE, firndex_value_release(&no_value));
    no_value.hold = (uint64_t)5 << 60;
    EXPECT(FIRNDEX_ERROR_RELEASED, firndex_value_release(&no_value));
    no_value.hold = (uint64_t)5 << 60 | (uint64_t)0xfffff << 28;
    EXPECT(FIRNDEX_ERROR_RELEASED, firndex_value_release(&no_value));

    /* Iterators. */
    EXPECT(FIRNDEX_OK, firndex_store_put(next, "a", 1, "b", 1, NULL));
    EXPECT(FIRNDEX_OK, firndex_store_iterate(next, &freed));
    EXPECT(FIRNDEX_OK, firndex_store_iterator_free(freed));
    EXPECT(FIRNDEX_ERROR_RELEASED, firndex_store_iterator_free(freed));
    EXPECT(FIRNDEX_ERROR_RELEASED, firndex_store_iterator_next(freed, &key, &value));
    EXPECT(FIRNDEX_OK, firndex_store_iterate(next, &iterator));
    EXPECT(FIRNDEX_ERROR_RELEASED, firndex_store_iterator_next(freed, &key, &value));
    EXPECT(FIRNDEX_ERROR_HANDLE, firndex_table_iterator_free((firndex_table_iterator *)iterator));
    EXPECT(FIRNDEX_ERROR_HANDLE, firndex_store_iterator_free((firndex_store_iterator *)next));

    /* One whose store is closed. What it told stays until it is freed. */
    EXPECT(FIRNDEX_OK, firndex_store_iterator_next(iterator, &key, &value));
    EXPECT(FIRNDEX_OK, firndex_store_close(next));
    CHECK(key.size == 1 && memcmp(key.data, "a", 1) == 0 && memcmp(value.data, "b", 1) == 0);
    REFUSED(FIRNDEX_ERROR_CLOSED, "was closed", firndex_store_iterator_next(iterator, &key, &value));
    EXPECT(FIRNDEX_OK, firndex_store_iterator_free(iterator));
    EXPECT(FIRNDEX_ERROR_RELEASED, firndex_store_iterator_free(iterator));
    firndex_table_iterator *of_table;
    EXPECT(FIRNDEX_OK, firndex_table_in_memory(NULL, &other));
    EXPECT(FIRNDEX_OK, firndex_table_put(other, 1, 2, NULL));
    EXPECT(FIRNDEX_OK, firndex_table_iterate(other, &of_table));
    EXPECT(FIRNDEX_OK, firndex_table_close(other));
    EXPECT(FIRNDEX_ERROR_CLOSED, firndex_table_iterator_next(of_table, &number, &number));
    EXPECT(FIRNDEX_OK, firndex_table_iterator_free(of_table));
}

static void lent_values(void) {
    firndex_store *lender;
    firndex_value value, copy;
    EXPECT(FIRNDEX_OK, firndex_store_in_memory(NULL, &lender));
    EXPECT(FIRNDEX_OK, firndex_store_put(lender, "a", 1, "b", 1, NULL));
    EXPECT(FIRNDEX_OK, firndex_store_get_value(lender, "a", 1, &value));
    copy = value;
    /* They keep the store open, and it works on. */
    REFUSED(FIRNDEX_ERROR_IN_USE, "1 values or iterators", firndex_store_close(lender));
    EXPECT(FIRNDEX_OK, firndex_store_put(lender, "a", 1, "c", 1, NULL));
    CHECK(memcmp(value.data, "b", 1) == 0);
    EXPECT(FIRNDEX_OK, firndex_value_release(&value));
    REFUSED(FIRNDEX_ERROR_RELEASED, "released before", firndex_value_release(&value));
    EXPECT(FIRNDEX_ERROR_RELEASED, firndex_value_release(&copy));
    /* The place of the released one may be another's by now. */
    EXPECT(FIRNDEX_OK, firndex_store_get_value(lender, "a", 1, &value));
    EXPECT(FIRNDEX_ERROR_RELEASED, firndex_value_release(&copy));
    CHECK(memcmp(value.data, "c", 1) == 0);
    EXPECT(FIRNDEX_OK, firndex_value_release(&value));
    EXPECT(FIRNDEX_OK, firndex_store_close(lender));

    if (is_watched) return;
    /* More than a thread can hold. Nothing is lent then. */
    enum { MANY = (1 << 20) + 1 };
    firndex_bytes *keys = calloc(MANY, sizeof *keys);
    firndex_value *values = calloc(MANY, sizeof *values);
    CHECK(keys != NULL && values != NULL);
    EXPECT(FIRNDEX_ERROR_TOO_MANY, firndex_store_get_many(store, keys, MANY, values));
    CHECK(values[0].hold == 0 && values[MANY - 1].hold == 0);
    free(keys);
    free(values);
}

static firndex_store *shared;
static firndex_value others;
static firndex_store_iterator *others_iterator;
static pthread_barrier_t turn;

static void *hold(void *unused) {
    EXPECT(FIRNDEX_OK, firndex_store_get_value(shared, "a", 1, &others));
    EXPECT(FIRNDEX_OK, firndex_store_iterate(shared, &others_iterator));
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    CHECK(memcmp(others.data, "b", 1) == 0);
    /* It ends without releasing anything. */
    return unused;
}

static void other_threads(void) {
    pthread_t thread;
    firndex_bytes key, value;
    pthread_barrier_init(&turn, NULL, 2);
    EXPECT(FIRNDEX_OK, firndex_store_in_memory(NULL, &shared));
    EXPECT(FIRNDEX_OK, firndex_store_put(shared, "a", 1, "b", 1, NULL));
    for (int round = 0; round < 3; round++) {
        CHECK(pthread_create(&thread, NULL, hold, NULL) == 0);
        pthread_barrier_wait(&turn);
        firndex_value copy = others;
        REFUSED(FIRNDEX_ERROR_THREAD, "another thread", firndex_value_release(&copy));
        EXPECT(FIRNDEX_ERROR_THREAD, firndex_store_iterator_next(others_iterator, &key, &value));
        EXPECT(FIRNDEX_ERROR_THREAD, firndex_store_iterator_free(others_iterator));
        REFUSED(FIRNDEX_ERROR_IN_USE, "2 values or iterators", firndex_store_close(shared));
        pthread_barrier_wait(&turn);
        CHECK(pthread_join(thread, NULL) == 0);
        /* Its end has released them. */
        CHECK(firndex_value_release(&copy) < 0);
        CHECK(firndex_store_iterator_free(others_iterator) < 0);
    }
    EXPECT(FIRNDEX_OK, firndex_store_close(shared));
    pthread_barrier_destroy(&turn);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void files(void) {
    firndex_store *opened;
    firndex_table *of_numbers;
    firndex_options options = small();
    const char *letter = in_directory("letter.txt"), *pool = in_directory("store.firn");
    write_file(letter, "Dear reader, this is no pool.\n");
    REFUSED(FIRNDEX_ERROR_NOT_A_POOL, "not a firndex pool", firndex_store_open(letter, FIRNDEX_OPEN, NULL, &opened));
    CHECK(opened == NULL);
    EXPECT(FIRNDEX_ERROR_NOT_A_POOL, firndex_store_open(letter, FIRNDEX_OPEN_OR_CREATE, NULL, &opened));
    EXPECT(FIRNDEX_ERROR_EXISTS, firndex_store_open(letter, FIRNDEX_CREATE, NULL, &opened));
    EXPECT(FIRNDEX_ERROR_NOT_A_POOL, firndex_store_backup(store, letter, FIRNDEX_REPLACE, NULL));
    EXPECT(FIRNDEX_ERROR_NOT_A_POOL, firndex_remove(letter, NULL));
    CHECK(access(letter, F_OK) == 0);
    EXPECT(FIRNDEX_ERROR_PATH, firndex_store_open(directory, FIRNDEX_OPEN, NULL, &opened));
    EXPECT(FIRNDEX_ERROR_PATH, firndex_store_open(in_directory("no/such"), FIRNDEX_CREATE, NULL, &opened));
    REFUSED(FIRNDEX_ERROR_MISSING, "FIRNDEX_OPEN_OR_CREATE", firndex_store_open(pool, FIRNDEX_OPEN, NULL, &opened));

    EXPECT(FIRNDEX_OK, firndex_store_open(pool, FIRNDEX_CREATE, &options, &opened));
    EXPECT(FIRNDEX_OK, firndex_store_put(opened, "a", 1, "b", 1, NULL));
    firndex_store *twice;
    EXPECT(FIRNDEX_ERROR_ALREADY_OPEN, firndex_store_open(pool, FIRNDEX_OPEN, NULL, &twice));
    EXPECT(FIRNDEX_OK, firndex_store_close(opened));
    REFUSED(FIRNDEX_ERROR_MISMATCH, "`firndex_store_open`", firndex_table_open(pool, FIRNDEX_OPEN, NULL, &of_numbers));
    CHECK(of_numbers == NULL);

    /* A damaged one: refused, and made anew if that is asked for. */
    FILE *file = fopen(pool, "r+");
    CHECK(file != NULL);
    for (int i = 0; i < 8192; i++) fputc(i * 7, file);
    CHECK(fclose(file) == 0);
    int refused = firndex_store_open(pool, FIRNDEX_OPEN, NULL, &opened);
    if (refused == FIRNDEX_OK) {
        /* Its log has restored it. */
        EXPECT(FIRNDEX_OK, firndex_store_contains(opened, "a", 1));
        EXPECT(FIRNDEX_OK, firndex_store_close(opened));
    } else {
        CHECK(refused == FIRNDEX_ERROR_NOT_A_POOL || refused == FIRNDEX_ERROR_DAMAGED);
    }
    firndex_options process = small();
    process.durability = FIRNDEX_PROCESS;
    const char *cache = in_directory("cache.firn");
    EXPECT(FIRNDEX_OK, firndex_store_open(cache, FIRNDEX_CREATE, &process, &opened));
    EXPECT(FIRNDEX_OK, firndex_store_put(opened, "a", 1, "b", 1, NULL));
    EXPECT(FIRNDEX_OK, firndex_store_close(opened));
    CHECK(truncate(cache, 8192) == 0);
    REFUSED(FIRNDEX_ERROR_DAMAGED, "`firndex salvage", firndex_store_open(cache, FIRNDEX_OPEN, NULL, &opened));
    process.reset_if_refused = true;
    EXPECT(FIRNDEX_OK, firndex_store_open(cache, FIRNDEX_OPEN, &process, &opened));
    EXPECT(FIRNDEX_RESET, firndex_store_was_reset(opened));
    CHECK(strstr(firndex_message(), "truncated") != NULL);
    EXPECT(FIRNDEX_ABSENT, firndex_store_contains(opened, "a", 1));
    EXPECT(FIRNDEX_OK, firndex_store_close(opened));
}

static void wrong_options(void) {
    firndex_store *made;
    firndex_options options = FIRNDEX_OPTIONS_INIT;
    options.struct_size = 0;
    REFUSED(FIRNDEX_ERROR_ARGUMENT, "FIRNDEX_OPTIONS_INIT", firndex_store_in_memory(&options, &made));
    options.struct_size = SIZE_MAX;
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_in_memory(&options, &made));
#define WRONG(code, words, field, value)                                  \
    do {                                                                  \
        firndex_options wrong = FIRNDEX_OPTIONS_INIT;                     \
        wrong.field = value;                                              \
        REFUSED(code, words, firndex_store_in_memory(&wrong, &made));     \
        CHECK(made == NULL);                                              \
    } while (0)
    WRONG(FIRNDEX_ERROR_OPTION, "iceberg", engine, "no-such-engine");
    WRONG(FIRNDEX_ERROR_OPTION, "`firndex_options.max_bytes`", max_bytes, 10);
    WRONG(FIRNDEX_ERROR_OPTION, "`firndex_options.durable_every_us`", durable_every_us, 1);
    WRONG(FIRNDEX_ERROR_OPTION, "`firndex_options.resize_at`", resize_at, -1);
    WRONG(FIRNDEX_ERROR_OPTION, "`firndex_options.helpers`", helpers, -2);
    WRONG(FIRNDEX_ERROR_OPTION, "`firndex_options.threads`", threads, 5000);
    WRONG(FIRNDEX_ERROR_ARGUMENT, "FIRNDEX_COMMIT", durability, 9);
    WRONG(FIRNDEX_ERROR_ARGUMENT, "FIRNDEX_DAX", medium, -1);
    WRONG(FIRNDEX_ERROR_ARGUMENT, "FIRNDEX_YES", keep_sums, 3);
    WRONG(FIRNDEX_ERROR_ARGUMENT, "parameters", parameters_count, 1);
    firndex_parameter no_name = {NULL, 1};
    options = (firndex_options)FIRNDEX_OPTIONS_INIT;
    options.parameters = &no_name;
    options.parameters_count = 1;
    EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_in_memory(&options, &made));
    no_name.name = "shelves";
    REFUSED(FIRNDEX_ERROR_OPTION, "shelves", firndex_store_in_memory(&options, &made));
    firndex_stats stats = {.struct_size = 3};
    REFUSED(FIRNDEX_ERROR_ARGUMENT, "FIRNDEX_STATS_INIT", firndex_store_stats(store, &stats));
}

static void limits(void) {
    static char large[70000];
    EXPECT(FIRNDEX_OK, firndex_store_put(store, large, 65536, "b", 1, NULL));
    EXPECT(FIRNDEX_OK, firndex_store_remove(store, large, 65536, NULL));
    REFUSED(FIRNDEX_ERROR_TOO_LONG, "65537 bytes", firndex_store_put(store, large, 65537, "b", 1, NULL));
    size_t size = (256 << 20) + 1;
    char *value = malloc(size);
    CHECK(value != NULL);
    REFUSED(FIRNDEX_ERROR_TOO_LONG, "store it in parts", firndex_store_put(store, "a", 1, value, size, NULL));
    free(value);
    EXPECT(FIRNDEX_ABSENT, firndex_store_contains(store, "a", 1));
}

/* Ends a child that has found nothing wrong. By a signal: what it has inherited, it leaves alone, which a tool that looks
 * for leaks would report. */
static void end_child(void) {
    kill(getpid(), SIGKILL);
}

/* What a pool that another process holds gets, and a handle that was open before a fork. */
static void processes(void) {
    firndex_store *mine;
    firndex_options options = small();
    const char *pool = in_directory("held.firn");
    int up[2], down[2], status;
    char byte;
    CHECK(pipe(up) == 0 && pipe(down) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        firndex_store *theirs;
        /* The handle of the parent. */
        REFUSED(FIRNDEX_ERROR_FORKED, "forked", firndex_store_put(store, "a", 1, "b", 1, NULL));
        EXPECT(FIRNDEX_OK, firndex_store_open(pool, FIRNDEX_CREATE, &options, &theirs));
        EXPECT(FIRNDEX_OK, firndex_store_put(theirs, "a", 1, "b", 1, NULL));
        CHECK(write(up[1], "+", 1) == 1 && read(down[0], &byte, 1) == 1);
        EXPECT(FIRNDEX_OK, firndex_store_close(theirs));
        EXPECT(FIRNDEX_ERROR_FORKED, firndex_store_close(store));
        EXPECT(FIRNDEX_ERROR_CLOSED, firndex_store_close(store));
        end_child();
    }
    CHECK(read(up[0], &byte, 1) == 1);
    REFUSED(FIRNDEX_ERROR_BUSY, "another process", firndex_store_open(pool, FIRNDEX_OPEN, &options, &mine));
    CHECK(mine == NULL);
    CHECK(write(down[1], "+", 1) == 1);
    options.wait_ms = 60000;
    EXPECT(FIRNDEX_OK, firndex_store_open(pool, FIRNDEX_OPEN, &options, &mine));
    EXPECT(FIRNDEX_OK, firndex_store_contains(mine, "a", 1));
    EXPECT(FIRNDEX_OK, firndex_store_close(mine));
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    EXPECT(FIRNDEX_OK, firndex_store_put(store, "a", 1, "b", 1, NULL));
    EXPECT(FIRNDEX_OK, firndex_store_remove(store, "a", 1, NULL));
}

static atomic_bool is_over;

static void *keep_calling(void *unused) {
    while (!atomic_load(&is_over)) {
        EXPECT(FIRNDEX_ABSENT, firndex_store_contains(store, "a", 1));
        if (is_watched) usleep(1000);
    }
    return unused;
}

/* A child has copies of what its parent's other threads were doing, which nobody there will ever end. */
static void forks_beside_calls(void) {
    pthread_t thread;
    int status;
    CHECK(pthread_create(&thread, NULL, keep_calling, NULL) == 0);
    for (int i = 0; i < (is_watched ? 2 : 30); i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(60);
            EXPECT(FIRNDEX_ERROR_FORKED, firndex_store_contains(store, "a", 1));
            EXPECT(FIRNDEX_ERROR_FORKED, firndex_store_close(store));
            end_child();
        }
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    atomic_store(&is_over, true);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* A pool that was not closed cannot be opened for reading only. */
static void no_recovery_for_readers(void) {
    firndex_options options = small();
    const char *pool = in_directory("left.firn");
    firndex_store *left;
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        EXPECT(FIRNDEX_OK, firndex_store_open(pool, FIRNDEX_CREATE, &options, &left));
        EXPECT(FIRNDEX_OK, firndex_store_put(left, "a", 1, "b", 1, NULL));
        end_child();
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    options.read_only = true;
    EXPECT(FIRNDEX_ERROR_NEEDS_RECOVERY, firndex_store_open(pool, FIRNDEX_OPEN, &options, &left));
    options.read_only = false;
    EXPECT(FIRNDEX_OK, firndex_store_open(pool, FIRNDEX_OPEN, &options, &left));
    EXPECT(FIRNDEX_OK, firndex_store_contains(left, "a", 1));
    EXPECT(FIRNDEX_OK, firndex_store_close(left));
}

/* As many as can be open at once, and one more. */
static void too_many(void) {
    enum { MANY = 4096 };
    static firndex_table *tables[MANY];
    firndex_options options = FIRNDEX_OPTIONS_INIT;
    options.max_bytes = 1 << 20;
    options.helpers = FIRNDEX_NO_HELPERS;
    firndex_code code = FIRNDEX_OK;
    int made = 0;
    while (made < MANY && (code = firndex_table_in_memory(&options, &tables[made])) == FIRNDEX_OK) made++;
    /* The system may have a limit of its own before. */
    CHECK(code != FIRNDEX_OK && made > 100);
    if (code == FIRNDEX_ERROR_TOO_MANY) CHECK(made == MANY - 2 && strstr(firndex_message(), "4096") != NULL);
    for (int i = 0; i < made; i++) EXPECT(FIRNDEX_OK, firndex_table_close(tables[i]));
    EXPECT(FIRNDEX_OK, firndex_table_in_memory(&options, &tables[0]));
    EXPECT(FIRNDEX_OK, firndex_table_close(tables[0]));
}

int main(int argc, char **argv) {
    is_watched = argc > 1 && strcmp(argv[1], "watched") == 0;
    firndex_options options = small();
    make_directory();
    EXPECT(FIRNDEX_OK, firndex_store_in_memory(is_watched ? &options : NULL, &store));
    EXPECT(FIRNDEX_OK, firndex_table_in_memory(is_watched ? &options : NULL, &table));
    nothing();
    handles();
    lent_values();
    other_threads();
    files();
    wrong_options();
    limits();
    processes();
    forks_beside_calls();
    no_recovery_for_readers();
    if (!is_watched) too_many();
    EXPECT(FIRNDEX_OK, firndex_table_close(table));
    EXPECT(FIRNDEX_OK, firndex_store_close(store));
    remove_directory();
    return 0;
}
