/* Counts the visits of each name that it is given, over all runs: visits POOL NAME... */

#include <firndex.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what, firndex_code code) {
    fprintf(stderr, "visits: %s: %s (%s)\n", what, firndex_message(), firndex_code_name(code));
    return 2;
}

/* Adds one, in a step that no other thread comes between. */
static firndex_code add_visit(firndex_store *visits, const char *name, uint64_t *count) {
    firndex_value before;
    firndex_code code = firndex_store_get_value(visits, name, strlen(name), &before);
    while (code >= 0) {
        *count = 0;
        if (before.hold != 0 && before.size == sizeof *count) memcpy(count, before.data, sizeof *count);
        ++*count;
        firndex_bytes expected = {before.data, before.size}, desired = {count, sizeof *count};
        firndex_value found;
        code = firndex_store_compare_exchange(visits, name, strlen(name), before.hold != 0 ? &expected : NULL,
                                              &desired, &found);
        firndex_value_release(&before);
        if (code != FIRNDEX_DIFFERENT) break;
        before = found;
    }
    return code;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: visits POOL NAME...\n");
        return 2;
    }
    firndex_store *visits;
    firndex_code code = firndex_store_open(argv[1], FIRNDEX_OPEN_OR_CREATE, NULL, &visits);
    if (code != FIRNDEX_OK) return fail("opening the pool", code);
    for (int i = 2; i < argc; i++) {
        uint64_t count;
        code = add_visit(visits, argv[i], &count);
        if (code != FIRNDEX_OK) return fail("counting", code);
        printf("%s %llu\n", argv[i], (unsigned long long)count);
    }
    code = firndex_store_close(visits);
    return code == FIRNDEX_OK ? 0 : fail("closing the pool", code);
}
