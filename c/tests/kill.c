/* After kill -9 every put that returned is there.
 *
 * A child puts pairs from two threads, and says through a pipe which have returned. It is killed after some of them,
 * and the pool opened again: with the pairs of all earlier children, too. */

#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { ROUNDS = 8, THREADS = 2, VALUE_BYTES = 100 };

typedef struct {
    uint32_t thread;
    uint32_t number;
} report;

static firndex_store *store;
static int reports[2];

static void make_value(char *value, report of) {
    memset(value, (int)(of.number % 251), VALUE_BYTES);
    memcpy(value, &of, sizeof of);
}

static void *put(void *argument) {
    report of = *(report *)argument;
    char value[VALUE_BYTES];
    for (;; of.number++) {
        make_value(value, of);
        EXPECT(FIRNDEX_OK, firndex_store_put(store, &of, sizeof of, value, sizeof value, NULL));
        /* Less than a pipe's atomic unit: it comes whole or not at all. */
        CHECK(write(reports[1], &of, sizeof of) == sizeof of);
    }
    return NULL;
}

static void child(const char *path, const firndex_options *options, const uint32_t *from) {
    pthread_t threads[THREADS];
    report begin[THREADS];
    close(reports[0]);
    EXPECT(FIRNDEX_OK, firndex_store_open(path, FIRNDEX_OPEN_OR_CREATE, options, &store));
    for (uint32_t i = 0; i < THREADS; i++) {
        begin[i] = (report){i, from[i]};
        CHECK(pthread_create(&threads[i], NULL, put, &begin[i]) == 0);
    }
    for (;;) pause();
}

static void rounds(const char *path, int durability) {
    firndex_options options = small();
    options.durability = durability;
    /* One more than the last number that was reported. */
    uint32_t ends[THREADS] = {0};
    for (unsigned round = 0; round < ROUNDS; round++) {
        CHECK(pipe(reports) == 0);
        pid_t process = fork();
        CHECK(process >= 0);
        if (process == 0) child(path, &options, ends);
        close(reports[1]);
        unsigned wanted = 50 + 300 * round;
        report of;
        for (unsigned got = 0; read(reports[0], &of, sizeof of) == sizeof of; got++) {
            CHECK(of.thread < THREADS && of.number == ends[of.thread]);
            ends[of.thread] = of.number + 1;
            if (got == wanted) CHECK(kill(process, SIGKILL) == 0);
        }
        close(reports[0]);
        int status;
        CHECK(waitpid(process, &status, 0) == process && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

        EXPECT(FIRNDEX_OK, firndex_store_open(path, FIRNDEX_OPEN, &options, &store));
        EXPECT(FIRNDEX_OK, firndex_store_check(store));
        uint64_t len, reported = 0;
        for (uint32_t thread = 0; thread < THREADS; thread++) {
            for (uint32_t number = 0; number < ends[thread]; number++) {
                char expected[VALUE_BYTES], found[VALUE_BYTES];
                size_t size;
                report key = {thread, number};
                make_value(expected, key);
                EXPECT(FIRNDEX_OK, firndex_store_get(store, &key, sizeof key, found, sizeof found, &size));
                CHECK(size == sizeof found && memcmp(expected, found, size) == 0);
            }
            reported += ends[thread];
        }
        /* A pair may have been put, and the child killed before it could say so. */
        EXPECT(FIRNDEX_OK, firndex_store_len(store, &len));
        CHECK(len >= reported && len <= reported + THREADS * (round + 1));
        EXPECT(FIRNDEX_OK, firndex_store_close(store));
    }
    CHECK(ends[0] + ends[1] > ROUNDS * 50);
}

int main(void) {
    make_directory();
    rounds(in_directory("process.firn"), FIRNDEX_PROCESS);
    rounds(in_directory("periodic.firn"), FIRNDEX_PERIODIC);
    remove_directory();
    return 0;
}
