/* Stores: what each call does. */

#include "check.h"

#define TEXT(text) text, sizeof text - 1

static bool is(const void *data, size_t size, const char *text) {
    return size == strlen(text) && memcmp(data, text, size) == 0;
}

static firndex_bytes of(const char *text) {
    firndex_bytes bytes = {text, strlen(text)};
    return bytes;
}

static void one_key(firndex_store *store) {
    char buffer[16];
    size_t size = 77;
    EXPECT(FIRNDEX_ABSENT, firndex_store_get(store, TEXT("apple"), buffer, sizeof buffer, &size));
    EXPECT(FIRNDEX_ABSENT, firndex_store_contains(store, TEXT("apple")));
    EXPECT(FIRNDEX_OK, firndex_store_put(store, TEXT("apple"), TEXT("red"), NULL));
    EXPECT(FIRNDEX_OK, firndex_store_contains(store, TEXT("apple")));
    EXPECT(FIRNDEX_OK, firndex_store_get(store, TEXT("apple"), buffer, sizeof buffer, &size));
    CHECK(is(buffer, size, "red"));

    /* A buffer that is too small stays as it is, and one that fits exactly does. */
    memset(buffer, '#', sizeof buffer);
    size = 77;
    EXPECT(FIRNDEX_ERROR_TOO_SMALL, firndex_store_get(store, TEXT("apple"), buffer, 2, &size));
    CHECK(size == 3 && buffer[0] == '#' && strstr(firndex_message(), "3 bytes") != NULL);
    EXPECT(FIRNDEX_ERROR_TOO_SMALL, firndex_store_get(store, TEXT("apple"), NULL, 0, &size));
    CHECK(size == 3);
    EXPECT(FIRNDEX_OK, firndex_store_get(store, TEXT("apple"), buffer, 3, &size));
    CHECK(is(buffer, 3, "red") && buffer[3] == '#');

    firndex_value former;
    EXPECT(FIRNDEX_OK, firndex_store_put(store, TEXT("apple"), TEXT("green"), &former));
    CHECK(is(former.data, former.size, "red"));
    EXPECT(FIRNDEX_OK, firndex_value_release(&former));
    EXPECT(FIRNDEX_PRESENT, firndex_store_insert(store, TEXT("apple"), TEXT("blue"), &former));
    CHECK(is(former.data, former.size, "green"));
    EXPECT(FIRNDEX_OK, firndex_value_release(&former));
    EXPECT(FIRNDEX_OK, firndex_store_insert(store, TEXT("pear"), TEXT("yellow"), &former));
    CHECK(former.hold == 0 && former.data == NULL && former.size == 0);
    EXPECT(FIRNDEX_OK, firndex_value_release(&former));
    EXPECT(FIRNDEX_ABSENT, firndex_store_update(store, TEXT("plum"), TEXT("blue"), NULL));
    EXPECT(FIRNDEX_ABSENT, firndex_store_contains(store, TEXT("plum")));
    EXPECT(FIRNDEX_OK, firndex_store_update(store, TEXT("pear"), TEXT("brown"), &former));
    CHECK(is(former.data, former.size, "yellow"));
    EXPECT(FIRNDEX_OK, firndex_value_release(&former));
    EXPECT(FIRNDEX_OK, firndex_store_remove(store, TEXT("pear"), &former));
    CHECK(is(former.data, former.size, "brown"));
    EXPECT(FIRNDEX_OK, firndex_value_release(&former));
    EXPECT(FIRNDEX_ABSENT, firndex_store_remove(store, TEXT("pear"), NULL));

    /* Empty keys and values are like others, and differ from absence. */
    EXPECT(FIRNDEX_OK, firndex_store_put(store, NULL, 0, NULL, 0, NULL));
    EXPECT(FIRNDEX_OK, firndex_store_get(store, "", 0, NULL, 0, &size));
    CHECK(size == 0);
    EXPECT(FIRNDEX_OK, firndex_store_get_value(store, NULL, 0, &former));
    CHECK(former.hold != 0 && former.size == 0 && former.data != NULL);
    EXPECT(FIRNDEX_OK, firndex_value_release(&former));
    EXPECT(FIRNDEX_OK, firndex_store_remove(store, NULL, 0, NULL));

    /* Zeros are bytes. */
    EXPECT(FIRNDEX_OK, firndex_store_put(store, "a\0b", 3, "c\0d", 3, NULL));
    EXPECT(FIRNDEX_ABSENT, firndex_store_contains(store, "a", 1));
    EXPECT(FIRNDEX_OK, firndex_store_get(store, "a\0b", 3, buffer, sizeof buffer, &size));
    CHECK(size == 3 && memcmp(buffer, "c\0d", 3) == 0);
    EXPECT(FIRNDEX_OK, firndex_store_remove(store, "a\0b", 3, NULL));
}

/* A value that is lent stays as it is, whatever becomes of its key. */
static void values_that_are_lent(firndex_store *store) {
    firndex_value before, now;
    EXPECT(FIRNDEX_OK, firndex_store_put(store, TEXT("lent"), TEXT("first"), NULL));
    EXPECT(FIRNDEX_OK, firndex_store_get_value(store, TEXT("lent"), &before));
    for (int i = 0; i < 10000; i++)
        EXPECT(FIRNDEX_OK, firndex_store_put(store, TEXT("lent"), i % 2 ? "other" : "later", 5, NULL));
    CHECK(is(before.data, before.size, "first"));
    EXPECT(FIRNDEX_OK, firndex_store_get_value(store, TEXT("lent"), &now));
    CHECK(is(now.data, now.size, "other"));
    EXPECT(FIRNDEX_OK, firndex_value_release(&before));
    CHECK(before.data == NULL && before.size == 0);
    CHECK(is(now.data, now.size, "other"));
    EXPECT(FIRNDEX_OK, firndex_value_release(&now));
    EXPECT(FIRNDEX_OK, firndex_store_remove(store, TEXT("lent"), NULL));
}

static void states(firndex_store *store) {
    firndex_bytes unlocked = of("free"), mine = of("mine"), yours = of("yours");
    firndex_value found;
    EXPECT(FIRNDEX_OK, firndex_store_compare_exchange(store, TEXT("lock"), NULL, &unlocked, &found));
    CHECK(found.hold == 0);
    EXPECT(FIRNDEX_OK, firndex_store_compare_exchange(store, TEXT("lock"), &unlocked, &mine, NULL));
    EXPECT(FIRNDEX_DIFFERENT, firndex_store_compare_exchange(store, TEXT("lock"), &unlocked, &yours, &found));
    CHECK(is(found.data, found.size, "mine"));
    EXPECT(FIRNDEX_OK, firndex_value_release(&found));
    EXPECT(FIRNDEX_DIFFERENT, firndex_store_compare_exchange(store, TEXT("lock"), NULL, &yours, NULL));
    EXPECT(FIRNDEX_OK, firndex_store_compare_exchange(store, TEXT("lock"), &mine, NULL, NULL));
    EXPECT(FIRNDEX_DIFFERENT, firndex_store_compare_exchange(store, TEXT("lock"), &mine, NULL, &found));
    CHECK(found.hold == 0);
    EXPECT(FIRNDEX_ABSENT, firndex_store_contains(store, TEXT("lock")));
}

static void batches(firndex_store *store) {
    firndex_pair pairs[3] = {{of("a"), of("1")}, {of("b"), of("2")}, {of("c"), of("3")}};
    firndex_bytes keys[4] = {of("b"), of("nobody"), of("c"), of("a")};
    firndex_value values[4];
    int codes[4] = {77, 77, 77, 77};
    EXPECT(FIRNDEX_OK, firndex_store_put_many(store, pairs, 3, codes));
    CHECK(codes[0] == FIRNDEX_OK && codes[2] == FIRNDEX_OK && codes[3] == 77);
    EXPECT(FIRNDEX_OK, firndex_store_get_many(store, keys, 4, values));
    CHECK(is(values[0].data, values[0].size, "2") && is(values[2].data, values[2].size, "3"));
    CHECK(is(values[3].data, values[3].size, "1") && values[1].hold == 0 && values[1].data == NULL);
    EXPECT(FIRNDEX_OK, firndex_values_release(values, 4));
    CHECK(values[0].data == NULL);
    EXPECT(FIRNDEX_ERROR_RELEASED, firndex_values_release(values, 4));

    pairs[0] = (firndex_pair){of("d"), of("4")};
    pairs[1].value = of("20");
    EXPECT(FIRNDEX_OK, firndex_store_insert_many(store, pairs, 2, codes));
    CHECK(codes[0] == FIRNDEX_OK && codes[1] == FIRNDEX_PRESENT);
    pairs[0].key = of("nobody");
    EXPECT(FIRNDEX_OK, firndex_store_update_many(store, pairs, 2, codes));
    CHECK(codes[0] == FIRNDEX_ABSENT && codes[1] == FIRNDEX_OK);
    EXPECT(FIRNDEX_OK, firndex_store_get_value(store, TEXT("b"), values));
    CHECK(is(values[0].data, values[0].size, "20"));
    EXPECT(FIRNDEX_OK, firndex_value_release(values));
    EXPECT(FIRNDEX_OK, firndex_store_remove_many(store, keys, 4, codes));
    CHECK(codes[0] == FIRNDEX_OK && codes[1] == FIRNDEX_ABSENT && codes[3] == FIRNDEX_OK);
    EXPECT(FIRNDEX_OK, firndex_store_remove(store, TEXT("d"), NULL));
    EXPECT(FIRNDEX_OK, firndex_store_put_many(store, NULL, 0, NULL));
    EXPECT(FIRNDEX_OK, firndex_store_get_many(store, NULL, 0, NULL));
}

/* A batch that fails says what became of each entry. */
static void a_batch_that_fails(void) {
    enum { PAIRS = 3000 };
    static char value[1000];
    static int numbers[PAIRS], codes[PAIRS];
    static firndex_pair pairs[PAIRS];
    firndex_options options = FIRNDEX_OPTIONS_INIT;
    options.max_bytes = 1 << 20;
    firndex_store *store;
    EXPECT(FIRNDEX_OK, firndex_store_in_memory(&options, &store));
    for (int i = 0; i < PAIRS; i++) {
        numbers[i] = i;
        pairs[i] = (firndex_pair){{&numbers[i], sizeof numbers[i]}, {value, sizeof value}};
    }
    REFUSED(FIRNDEX_ERROR_FULL, "entries took effect", firndex_store_put_many(store, pairs, PAIRS, codes));
    CHECK(strstr(firndex_message(), "firndex_options.max_bytes") != NULL);
    uint64_t done = 0, failed = 0, len;
    for (int i = 0; i < PAIRS; i++) {
        bool is_there = firndex_store_contains(store, &numbers[i], sizeof numbers[i]) == FIRNDEX_OK;
        CHECK(is_there == (codes[i] == FIRNDEX_OK));
        CHECK(is_there || codes[i] == FIRNDEX_UNDONE || codes[i] == FIRNDEX_ERROR_FULL);
        done += is_there;
        failed += codes[i] == FIRNDEX_ERROR_FULL;
    }
    EXPECT(FIRNDEX_OK, firndex_store_len(store, &len));
    CHECK(done == len && done > 100 && failed == 1);

    /* Nothing of a batch with a key that is too long is stored. */
    static char longest[70000];
    firndex_pair wrong[2] = {{of("first"), of("1")}, {{longest, sizeof longest}, of("2")}};
    REFUSED(FIRNDEX_ERROR_TOO_LONG, "70000 bytes", firndex_store_put_many(store, wrong, 2, codes));
    CHECK(codes[0] == FIRNDEX_UNDONE && codes[1] == FIRNDEX_ERROR_TOO_LONG);
    EXPECT(FIRNDEX_ABSENT, firndex_store_contains(store, TEXT("first")));
    EXPECT(FIRNDEX_OK, firndex_store_close(store));
}

static void iteration(firndex_store *store) {
    enum { PAIRS = 5000 };
    static bool seen[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        int twice = 2 * i;
        EXPECT(FIRNDEX_OK, firndex_store_put(store, &i, sizeof i, &twice, sizeof twice, NULL));
    }
    firndex_store_iterator *iterator;
    firndex_bytes key, value;
    EXPECT(FIRNDEX_OK, firndex_store_iterate(store, &iterator));
    for (int pairs = 0; pairs < PAIRS + 1; pairs++) {
        int number, twice;
        EXPECT(FIRNDEX_OK, firndex_store_iterator_next(iterator, &key, &value));
        if (is(key.data, key.size, "apple")) continue;
        CHECK(key.size == sizeof number && value.size == sizeof twice);
        memcpy(&number, key.data, sizeof number);
        memcpy(&twice, value.data, sizeof twice);
        CHECK(number >= 0 && number < PAIRS && !seen[number] && twice == 2 * number);
        seen[number] = true;
        /* What was told stays, whatever is written. */
        EXPECT(FIRNDEX_OK, firndex_store_put(store, &number, sizeof number, &twice, sizeof twice, NULL));
        CHECK(memcmp(key.data, &number, sizeof number) == 0);
    }
    EXPECT(FIRNDEX_END, firndex_store_iterator_next(iterator, &key, &value));
    EXPECT(FIRNDEX_END, firndex_store_iterator_next(iterator, &key, &value));
    EXPECT(FIRNDEX_OK, firndex_store_iterator_free(iterator));
    uint64_t len;
    EXPECT(FIRNDEX_OK, firndex_store_len(store, &len));
    CHECK(len == PAIRS + 1); /* with the apple */
}

static void pools(void) {
    firndex_options options = small();
    firndex_store *store, *again;
    const char *path = in_directory("pool.firn");
    EXPECT(FIRNDEX_OK, firndex_store_open(path, FIRNDEX_CREATE, &options, &store));
    one_key(store);
    values_that_are_lent(store);
    states(store);
    batches(store);
    iteration(store);
    EXPECT(FIRNDEX_OK, firndex_store_sync(store));
    EXPECT(FIRNDEX_OK, firndex_store_check(store));

    firndex_stats stats = FIRNDEX_STATS_INIT;
    EXPECT(FIRNDEX_OK, firndex_store_stats(store, &stats));
    CHECK(stats.pairs == 5001 && stats.capacity >= 5001 && stats.load_factor > 0 && stats.load_factor < 1);
    CHECK(strlen(stats.engine) > 3 && stats.incarnation == 1 && stats.heap_used_bytes > 5001 * 8);
    CHECK(stats.struct_size == sizeof stats && stats.durability >= FIRNDEX_PROCESS);
    CHECK(stats.is_logged == (stats.durability != FIRNDEX_PROCESS));
    EXPECT(stats.is_logged ? FIRNDEX_OK : FIRNDEX_ERROR_NOT_LOGGED, firndex_store_commit(store));

    firndex_copied copied;
    const char *copy = in_directory("copy.firn");
    EXPECT(FIRNDEX_OK, firndex_store_backup(store, copy, FIRNDEX_KEEP, &copied));
    CHECK(copied.pairs == 5001 && copied.bytes > 5001 * 8);
    EXPECT(FIRNDEX_ERROR_EXISTS, firndex_store_backup(store, copy, FIRNDEX_KEEP, &copied));
    EXPECT(FIRNDEX_OK, firndex_store_backup(store, copy, FIRNDEX_REPLACE, NULL));
    EXPECT(FIRNDEX_OK, firndex_store_open(copy, FIRNDEX_OPEN, NULL, &again));
    EXPECT(FIRNDEX_OK, firndex_store_contains(again, TEXT("apple")));
    EXPECT(FIRNDEX_OK, firndex_store_close(again));
    EXPECT(FIRNDEX_OK, firndex_remove(copy, NULL));
    EXPECT(FIRNDEX_ERROR_MISSING, firndex_store_open(copy, FIRNDEX_OPEN, NULL, &again));

    for (int i = 100; i < 5000; i++) EXPECT(FIRNDEX_OK, firndex_store_remove(store, &i, sizeof i, NULL));
    uint64_t freed = 0;
    bool is_halved = false;
    EXPECT(FIRNDEX_OK, firndex_store_compact(store, &freed));
    EXPECT(FIRNDEX_OK, firndex_store_compact(store, NULL));
    EXPECT(FIRNDEX_OK, firndex_store_shrink(store, &is_halved));
    CHECK(is_halved);
    EXPECT(FIRNDEX_OK, firndex_store_was_reset(store));
    EXPECT(FIRNDEX_OK, firndex_store_close(store));

    EXPECT(FIRNDEX_OK, firndex_store_open(path, FIRNDEX_OPEN_OR_CREATE, &options, &store));
    uint64_t len;
    EXPECT(FIRNDEX_OK, firndex_store_len(store, &len));
    CHECK(len == 101);
    EXPECT(FIRNDEX_OK, firndex_store_check(store));
    EXPECT(FIRNDEX_OK, firndex_store_close(store));
}

/* Each option arrives. */
static void options(void) {
    firndex_options options = small();
    firndex_parameter stash = {"stash", 8};
    firndex_store *store;
    firndex_stats stats = FIRNDEX_STATS_INIT;
    const char *path = in_directory("options.firn");
    char log_directory[300];
    snprintf(log_directory, sizeof log_directory, "%s", directory);
    options.engine = "level";
    options.parameters = &stash;
    options.parameters_count = 1;
    options.capacity = 10000;
    options.log_directory = log_directory;
    options.durability = FIRNDEX_COMMIT;
    options.medium = FIRNDEX_MAPPED;
    options.keep_sums = FIRNDEX_YES;
    options.helpers = FIRNDEX_NO_HELPERS;
    options.threads = 1;
    options.durable_every_us = 1000;
    options.checkpoint_at = 1 << 20;
    options.wait_ms = 1;
    options.resize_at = 0.5;
    options.compact_at = 0.5;
    options.survive_bus_errors = true;
    /* That engine has no such parameter. */
    EXPECT(FIRNDEX_ERROR_OPTION, firndex_store_open(path, FIRNDEX_CREATE, &options, &store));
    CHECK(store == NULL && strstr(firndex_message(), "stash") != NULL);
    options.parameters_count = 0;
    EXPECT(FIRNDEX_OK, firndex_store_open(path, FIRNDEX_CREATE, &options, &store));
    EXPECT(FIRNDEX_OK, firndex_store_put(store, TEXT("a"), TEXT("b"), NULL));
    EXPECT(FIRNDEX_OK, firndex_store_stats(store, &stats));
    CHECK(strcmp(stats.engine, "level") == 0 && stats.capacity >= 10000);
    CHECK(stats.durability == FIRNDEX_COMMIT && stats.is_logged);
    EXPECT(FIRNDEX_OK, firndex_store_commit(store));
    EXPECT(FIRNDEX_OK, firndex_store_close(store));
    CHECK(access(in_directory("options.firn.safe/sums"), F_OK) == 0);
    options.engine = "clevel";
    EXPECT(FIRNDEX_ERROR_MISMATCH, firndex_store_open(path, FIRNDEX_OPEN, &options, &store));
    firndex_options none = FIRNDEX_OPTIONS_INIT;
    none.read_only = true;
    EXPECT(FIRNDEX_OK, firndex_store_open(path, FIRNDEX_OPEN, &none, &store));
    EXPECT(FIRNDEX_ERROR_READ_ONLY, firndex_store_put(store, TEXT("a"), TEXT("c"), NULL));
    EXPECT(FIRNDEX_OK, firndex_store_contains(store, TEXT("a")));
    EXPECT(FIRNDEX_OK, firndex_store_close(store));
    none.read_only = false;
    none.log_directory = log_directory;
    EXPECT(FIRNDEX_OK, firndex_remove(path, &none));

    /* A caller with the header of an earlier version has a shorter struct. */
    firndex_options shorter = small();
    shorter.struct_size = offsetof(firndex_options, max_bytes);
    shorter.max_bytes = 1; /* would be out of range */
    EXPECT(FIRNDEX_OK, firndex_store_in_memory(&shorter, &store));
    EXPECT(FIRNDEX_OK, firndex_store_close(store));
    /* One with a later header has a longer struct: zeros mean what they do here. */
    struct {
        firndex_options now;
        uint64_t later;
    } longer = {small(), 0};
    longer.now.struct_size = sizeof longer;
    EXPECT(FIRNDEX_OK, firndex_store_in_memory(&longer.now, &store));
    EXPECT(FIRNDEX_OK, firndex_store_close(store));
    longer.later = 1;
    REFUSED(FIRNDEX_ERROR_ARGUMENT, "newer header", firndex_store_in_memory(&longer.now, &store));
    firndex_stats early = {.struct_size = offsetof(firndex_stats, capacity), .capacity = 77};
    EXPECT(FIRNDEX_OK, firndex_store_in_memory(NULL, &store));
    EXPECT(FIRNDEX_OK, firndex_store_stats(store, &early));
    CHECK(early.capacity == 77 && early.engine != NULL);
    EXPECT(FIRNDEX_OK, firndex_store_close(store));
}

int main(void) {
    make_directory();
    CHECK(strcmp(firndex_version(), FIRNDEX_VERSION) == 0);
    CHECK(strcmp(firndex_message(), "") == 0);
    pools();
    options();
    a_batch_that_fails();
    remove_directory();
    return 0;
}
