#include "runtime/module.h"

#include <string.h>

#include "common/error.h"
#include "runtime/nvtx.h"

/* CTAs of the kernel that the device can hold at once. */
static grs_status resident_ctas(const struct driver *drv, const grs_kernel *kernel, const struct module *module,
                                int sm_count, int *out, grs_error *err) {
    const struct plan *plan = &kernel->plan;
    int cluster = (int)plan->value[FIELD_CLUSTER], count = 0;
    CUresult result;
    if (cluster == 1) {
        result = drv->cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, module->function, plan->threads,
                                                                  (size_t)plan->shared_bytes);
        *out = count * sm_count;
    } else { /* some processor groups hold an odd number of SMs: clusters do not fill them */
        CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                       .value.clusterDim = {(unsigned)cluster, 1, 1}};
        CUlaunchConfig config = {.gridDimX = (unsigned)(sm_count / cluster * cluster),
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = (unsigned)plan->threads,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .sharedMemBytes = (unsigned)plan->shared_bytes,
                                 .attrs = &attribute,
                                 .numAttrs = 1};
        result = drv->cuOccupancyMaxActiveClusters(&count, module->function, &config);
        *out = count * cluster;
    }
    return result == CUDA_SUCCESS ? GRS_OK : driver_error(drv, err, result, "cuOccupancy(%s)", plan->name);
}

/* The largest grid that fits beside the other ranks, at most a CTA an SM. */
static grs_status choose_grid(const struct driver *drv, const grs_kernel *kernel, int sm_count, int ranks, int sms,
                              const char *gpu, struct module *module, grs_error *err) {
    const struct plan *plan = &kernel->plan;
    int cluster = (int)plan->value[FIELD_CLUSTER], resident = 0;
    grs_status status = resident_ctas(drv, kernel, module, sm_count, &resident, err);
    if (status != GRS_OK) {
        return status;
    }
    int grid = sms < resident / ranks ? sms : resident / ranks;
    grid -= grid % cluster;
    if (grid < 1) {
        return error_set(err, GRS_ERR_PLAN,
                         "%s cannot run on %s: %d rank%s of at least %d CTA%s must be resident together, the GPU holds "
                         "%d (%d SMs, %d bytes of shared memory and %d threads a CTA)",
                         plan->name, gpu, ranks, ranks == 1 ? "" : "s", cluster, cluster == 1 ? "" : "s", resident,
                         sm_count, (int)plan->shared_bytes, plan->threads);
    }
    if (grid > plan->max_grid) {
        return error_set(err, GRS_ERR_PLAN,
                         "%s is planned for at most %d CTAs a rank, and a rank on %s may use %d SMs: set sms in the "
                         "communicator's options or in the config",
                         plan->name, plan->max_grid, gpu, grid);
    }
    module->grid = grid;
    return GRS_OK;
}

static grs_status load(const struct driver *drv, const grs_kernel *kernel, int sm_count, int ranks, int sms,
                       const char *gpu, struct module *out, grs_error *err) {
    const struct plan *plan = &kernel->plan;
    grs_status status = GRS_OK;
    memset(out, 0, sizeof(*out));
    CUresult result = drv->cuModuleLoadData(&out->module, kernel->entry->cubin);
    if (result != CUDA_SUCCESS) {
        out->module = NULL;
        return driver_error(drv, err, result, "cuModuleLoadData(%s on %s)", plan->name, gpu);
    }
    result = drv->cuModuleGetFunction(&out->function, out->module, plan->name);
    if (result != CUDA_SUCCESS) {
        status = driver_error(drv, err, result, "cuModuleGetFunction(%s on %s)", plan->name, gpu);
        goto done;
    }
    result = drv->cuFuncSetAttribute(out->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     (int)plan->shared_bytes);
    if (result != CUDA_SUCCESS) {
        status = driver_error(drv, err, result, "cuFuncSetAttribute(%d bytes of dynamic shared memory, %s on %s)",
                              (int)plan->shared_bytes, plan->name, gpu);
        goto done;
    }
    status = choose_grid(drv, kernel, sm_count, ranks, sms, gpu, out, err);
done:
    if (status != GRS_OK) {
        module_unload(drv, out);
    }
    return status;
}

grs_status module_load(const struct driver *drv, const grs_kernel *kernel, int sm_count, int ranks, int sms,
                       const char *gpu, struct module *out, grs_error *err) {
    bool shown = nvtx_active();
    if (shown) {
        nvtx_push("load %s on %s", kernel->plan.name, gpu);
    }
    grs_status status = load(drv, kernel, sm_count, ranks, sms, gpu, out, err);
    if (shown) {
        nvtx_pop();
    }
    return status;
}

void module_unload(const struct driver *drv, struct module *module) {
    if (module->module != NULL) {
        drv->cuModuleUnload(module->module);
    }
    memset(module, 0, sizeof(*module));
}
