/* A kernel loaded on one GPU. */
#ifndef GRS_RUNTIME_MODULE_H
#define GRS_RUNTIME_MODULE_H

#include "runtime/driver.h"
#include "runtime/kernel.h"

struct module {
    CUmodule module;
    CUfunction function;
    int grid; /* CTAs a rank; with clusters a multiple of their size */
};

/* Loads the cubin into the current context at once (no lazy load beside a spinning kernel), allows its shared memory, and
 * asks the device how many CTAs fit: `ranks` ranks of the device run at the same time on `sms` SMs each. GRS_ERR_PLAN
 * when they cannot all be resident. `gpu` names the device in errors. */
grs_status module_load(const struct driver *drv, const grs_kernel *kernel, int sm_count, int ranks, int sms,
                       const char *gpu, struct module *out, grs_error *err);
void module_unload(const struct driver *drv, struct module *module);

#endif
