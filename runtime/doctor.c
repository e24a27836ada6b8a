#include "runtime/doctor.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "common/error.h"
#include "generator/machine.h"
#include "runtime/context.h"
#include "runtime/driver.h"
#include "runtime/nvrtc.h"

/* ---------------------------------------------------------------- rows ----------------------------------------- */

static void add(struct doctor *d, enum doctor_state state, const char *what, const char *remedy, const char *format,
                ...) __attribute__((format(printf, 5, 6)));
static void add(struct doctor *d, enum doctor_state state, const char *what, const char *remedy, const char *format,
                ...) {
    struct doctor_row *rows = realloc(d->rows, (size_t)(d->count + 1) * sizeof(*rows));
    if (rows == NULL) {
        d->failed = true;
        return;
    }
    d->rows = rows;
    struct doctor_row *row = &rows[d->count];
    *row = (struct doctor_row){.state = state, .what = strdup(what), .remedy = remedy == NULL ? NULL : strdup(remedy)};
    va_list list;
    va_start(list, format);
    if (vasprintf(&row->found, format, list) < 0) {
        row->found = NULL;
    }
    va_end(list);
    d->failed = d->failed || row->what == NULL || row->found == NULL || (remedy != NULL && row->remedy == NULL);
    d->count++;
}

bool doctor_passes(const struct doctor *doctor) {
    bool passes = !doctor->failed;
    for (int i = 0; i < doctor->count; i++) {
        passes = passes && doctor->rows[i].state != DOCTOR_MISSING;
    }
    return passes;
}

const char *doctor_state_name(enum doctor_state state) {
    static const char *const names[] = {[DOCTOR_FINE] = "ok", [DOCTOR_NOTE] = "note", [DOCTOR_MISSING] = "missing"};
    return names[state];
}

void doctor_free(struct doctor *doctor) {
    for (int i = 0; i < doctor->count; i++) {
        free(doctor->rows[i].what);
        free(doctor->rows[i].found);
        free(doctor->rows[i].remedy);
    }
    free(doctor->rows);
    memset(doctor, 0, sizeof(*doctor));
}

/* ---------------------------------------------------------------- GPUs ----------------------------------------- */

struct gpu {
    CUdevice device;
    char name[64];
    int sms, major, minor;
    size_t bytes;
};

static bool ask_gpu(const struct driver *drv, int ordinal, struct gpu *gpu) {
    memset(gpu, 0, sizeof(*gpu));
    bool known =
        drv->cuDeviceGet(&gpu->device, ordinal) == CUDA_SUCCESS &&
        drv->cuDeviceGetName(gpu->name, sizeof(gpu->name), gpu->device) == CUDA_SUCCESS &&
        drv->cuDeviceGetAttribute(&gpu->sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu->device) == 0 &&
        drv->cuDeviceGetAttribute(&gpu->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu->device) == 0 &&
        drv->cuDeviceGetAttribute(&gpu->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu->device) == 0;
    if (known && drv->cuDeviceTotalMem(&gpu->bytes, gpu->device) != CUDA_SUCCESS) {
        gpu->bytes = 0;
    }
    return known;
}

/* GPUs that run kernels of the arch; a row for each. */
static int examine_gpus(struct doctor *d, const struct driver *drv, enum arch arch, int count) {
    int usable = 0;
    for (int i = 0; i < count; i++) {
        struct gpu gpu;
        char what[32];
        snprintf(what, sizeof(what), "GPU %d", i);
        if (!ask_gpu(drv, i, &gpu)) {
            add(d, DOCTOR_NOTE, what, "nvidia-smi tells more", "does not answer");
            continue;
        }
        bool fits = machine_runs(arch, gpu.major, gpu.minor);
        usable += fits;
        add(d, fits ? DOCTOR_FINE : DOCTOR_NOTE, what,
            fits ? NULL : "hide it with CUDA_VISIBLE_DEVICES, or choose its arch with GRS_ARCH",
            "%s, sm_%d%d, %d SMs, %zu MiB%s", gpu.name, gpu.major, gpu.minor, gpu.sms, gpu.bytes >> 20,
            fits ? "" : ", not of the arch that kernels are made for");
    }
    return usable;
}

/* One row for a property of all pairs: fine, or the first pair that lacks it. */
static void examine_pairs(struct doctor *d, const struct driver *drv, int count, const char *what,
                          CUdevice_P2PAttribute attribute, const char *remedy) {
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < count; j++) {
            CUdevice from, to;
            int value = 0;
            if (i == j) {
                continue;
            }
            if (drv->cuDeviceGet(&from, i) != CUDA_SUCCESS || drv->cuDeviceGet(&to, j) != CUDA_SUCCESS ||
                drv->cuDeviceGetP2PAttribute(&value, attribute, from, to) != CUDA_SUCCESS || !value) {
                add(d, DOCTOR_NOTE, what, remedy, "not between GPU %d and GPU %d (ranks on one GPU need none)", i, j);
                return;
            }
        }
    }
    add(d, DOCTOR_FINE, what, NULL, count > 1 ? "between all %d GPUs" : "%d GPU: nothing to reach", count);
}

static void examine_driver(struct doctor *d, enum arch arch) {
    grs_error err = {0};
    int count = 0;
    const struct driver *drv = driver_get(&err);
    if (drv == NULL) {
        add(d, DOCTOR_MISSING, "driver",
            "install NVIDIA's driver, pass the GPU into the container, or name libcuda.so.1 in GRS_LIBCUDA; generating "
            "and "
            "precompiling work without",
            "%s", err.text);
        return;
    }
    add(d, DOCTOR_FINE, "driver", NULL, "%s, for CUDA %d.%d", drv->path, drv->version / 1000, drv->version % 1000 / 10);
    if (drv->cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0) {
        add(d, DOCTOR_MISSING, "GPUs", "CUDA_VISIBLE_DEVICES may hide them; nvidia-smi tells more", "none is visible");
        return;
    }
    int usable = examine_gpus(d, drv, arch, count);
    add(d, usable > 0 ? DOCTOR_FINE : DOCTOR_MISSING, "GPUs", usable > 0 ? NULL : "GRS_ARCH chooses another arch",
        "%d of %d run kernels for %s", usable, count, config_arch_name(arch));
    examine_pairs(d, drv, count, "peer access", CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
                  "ranks on these GPUs need NVLink or PCIe peer access (nvidia-smi topo -p2p r)");
    examine_pairs(d, drv, count, "native atomics", CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                  "ranks on these GPUs need NVLink between them (nvidia-smi topo -p2p a)");
}

/* ---------------------------------------------------------------- libraries ------------------------------------ */

static const char tiny[] = "extern \"C\" __global__ void grs_doctor(int *x) { *x = 1; }\n";

static void examine_nvrtc(struct doctor *d, enum arch arch) {
    struct nvrtc_location where;
    const struct nvrtc *nvrtc;
    struct nvrtc_result result;
    grs_error err = {0};
    static const char remedy[] =
        "pip install nvidia-cuda-nvrtc-cu12, or a CUDA toolkit, or name the library in GRS_NVRTC; "
        "kernels that are in the cache work without";
    if (nvrtc_locate(NULL, &where, &err) != GRS_OK || nvrtc_open(&where, &nvrtc, &err) != GRS_OK) {
        add(d, DOCTOR_MISSING, "NVRTC", remedy, "%s", err.text);
        return;
    }
    add(d, DOCTOR_FINE, "NVRTC", NULL, "%s, version %d.%d, build id %s, found by: %s", where.path,
        nvrtc_version(nvrtc) / 1000, nvrtc_version(nvrtc) % 1000 / 10, where.build_id, where.origin);
    bool compiles = nvrtc_compile(nvrtc, arch, "doctor.cu", tiny, NULL, "grs_doctor", &result, &err) == GRS_OK;
    if (where.builtins[0] != '\0') {
        add(d, DOCTOR_FINE, "NVRTC builtins", NULL, "%s", where.builtins);
    } else {
        add(d, compiles ? DOCTOR_FINE : DOCTOR_MISSING, "NVRTC builtins",
            compiles ? NULL : "install libnvrtc-builtins of the same version beside NVRTC", "not beside NVRTC%s",
            compiles ? ", found by the loader" : "");
    }
    if (compiles) {
        add(d, DOCTOR_FINE, "compile", NULL, "a kernel for %s in %d ms", config_arch_name(arch),
            (int)(result.seconds * 1e3));
        nvrtc_result_free(&result);
    } else {
        add(d, DOCTOR_MISSING, "compile", "another NVRTC (GRS_NVRTC), or another arch (GRS_ARCH)", "%s", err.text);
    }
}

/* NCCL: $GRS_NCCL, the loader's, or that of the Python packages beside NVRTC's. */
static void *open_nccl(void) {
    const char *named = getenv("GRS_NCCL");
    struct nvrtc_location where;
    void *library;
    if (named != NULL && named[0] != '\0') {
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    }
    library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL && nvrtc_locate(NULL, &where, NULL) == GRS_OK) {
        static const char *const places[] = {"/libnccl.so.2", "/../../nccl/lib/libnccl.so.2"};
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && library == NULL; i++) {
            struct buf path = {0};
            buf_append(&path, where.path, (size_t)(strrchr(where.path, '/') - where.path));
            buf_puts(&path, places[i]);
            library = path.failed ? NULL : dlopen(path.data, RTLD_NOW | RTLD_LOCAL);
            buf_free(&path);
        }
    }
    return library;
}

static void examine_nccl(struct doctor *d) {
    static const char remedy[] =
        "pip install nvidia-nccl-cu12, or name the library in GRS_NCCL; grsrun --bench then compares "
        "with it";
    void *library = open_nccl();
    int version = 0;
    if (library == NULL) {
        add(d, DOCTOR_NOTE, "NCCL", remedy, "not found");
        return;
    }
    int (*get_version)(int *) = (int (*)(int *))dlsym(library, "ncclGetVersion");
    if (get_version == NULL || get_version(&version) != 0) {
        add(d, DOCTOR_NOTE, "NCCL", remedy, "found, and does not tell its version");
        return;
    }
    int major = version / 10000, minor = version % 10000 / 100; /* 22809: 2.28.9 */
    bool enough = version >= 22000;
    add(d, enough ? DOCTOR_FINE : DOCTOR_NOTE, "NCCL", enough ? NULL : remedy, "version %d.%d.%d%s", major, minor,
        version % 100, enough ? "" : "; 2.20 or newer is needed");
}

/* ---------------------------------------------------------------- all of it ------------------------------------ */

static void quiet(void *arg, grs_log_level level, const char *text) {
    (void)arg;
    (void)level;
    (void)text; /* what the log would say stands in a row */
}

/* Config and cache; returns the arch of the context. */
static enum arch examine_context(struct doctor *d) {
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    grs_ctx *ctx = NULL;
    grs_error err = {0};
    const char *why = "";
    enum arch arch = ARCH_SM90A;
    options.log = quiet;
    if (grs_ctx_open(&options, &ctx, &err) != GRS_OK) {
        add(d, DOCTOR_MISSING, "config", "see grsgen --check, and GRS_CONFIG, GRS_ARCH", "%s", err.text);
        return arch;
    }
    arch = ctx->arch;
    add(d, DOCTOR_FINE, "config", NULL, "%s, kernels for %s", ctx->config->path, config_arch_name(arch));
    const char *dir = cache_dir(ctx->cache, &why);
    if (dir != NULL) {
        add(d, DOCTOR_FINE, "cache", NULL, "%s", dir);
    } else {
        add(d, DOCTOR_NOTE, "cache",
            "set GRS_CACHE_DIR to a directory of your own; without, every process compiles anew", "none: %s", why);
    }
    grs_ctx_close(ctx);
    return arch;
}

void doctor_examine(struct doctor *out) {
    memset(out, 0, sizeof(*out));
    enum arch arch = examine_context(out);
    examine_driver(out, arch);
    examine_nvrtc(out, arch);
    examine_nccl(out);
}
