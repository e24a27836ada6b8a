/* What all GPU tests share: results as the Test Anything Protocol, the GPUs, and kernels compiled ahead. */
#ifndef GRS_TESTS_GPU_TAP_H
#define GRS_TESTS_GPU_TAP_H

#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "generator/machine.h"
#include "grs.h"
#include "runtime/driver.h"

static int tap_count, tap_failed;
static _Thread_local grs_error err; /* tests have threads */
static const struct driver *drv;
static CUcontext contexts[64];
static int gpu_count;

static inline bool ok(bool condition, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline bool ok(bool condition, const char *format, ...) {
    va_list list;
    printf("%s %d - ", condition ? "ok" : "not ok", ++tap_count);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
    if (!condition) {
        tap_failed++;
        printf("# %s\n", err.text);
    }
    fflush(stdout);
    return condition;
}

static inline int finish(void) {
    printf("1..%d\n", tap_count);
    return tap_failed != 0;
}

/* A call that the test cannot go on without. */
static inline void must(bool condition, const char *what) {
    if (!condition) {
        printf("not ok %d - %s: %s\n", tap_count + 1, what, err.text);
        exit(1);
    }
}
#define MUST(call) must((call) == GRS_OK, #call)
#define CU(call)                                                                                                       \
    do {                                                                                                               \
        CUresult cu_result = drv->call;                                                                                \
        if (cu_result != CUDA_SUCCESS) {                                                                               \
            driver_error(drv, &err, cu_result, #call);                                                                 \
            must(false, "a driver call");                                                                              \
        }                                                                                                              \
    } while (0)

/* A GPU was asked for by running this program: without one it fails. */
static inline void open_gpus(void) {
    drv = driver_get(&err);
    must(drv != NULL, "a GPU is needed");
    CU(cuDeviceGetCount(&gpu_count));
    must(gpu_count > 0, "a GPU is needed, and none is visible");
    for (int i = 0; i < gpu_count && i < 64; i++) {
        CUdevice device;
        CU(cuDeviceGet(&device, i));
        CU(cuDevicePrimaryCtxRetain(&contexts[i], device));
    }
    CU(cuCtxSetCurrent(contexts[0]));
}

/* That of GPU 0, which kernels are made for. */
static inline enum arch gpu_arch(void) {
    CUdevice device;
    int major, minor;
    enum arch arch;
    CU(cuDeviceGet(&device, 0));
    CU(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    CU(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    must(machine_arch_of(major, minor, &arch), "a GPU of an arch that kernels are made for");
    return arch;
}
static inline bool gpu_is_blackwell(void) {
    return config_arch_family(gpu_arch()) == ARCH_SM100A;
}

/* Ends the contexts, if nobody else holds them: leak checkers look then. */
static inline void close_gpus(void) {
    for (int i = 0; i < gpu_count && i < 64; i++) {
        CUdevice device;
        CU(cuDeviceGet(&device, i));
        CU(cuDevicePrimaryCtxRelease(device));
    }
}

static inline void synchronize(void) {
    for (int i = 0; i < gpu_count; i++) {
        CU(cuCtxSetCurrent(contexts[i]));
        CU(cuCtxSynchronize());
    }
    CU(cuCtxSetCurrent(contexts[0]));
}

static inline double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Of a directory: /proc/self/fd has one a file that is open. */
static inline int entries(const char *path) {
    int count = 0;
    DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        count += entry->d_name[0] != '.';
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return count;
}

static inline const grs_kernel *kernel_for(int64_t M, int64_t N, int64_t K, int tp) {
    const grs_kernel *kernel = grs_jit_get(M, N, K, tp);
    if (kernel == NULL) {
        err = *grs_last_error();
        must(false, "grs_jit_get");
    }
    return kernel;
}

/* Compiles kernels before they are needed, on all cores: time on a GPU machine is dear. */
struct wanted {
    int64_t M, N, K;
    int tp;
    grs_ctx *ctx; /* NULL: the default one */
};
struct crew {
    const struct wanted *list;
    int count, next;
};
static inline void *crew_work(void *arg) {
    struct crew *crew = arg;
    int i;
    while ((i = __atomic_fetch_add(&crew->next, 1, __ATOMIC_RELAXED)) < crew->count) {
        const struct wanted *w = &crew->list[i]; /* failures show when it is used */
        const grs_kernel *kernel;
        grs_error ignored;
        grs_ctx_get(w->ctx != NULL ? w->ctx : grs_default_ctx(), w->M, w->N, w->K, w->tp, &kernel, &ignored);
    }
    return NULL;
}
static inline void compile_all(const struct wanted *list, int count) {
    enum { HANDS = 16 };
    struct crew crew = {list, count, 0};
    pthread_t threads[HANDS];
    int started = 0;
    while (started < HANDS && pthread_create(&threads[started], NULL, crew_work, &crew) == 0) {
        started++;
    }
    crew_work(&crew);
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
}

#endif
