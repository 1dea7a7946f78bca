/* Tables: what each call does. */

#include "check.h"

static void one_key(firndex_table *table) {
    uint64_t value = 77;
    firndex_state state;
    EXPECT(FIRNDEX_ABSENT, firndex_table_get(table, 1, &value));
    EXPECT(FIRNDEX_OK, firndex_table_put(table, 1, 10, &state));
    CHECK(!state.is_present && state.value == 0);
    EXPECT(FIRNDEX_OK, firndex_table_get(table, 1, &value));
    CHECK(value == 10);
    EXPECT(FIRNDEX_OK, firndex_table_contains(table, 1));
    EXPECT(FIRNDEX_ABSENT, firndex_table_contains(table, 2));
    EXPECT(FIRNDEX_OK, firndex_table_put(table, 1, 11, &state));
    CHECK(state.is_present && state.value == 10);
    EXPECT(FIRNDEX_PRESENT, firndex_table_insert(table, 1, 12, &state));
    CHECK(state.is_present && state.value == 11);
    EXPECT(FIRNDEX_OK, firndex_table_insert(table, UINT64_MAX, 0, &state));
    CHECK(!state.is_present);
    EXPECT(FIRNDEX_OK, firndex_table_update(table, UINT64_MAX, UINT64_MAX, &state));
    CHECK(state.is_present && state.value == 0);
    EXPECT(FIRNDEX_ABSENT, firndex_table_update(table, 2, 20, NULL));
    EXPECT(FIRNDEX_OK, firndex_table_remove(table, UINT64_MAX, &state));
    CHECK(state.is_present && state.value == UINT64_MAX);
    EXPECT(FIRNDEX_ABSENT, firndex_table_remove(table, UINT64_MAX, &state));
    CHECK(!state.is_present);

    uint64_t expected = 11, desired = 13;
    EXPECT(FIRNDEX_OK, firndex_table_compare_exchange(table, 1, &expected, &desired, &state));
    CHECK(state.is_present && state.value == 11);
    EXPECT(FIRNDEX_DIFFERENT, firndex_table_compare_exchange(table, 1, &expected, NULL, &state));
    CHECK(state.is_present && state.value == 13);
    EXPECT(FIRNDEX_OK, firndex_table_compare_exchange(table, 1, &desired, NULL, NULL));
    EXPECT(FIRNDEX_DIFFERENT, firndex_table_compare_exchange(table, 1, &desired, NULL, &state));
    CHECK(!state.is_present);
    EXPECT(FIRNDEX_OK, firndex_table_compare_exchange(table, 1, NULL, &desired, NULL));
    EXPECT(FIRNDEX_OK, firndex_table_remove(table, 1, NULL));
}

static void many_keys(firndex_table *table) {
    enum { PAIRS = 5000 };
    static uint64_t keys[PAIRS], values[PAIRS];
    static firndex_state states[PAIRS];
    static int codes[PAIRS];
    static bool seen[PAIRS];
    for (uint64_t i = 0; i < PAIRS; i++) {
        keys[i] = i;
        values[i] = i * i;
    }
    EXPECT(FIRNDEX_OK, firndex_table_put_many(table, keys, values, PAIRS, NULL));
    keys[7] = PAIRS + 7;
    EXPECT(FIRNDEX_OK, firndex_table_get_many(table, keys, PAIRS, states));
    CHECK(!states[7].is_present && states[7].value == 0);
    CHECK(states[8].is_present && states[8].value == 64 && states[PAIRS - 1].is_present);
    EXPECT(FIRNDEX_OK, firndex_table_insert_many(table, keys, values, 9, codes));
    CHECK(codes[7] == FIRNDEX_OK && codes[8] == FIRNDEX_PRESENT);
    keys[7] = 2 * PAIRS;
    EXPECT(FIRNDEX_OK, firndex_table_update_many(table, keys, keys, 9, codes));
    CHECK(codes[7] == FIRNDEX_ABSENT && codes[8] == FIRNDEX_OK);
    EXPECT(FIRNDEX_OK, firndex_table_get(table, 8, &values[8]));
    CHECK(values[8] == 8);
    keys[7] = PAIRS + 7;
    keys[9] = 3 * PAIRS;
    EXPECT(FIRNDEX_OK, firndex_table_remove_many(table, &keys[7], 3, codes));
    CHECK(codes[0] == FIRNDEX_OK && codes[1] == FIRNDEX_OK && codes[2] == FIRNDEX_ABSENT);
    EXPECT(FIRNDEX_OK, firndex_table_insert(table, 8, 8, NULL));

    firndex_table_iterator *iterator;
    uint64_t key, value, pairs = 0;
    firndex_code code;
    EXPECT(FIRNDEX_OK, firndex_table_iterate(table, &iterator));
    while ((code = firndex_table_iterator_next(iterator, &key, &value)) == FIRNDEX_OK) {
        CHECK(key < PAIRS && !seen[key] && value == (key < 9 && key != 7 ? key : key * key));
        seen[key] = true;
        pairs++;
    }
    CHECK(code == FIRNDEX_END && pairs == PAIRS);
    EXPECT(FIRNDEX_END, firndex_table_iterator_next(iterator, &key, &value));
    EXPECT(FIRNDEX_OK, firndex_table_iterator_free(iterator));
}

/* A batch that fails says what became of each entry. */
static void a_batch_that_fails(void) {
    enum { PAIRS = 200000 };
    uint64_t *keys = malloc(PAIRS * sizeof *keys), len, done = 0, failed = 0;
    int *codes = malloc(PAIRS * sizeof *codes);
    firndex_options options = FIRNDEX_OPTIONS_INIT;
    options.max_bytes = 1 << 20;
    firndex_table *table;
    CHECK(keys != NULL && codes != NULL);
    for (uint64_t i = 0; i < PAIRS; i++) keys[i] = i;
    EXPECT(FIRNDEX_OK, firndex_table_in_memory(&options, &table));
    REFUSED(FIRNDEX_ERROR_FULL, "entries took effect", firndex_table_put_many(table, keys, keys, PAIRS, codes));
    for (uint64_t i = 0; i < PAIRS; i++) {
        bool is_there = firndex_table_contains(table, i) == FIRNDEX_OK;
        CHECK(is_there == (codes[i] == FIRNDEX_OK));
        done += is_there;
        failed += codes[i] == FIRNDEX_ERROR_FULL;
    }
    EXPECT(FIRNDEX_OK, firndex_table_len(table, &len));
    CHECK(done == len && len > 10000 && failed == 1);
    EXPECT(FIRNDEX_OK, firndex_table_close(table));
    free(keys);
    free(codes);
}

int main(void) {
    make_directory();
    firndex_options options = small();
    firndex_table *table;
    firndex_stats stats = FIRNDEX_STATS_INIT;
    firndex_copied copied;
    const char *path = in_directory("pool.firn"), *copy = in_directory("copy.firn");
    uint64_t len;
    bool is_halved = true;
    EXPECT(FIRNDEX_OK, firndex_table_open(path, FIRNDEX_CREATE, &options, &table));
    one_key(table);
    many_keys(table);
    EXPECT(FIRNDEX_OK, firndex_table_sync(table));
    EXPECT(FIRNDEX_OK, firndex_table_check(table));
    EXPECT(FIRNDEX_OK, firndex_table_stats(table, &stats));
    CHECK(stats.pairs == 5000 && stats.heap_bytes == 0);
    EXPECT(stats.is_logged ? FIRNDEX_OK : FIRNDEX_ERROR_NOT_LOGGED, firndex_table_commit(table));
    EXPECT(FIRNDEX_OK, firndex_table_shrink(table, &is_halved));
    EXPECT(FIRNDEX_OK, firndex_table_shrink(table, NULL));
    EXPECT(FIRNDEX_OK, firndex_table_was_reset(table));
    EXPECT(FIRNDEX_OK, firndex_table_backup(table, copy, FIRNDEX_KEEP, &copied));
    CHECK(copied.pairs == 5000);
    EXPECT(FIRNDEX_OK, firndex_table_close(table));
    EXPECT(FIRNDEX_ERROR_CLOSED, firndex_table_put(table, 1, 1, NULL));
    EXPECT(FIRNDEX_OK, firndex_table_open(copy, FIRNDEX_OPEN, NULL, &table));
    EXPECT(FIRNDEX_OK, firndex_table_len(table, &len));
    CHECK(len == 5000);
    EXPECT(FIRNDEX_OK, firndex_table_close(table));
    a_batch_that_fails();
    remove_directory();
    return 0;
}
