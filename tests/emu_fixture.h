/* What the tests of emulated ranks share. */
#ifndef GRS_TESTS_EMU_FIXTURE_H
#define GRS_TESTS_EMU_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

/* Keeps compiled kernels from run to run. */
static inline const char *emu_kernel_directory(void) {
    static char path[512];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/emu-kernels", build ? build : "build");
    return path;
}

/* ThreadSanitizer gives each fiber a thread's state: thousands of them are beyond it, and there is one OS thread to watch. */
#ifdef __SANITIZE_THREAD__
static inline void emu_no_fibers(void **state) {
    (void)state;
    puts("SKIP: ThreadSanitizer has nothing to watch here: the emulator runs on one OS thread");
    skip();
}
#define EMU_RETURN_IF_UNWATCHABLE()                                                                                    \
    do {                                                                                                               \
        const struct CMUnitTest only_[] = {{"emulated ranks", emu_no_fibers, NULL, NULL, NULL}};                       \
        return _cmocka_run_group_tests("emulated ranks", only_, 1, NULL, NULL);                                        \
    } while (0)
#else
#define EMU_RETURN_IF_UNWATCHABLE()                                                                                    \
    do {                                                                                                               \
    } while (0)
#endif

#endif
