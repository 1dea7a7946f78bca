// The authors' IcebergHT. Their sources are included instead of compiled by themselves: that way the small
// functions are inlined across files, as their Makefile has it with -flto, and the gaps between what they
// offer and what a contender promises can be closed from outside.

#include "partitioned_counter.c"
#include "hashutil.c"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// An insertion returns true for a present key too. Only one that stores something counts it, so the
// count tells the two apart.
static _Thread_local int64_t counted;

// A removal that finds level 3 of its block empty leaves that level locked, and the next thread that wants
// the lock waits for ever. This is the lock that the last taker found with nothing behind it.
static _Thread_local uint8_t* empty_locked;

static inline uint8_t take_level_3(uint8_t* lock, const uint64_t* pairs) {
    const uint8_t before = __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE);
    if (before == 0) empty_locked = *pairs == 0 ? lock : NULL;
    return before;
}

// The tables come from the allocator that all other maps use, which asks for 2 MiB pages. Being zeroed
// touches them, as MAP_POPULATE does.
static void* zeroed_pages(size_t bytes) {
    const size_t huge_page = 2 << 20, page = 4096;
    const size_t alignment = bytes < huge_page ? page : huge_page;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void* pages = aligned_alloc(alignment, rounded);
    return pages == NULL ? NULL : memset(pages, 0, bytes);
}

#define pc_add(counter, count, thread) (counted += (count), pc_add(counter, count, thread))
#define __sync_lock_test_and_set(lock, one) take_level_3(lock, metadata->lv3_sizes[bindex] + boffset)
#define mmap(address, bytes, protection, flags, file, offset) ((void)(flags), zeroed_pages(bytes))

#include "iceberg_table.c"

#undef pc_add
#undef __sync_lock_test_and_set
#undef mmap

// A thread's number is the place of its counters, and there are as many places as processors. More threads
// than that share them, which is sound: they are atomic.
static uint8_t thread_number(const iceberg_table* table) {
    static uint32_t threads;
    static _Thread_local int32_t number = -1;
    if (number < 0) {
        const uint32_t places = table->metadata.lv1_balls.num_counters;
        const uint32_t thread = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
        number = (int32_t)(thread % (places < 256 ? places : 256));
    }
    return (uint8_t)number;
}

void iceberght_free(void* map) {
    iceberg_table* table = map;
    iceberg_metadata* metadata = &table->metadata;
    for (uint64_t block = 0; block < metadata->nblocks; block++) {
        for (iceberg_lv3_node* node = table->level3[0][block].head; node != NULL;) {
            iceberg_lv3_node* next = node->next_node;
            free(node);
            node = next;
        }
    }
    pc_destructor(&metadata->lv1_balls);
    pc_destructor(&metadata->lv2_balls);
    pc_destructor(&metadata->lv3_balls);
    free(table->level1[0]);
    free(table->level2[0]);
    free(table->level3[0]);
    free(metadata->lv1_md[0]);
    free(metadata->lv2_md[0]);
    free(metadata->lv3_sizes[0]);
    free(metadata->lv3_locks[0]);
    free(table);
}

// Has room for so many pairs by the rule of firndex's Iceberg, so that both have tables of one size. It hashes
// with its own function, whatever the numbers.
void* iceberght_new(uint64_t pairs, uint64_t seed, uint64_t secret) {
    (void)seed, (void)secret;
    const double load_factor_max = 0.85;
    const uint64_t block_slots = sizeof(iceberg_lv1_block_md) + sizeof(iceberg_lv2_block_md);
    uint64_t blocks_log2 = 4;
    while ((double)(block_slots << blocks_log2) * load_factor_max <= (double)pairs) blocks_log2++;

    iceberg_table* table = malloc(sizeof(iceberg_table));
    if (table == NULL) return NULL;
    if (iceberg_init(table, blocks_log2 + SLOT_BITS) != 0) {
        free(table);
        return NULL;
    }
    return table;
}

bool iceberght_get(const void* map, uint64_t key, uint64_t* value) {
    // Not const in their header, but only read. The thread's number is not looked at.
    return iceberg_get_value((iceberg_table*)map, key, value, 0);
}

bool iceberght_insert(void* map, uint64_t key, uint64_t value) {
    counted = 0;
    return iceberg_insert(map, key, value, thread_number(map)) && counted != 0;
}

bool iceberght_remove(void* map, uint64_t key) {
    empty_locked = NULL;
    const bool found = iceberg_remove(map, key, thread_number(map));
    if (!found && empty_locked != NULL) __atomic_store_n(empty_locked, 0, __ATOMIC_RELEASE);
    return found;
}

// They have no update. Removing and inserting is what a user can do; in between, the key is absent.
bool iceberght_upsert(void* map, uint64_t key, uint64_t value) {
    const bool found = iceberght_remove(map, key);
    iceberg_insert(map, key, value, thread_number(map));
    return found;
}

bool iceberght_update(void* map, uint64_t key, uint64_t value) {
    const bool found = iceberght_remove(map, key);
    if (found) iceberg_insert(map, key, value, thread_number(map));
    return found;
}
