/* A file system that is full. The argument is a directory on one of a few megabytes. */

#include "check.h"

static void fill(int durability) {
    static char value[4000];
    firndex_options options = FIRNDEX_OPTIONS_INIT;
    firndex_store *store;
    const char *path = in_directory("small.firn");
    uint32_t stored = 0;
    int code;
    uint64_t len;
    size_t size;
    options.durability = durability;
    options.checkpoint_at = 64 << 10;
    EXPECT(FIRNDEX_OK, firndex_store_open(path, FIRNDEX_CREATE, &options, &store));
    while ((code = firndex_store_put(store, &stored, sizeof stored, value, sizeof value, NULL)) == FIRNDEX_OK) stored++;
    CHECK(code == FIRNDEX_ERROR_FULL || code == FIRNDEX_ERROR_LOG);
    CHECK(stored > 10 && strlen(firndex_message()) > 40 && strstr(firndex_message(), "::") == NULL);
    CHECK(strcmp(firndex_code_name(code), code == FIRNDEX_ERROR_LOG ? "FIRNDEX_ERROR_LOG" : "FIRNDEX_ERROR_FULL") == 0);

    /* All that was stored is there, now and later. */
    EXPECT(FIRNDEX_OK, firndex_store_len(store, &len));
    CHECK(len == stored);
    for (uint32_t key = 0; key < stored; key++)
        EXPECT(FIRNDEX_OK, firndex_store_get(store, &key, sizeof key, value, sizeof value, &size));
    if (code == FIRNDEX_ERROR_FULL) {
        uint32_t key = 0;
        EXPECT(FIRNDEX_OK, firndex_store_remove(store, &key, sizeof key, NULL));
        EXPECT(FIRNDEX_OK, firndex_store_put(store, &key, sizeof key, value, sizeof value, NULL));
    }
    /* Where the log has no room, a close says so. */
    code = firndex_store_close(store);
    CHECK(code == FIRNDEX_OK || code == FIRNDEX_ERROR_LOG || code == FIRNDEX_ERROR_IO);
    EXPECT(FIRNDEX_OK, firndex_store_open(path, FIRNDEX_OPEN, NULL, &store));
    EXPECT(FIRNDEX_OK, firndex_store_len(store, &len));
    CHECK(len == stored);
    EXPECT(FIRNDEX_OK, firndex_store_check(store));
    EXPECT(FIRNDEX_OK, firndex_store_close(store));
    EXPECT(FIRNDEX_OK, firndex_remove(path, NULL));
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    snprintf(directory, sizeof directory, "%s", argv[1]);
    fill(FIRNDEX_PROCESS);
    fill(FIRNDEX_PERIODIC);
    return 0;
}
