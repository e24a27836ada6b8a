#include "runtime/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct driver table;
static _Atomic(const struct driver *) loaded;
static unsigned loaded_fork_count;
static atomic_uint fork_count;

/* In the child nobody holds the lock: the thread that forked is the only one, and it was not in driver_get. */
static void after_fork(void) {
    atomic_fetch_add_explicit(&fork_count, 1, memory_order_relaxed);
    pthread_mutex_init(&lock, NULL);
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, after_fork);
}

unsigned driver_fork_count(void) {
    return atomic_load_explicit(&fork_count, memory_order_relaxed);
}

static const struct {
    const char *symbol;
    size_t offset;
} symbols[] = {
#define DRIVER_SYMBOL(member, symbol, parameters) {#symbol, offsetof(struct driver, member)},
    CUDA_API_FUNCTIONS(DRIVER_SYMBOL)
#undef DRIVER_SYMBOL
};

grs_status driver_error(const struct driver *drv, grs_error *err, CUresult result, const char *what, ...) {
    char call[512];
    const char *name = NULL, *text = NULL;
    va_list list;
    va_start(list, what);
    vsnprintf(call, sizeof(call), what, list);
    va_end(list);
    if (drv->cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL) {
        name = "unknown error";
    }
    if (drv->cuGetErrorString(result, &text) != CUDA_SUCCESS || text == NULL) {
        text = "no description";
    }
    grs_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? GRS_ERR_MEMORY : GRS_ERR_DRIVER;
    return error_set(err, status, "%s: %s (%s, %d)", call, text, name, (int)result);
}

/* Fills the table; on failure the library is closed again and the table is left unused. */
static grs_status load(struct driver *drv, grs_error *err) {
    grs_status status = GRS_OK;
    const char *path = secure_getenv("GRS_LIBCUDA");
    if (path == NULL || path[0] == '\0') {
        path = "libcuda.so.1";
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return error_set(err, GRS_ERR_DRIVER,
                         "the CUDA driver cannot be opened: %s (install NVIDIA's driver, in a container pass the GPU "
                         "through, or name the library in GRS_LIBCUDA)",
                         dlerror());
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(library, symbols[i].symbol);
        if (address == NULL) {
            status = error_set(err, GRS_ERR_DRIVER,
                               "%s has no %s: the CUDA driver is too old (CUDA %d.%d or newer is needed)", path,
                               symbols[i].symbol, DRIVER_MIN_VERSION / 1000, DRIVER_MIN_VERSION % 1000 / 10);
            goto done;
        }
        *(void **)((char *)drv + symbols[i].offset) = address;
    }
    CUresult result = drv->cuDriverGetVersion(&drv->version);
    if (result != CUDA_SUCCESS) {
        status = driver_error(drv, err, result, "cuDriverGetVersion");
        goto done;
    }
    if (drv->version < DRIVER_MIN_VERSION) {
        status = error_set(err, GRS_ERR_DRIVER, "the CUDA driver supports CUDA %d.%d; %d.%d or newer is needed",
                           drv->version / 1000, drv->version % 1000 / 10, DRIVER_MIN_VERSION / 1000,
                           DRIVER_MIN_VERSION % 1000 / 10);
        goto done;
    }
    result = drv->cuInit(0);
    if (result != CUDA_SUCCESS) {
        status = driver_error(drv, err, result, "cuInit");
        goto done;
    }
    drv->path = strdup(path); /* the environment may change; lives as long as the table */
    if (drv->path == NULL) {
        status = error_set(err, GRS_ERR_MEMORY, "out of memory opening %s", path);
    }
done:
    if (status != GRS_OK) {
        dlclose(library);
    }
    return status;
}

const struct driver *driver_get(grs_error *err) {
    const struct driver *drv = atomic_load_explicit(&loaded, memory_order_acquire);
    if (drv == NULL) {
        pthread_mutex_lock(&lock);
        drv = atomic_load_explicit(&loaded, memory_order_relaxed);
        if (drv == NULL && load(&table, err) == GRS_OK) {
            loaded_fork_count = driver_fork_count();
            drv = &table;
            atomic_store_explicit(&loaded, drv, memory_order_release);
        }
        pthread_mutex_unlock(&lock);
    }
    if (drv != NULL && loaded_fork_count != driver_fork_count()) {
        error_set(err, GRS_ERR_STATE,
                  "this process was forked after CUDA had been started, and CUDA does not work in such a child: start "
                  "the process anew (exec, spawn), or fork before the first use of a GPU");
        return NULL;
    }
    return drv;
}
