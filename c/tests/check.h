/* What the tests have in common. */
#ifndef CHECK_H
#define CHECK_H

#include <firndex.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ends the test if something is not so. */
#define CHECK(condition)                                                                                  \
    do {                                                                                                  \
        if (!(condition)) {                                                                               \
            fprintf(stderr, "%s:%d: not so: %s (last message: %s)\n", __FILE__, __LINE__, #condition,     \
                    firndex_message());                                                                   \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)

/* Ends the test if a call returns another code. */
#define EXPECT(code, call)                                                                                \
    do {                                                                                                  \
        int found_ = (call);                                                                              \
        if (found_ != (code)) {                                                                           \
            fprintf(stderr, "%s:%d: %s returned %s, expected %s (last message: %s)\n", __FILE__, __LINE__, \
                    #call, firndex_code_name(found_), firndex_code_name(code), firndex_message());        \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)

/* The same, of an error whose message has these words. */
#define REFUSED(code, words, call)                                                                        \
    do {                                                                                                  \
        EXPECT(code, call);                                                                               \
        if (strstr(firndex_message(), words) == NULL || strstr(firndex_message(), "::") != NULL) {        \
            fprintf(stderr, "%s:%d: %s says \"%s\", expected \"%s\" in it\n", __FILE__, __LINE__, #call,  \
                    firndex_message(), words);                                                            \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)

static char directory[200];

static inline void remove_directory(void) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    if (directory[0] != '\0' && system(command) != 0) perror(command);
}

/* Makes a directory for this test's pools. The process that made it removes it by remove_directory. */
static inline void make_directory(void) {
    const char *parent = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/firndex-c.XXXXXX", parent != NULL ? parent : "/tmp");
    if (mkdtemp(directory) == NULL) {
        perror(directory);
        exit(1);
    }
}

/* The path of a file in it, in memory of its own for each of eight calls. */
static inline const char *in_directory(const char *name) {
    static char paths[8][300];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

/* Options of small pools, which tools that watch memory can bear. */
static inline firndex_options small(void) {
    firndex_options options = FIRNDEX_OPTIONS_INIT;
    options.max_bytes = 256 << 20;
    return options;
}

#endif
