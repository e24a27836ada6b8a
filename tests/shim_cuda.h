/* A CUDA driver without a GPU: a shared library that answers like libcuda, records what it is asked, and fails on demand.
 * Device memory is host memory, so that a test can read what was written. */
#ifndef GRS_TESTS_SHIM_CUDA_H
#define GRS_TESTS_SHIM_CUDA_H

#include "runtime/cuda_api.h"
#include "templates/args.h"

#define SHIM_MAX_DEVICES 8
#define SHIM_MAX_CALLS   4096
#define SHIM_MAX_MAPS    256

struct shim_device {
    int sm_count, major, minor;
    int blocks_per_sm; /* what occupancy answers */
    int retained;      /* primary context */
};

struct shim_map {
    uint64_t base, dims[2], stride; /* stride in bytes */
    uint32_t box[2];
    int type, rank, swizzle, promotion, fill;
};

struct shim_launch {
    CUlaunchConfig config;
    CUlaunchAttribute attribute; /* the first, if there is one */
    CUcontext context;           /* current when it came */
    CUfunction function;
    grs_args args;
};

struct shim {
    int device_count, version;
    struct shim_device device[SHIM_MAX_DEVICES];
    int can_access, native_atomics; /* between different devices */
    int no_sharing;                 /* memory has no handle that another process could take */

    /* Failure on demand: call number `fail_at` (from 1, counted from the last shim_reset_calls) answers `fail_with`;
     * 0: none. `fail_name` (may be NULL) narrows the count to one function. */
    int fail_at;
    CUresult fail_with;
    const char *fail_name;
    const char *failed_name; /* which function the last such failure was in */

    /* What is alive: zero again when everything was given back. */
    int live_memory, live_host, live_streams, live_modules;
    int live_handles, live_mappings; /* of virtual memory */
    size_t live_bytes;

    int call_count; /* also beyond SHIM_MAX_CALLS */
    const char *calls[SHIM_MAX_CALLS];
    int map_count;
    struct shim_map maps[SHIM_MAX_MAPS];
    int launch_count;
    struct shim_launch launches[16]; /* the first of them */
    int shared_attribute;            /* last value of the dynamic shared memory attribute */
};

/* In the library: its state. */
typedef struct shim *shim_get_function(void);

#endif
