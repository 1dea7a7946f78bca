/* Single calls from C: bench/run compares them with the same from Rust, which prints the same lines. */

#include <firndex.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VALUE_BYTES = 100 };

/* Keys in no order: splitmix64, which gives each number another one. */
static uint64_t key_of(uint64_t number) {
    uint64_t key = number * 0x9e3779b97f4a7c15u;
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
    key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
    return key ^ (key >> 31);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void must(firndex_code code) {
    if (code != FIRNDEX_OK) {
        fprintf(stderr, "bench: %s: %s\n", firndex_code_name(code), firndex_message());
        exit(1);
    }
}

static void tell(const char *what, uint64_t calls, double began) {
    printf("%s %.0f\n", what, (double)calls / (now() - began));
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: bench POOL PAIRS\n");
        return 2;
    }
    uint64_t pairs = strtoull(argv[2], NULL, 10), sum = 0;
    unsigned char value[VALUE_BYTES], buffer[VALUE_BYTES];
    firndex_options options = FIRNDEX_OPTIONS_INIT;
    options.capacity = pairs;
    firndex_store *store;
    must(firndex_store_open(argv[1], FIRNDEX_CREATE, &options, &store));
    memset(value, 7, sizeof value);

    double began = now();
    for (uint64_t number = 0; number < pairs; number++) {
        uint64_t key = key_of(number);
        must(firndex_store_put(store, &key, sizeof key, value, sizeof value, NULL));
    }
    tell("store-put", pairs, began);

    began = now();
    for (uint64_t number = 0; number < pairs; number++) {
        uint64_t key = key_of(number);
        size_t size;
        must(firndex_store_get(store, &key, sizeof key, buffer, sizeof buffer, &size));
        sum += buffer[number % size];
    }
    tell("store-get", pairs, began);

    began = now();
    for (uint64_t number = 0; number < pairs; number++) {
        uint64_t key = key_of(number);
        firndex_value found;
        must(firndex_store_get_value(store, &key, sizeof key, &found));
        sum += ((const unsigned char *)found.data)[number % found.size];
        must(firndex_value_release(&found));
    }
    tell("store-get-in-place", pairs, began);

    began = now();
    for (uint64_t number = 0; number < pairs; number++) {
        uint64_t key = key_of(number);
        must(firndex_store_put(store, &key, sizeof key, value, sizeof value, NULL));
    }
    tell("store-overwrite", pairs, began);
    must(firndex_store_close(store));
    must(firndex_remove(argv[1], NULL));

    firndex_table *table;
    must(firndex_table_open(argv[1], FIRNDEX_CREATE, &options, &table));
    began = now();
    for (uint64_t number = 0; number < pairs; number++) must(firndex_table_put(table, key_of(number), number, NULL));
    tell("table-put", pairs, began);
    began = now();
    for (uint64_t number = 0; number < pairs; number++) {
        uint64_t found;
        must(firndex_table_get(table, key_of(number), &found));
        sum += found;
    }
    tell("table-get", pairs, began);
    must(firndex_table_close(table));
    must(firndex_remove(argv[1], NULL));
    fprintf(stderr, "sum %llu\n", (unsigned long long)sum);
    return 0;
}
