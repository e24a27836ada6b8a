/* The CUDA driver, opened at run time. */
#ifndef GRS_RUNTIME_DRIVER_H
#define GRS_RUNTIME_DRIVER_H

#include "grs.h"
#include "runtime/cuda_api.h"

#define DRIVER_MIN_VERSION 12010 /* 4160 bytes of kernel parameters need a driver of CUDA 12.1 */

/* One pointer a function, under the driver manual's name: drv->cuMemAlloc(&p, bytes). */
struct driver {
#define DRIVER_MEMBER(member, symbol, parameters) CUresult(*member) parameters;
    CUDA_API_FUNCTIONS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
    int version; /* 12080: CUDA 12.8 */
    const char *path;
};

/* The initialised driver (cuInit done, at least DRIVER_MIN_VERSION), or NULL and GRS_ERR_DRIVER: libcuda.so.1 is missing
 * (or what $GRS_LIBCUDA names), too old, or refuses to start; a failure is tried again at the next call. In a child
 * forked after a success: NULL and GRS_ERR_STATE, since CUDA does not survive a fork. Safe from any thread; the result
 * is never freed. */
const struct driver *driver_get(grs_error *err);

/* "cuMemAlloc(4096 bytes on GPU 0): out of memory (CUDA_ERROR_OUT_OF_MEMORY)". `what` is printf text that begins with the
 * name of the call. Returns GRS_ERR_MEMORY for a lack of memory, else GRS_ERR_DRIVER. */
grs_status driver_error(const struct driver *drv, grs_error *err, CUresult result, const char *what, ...)
    __attribute__((format(printf, 4, 5)));

/* Counts the forks between this process and the one that loaded the library: what was made under another count belongs
 * to another process. One load. */
unsigned driver_fork_count(void);

#endif
