/* Many threads on one handle, and a close beside calls. */

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 2000, KEYS = 64 };

static firndex_store *store;
static firndex_table *table;

/* Adds one to a number in the store, and to one in the table, in a step that nobody comes between. */
static void *count(void *unused) {
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t key = i % KEYS, number = 0, next;
        for (;;) {
            firndex_value now;
            firndex_code found = firndex_store_get_value(store, &key, sizeof key, &now);
            CHECK(found == FIRNDEX_OK || found == FIRNDEX_ABSENT);
            firndex_bytes before = {now.data, now.size}, after = {&next, sizeof next};
            next = 1;
            if (found == FIRNDEX_OK) {
                memcpy(&next, now.data, sizeof next);
                next++;
            }
            found = firndex_store_compare_exchange(store, &key, sizeof key, found == FIRNDEX_OK ? &before : NULL,
                                                   &after, NULL);
            EXPECT(FIRNDEX_OK, firndex_value_release(&now));
            CHECK(found == FIRNDEX_OK || found == FIRNDEX_DIFFERENT);
            if (found == FIRNDEX_OK) break;
        }
        firndex_state state = {0, false};
        do {
            number = state.value;
            next = number + 1;
        } while (firndex_table_compare_exchange(table, key, state.is_present ? &number : NULL, &next, &state) !=
                 FIRNDEX_OK);
    }
    return unused;
}

static void run(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, body, NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static atomic_int at_work;

/* Calls until the store is closed. Each call ends as if it had come before the close, or says that it came after. */
static void *use(void *unused) {
    char buffer[300];
    size_t size;
    atomic_fetch_add(&at_work, 1);
    for (uint64_t i = 0;; i++) {
        uint64_t key = i % 1000;
        firndex_code put = firndex_store_put(store, &key, sizeof key, buffer, 1 + i % 200, NULL);
        firndex_code got = firndex_store_get(store, &key, sizeof key, buffer, sizeof buffer, &size);
        if (put == FIRNDEX_ERROR_CLOSED) CHECK(got == FIRNDEX_ERROR_CLOSED);
        CHECK(put == FIRNDEX_OK || put == FIRNDEX_ERROR_CLOSED);
        CHECK(got == FIRNDEX_OK || got == FIRNDEX_ERROR_CLOSED);
        if (got == FIRNDEX_ERROR_CLOSED) return unused;
    }
}

static void close_beside_calls(void) {
    firndex_options options = small();
    for (int round = 0; round < 20; round++) {
        pthread_t threads[THREADS];
        atomic_store(&at_work, 0);
        EXPECT(FIRNDEX_OK, firndex_store_in_memory(&options, &store));
        for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, use, NULL) == 0);
        while (atomic_load(&at_work) < THREADS) sched_yield();
        EXPECT(FIRNDEX_OK, firndex_store_close(store));
        for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

static atomic_int closers;

/* Of several that close at once, one does. */
static void *close_it(void *unused) {
    firndex_code code = firndex_store_close(store);
    CHECK(code == FIRNDEX_OK || code == FIRNDEX_ERROR_CLOSED);
    atomic_fetch_add(&closers, code == FIRNDEX_OK);
    return unused;
}

/* Each thread has messages of its own. */
static void *own_messages(void *unused) {
    char wrong[20], key = 0;
    snprintf(wrong, sizeof wrong, "engine-%p", (void *)&key);
    for (int i = 0; i < 200; i++) {
        firndex_options options = small();
        firndex_store *made;
        options.engine = wrong;
        REFUSED(FIRNDEX_ERROR_OPTION, wrong, firndex_store_in_memory(&options, &made));
        EXPECT(FIRNDEX_ERROR_ARGUMENT, firndex_store_sync(NULL));
    }
    return unused;
}

int main(void) {
    firndex_options options = small();
    EXPECT(FIRNDEX_OK, firndex_store_in_memory(&options, &store));
    EXPECT(FIRNDEX_OK, firndex_table_in_memory(&options, &table));
    run(count);
    uint64_t sum = 0, sum_of_table = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        uint64_t number;
        size_t size;
        EXPECT(FIRNDEX_OK, firndex_store_get(store, &key, sizeof key, &number, sizeof number, &size));
        sum += number;
        EXPECT(FIRNDEX_OK, firndex_table_get(table, key, &number));
        sum_of_table += number;
    }
    CHECK(sum == THREADS * ROUNDS && sum_of_table == THREADS * ROUNDS);
    run(own_messages);
    run(close_it);
    CHECK(atomic_load(&closers) == 1);
    EXPECT(FIRNDEX_OK, firndex_table_close(table));
    close_beside_calls();
    return 0;
}
