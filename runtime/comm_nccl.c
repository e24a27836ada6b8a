/* A communicator among the ranks of an ncclComm_t: one all-gather by NCCL is all that is needed of it. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/error.h"
#include "runtime/peers.h"

typedef struct ncclComm *ncclComm_t;
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_UINT8 = 1 };

/* X(member, symbol, parameters): enumerations of NCCL are passed and returned as int. */
#define NCCL_FUNCTIONS(X)                                                                                              \
    X(count, ncclCommCount, (ncclComm_t comm, int *count))                                                             \
    X(rank, ncclCommUserRank, (ncclComm_t comm, int *rank))                                                            \
    X(device, ncclCommCuDevice, (ncclComm_t comm, int *device))                                                        \
    X(async_error, ncclCommGetAsyncError, (ncclComm_t comm, int *error))                                               \
    X(all_gather, ncclAllGather, (const void *from, void *to, size_t count, int type, ncclComm_t comm, CUstream stream))

struct nccl {
#define NCCL_MEMBER(member, symbol, parameters) int(*member) parameters;
    NCCL_FUNCTIONS(NCCL_MEMBER)
#undef NCCL_MEMBER
    const char *(*error_text)(int status);
};

/* The library that made the communicator must be the one that is used: what $GRS_NCCL names, else what the process has
 * loaded (or contains), else what the loader finds. */
static void *find_library(grs_error *err) {
    static const char *const names[] = {"libnccl.so.2", "libnccl.so"};
    const char *path = secure_getenv("GRS_NCCL");
    if (path != NULL && path[0] != '\0') {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            error_set(err, GRS_ERR_UNSUPPORTED, "GRS_NCCL=%s: %s", path, dlerror());
        }
        return library;
    }
    if (dlsym(RTLD_DEFAULT, "ncclAllGather") != NULL) {
        return RTLD_DEFAULT;
    }
    for (int mode = RTLD_NOW | RTLD_NOLOAD;; mode = RTLD_NOW) {
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            void *library = dlopen(names[i], mode | RTLD_LOCAL);
            if (library != NULL) {
                return library;
            }
        }
        if (mode == RTLD_NOW) {
            error_set(err, GRS_ERR_UNSUPPORTED, "NCCL is neither loaded nor found (libnccl.so.2; GRS_NCCL names it)");
            return NULL;
        }
    }
}

static grs_status open_nccl(struct nccl *out, grs_error *err) {
    const struct {
        const char *name;
        void *member;
    } symbols[] = {
#define NCCL_SYMBOL(member, symbol, parameters) {#symbol, &out->member},
        NCCL_FUNCTIONS(NCCL_SYMBOL)
#undef NCCL_SYMBOL
            {"ncclGetErrorString", &out->error_text},
    };
    dlerror();
    void *library = find_library(err);
    if (library == NULL && err->status != GRS_OK) { /* RTLD_DEFAULT is NULL too */
        return err->status;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(library, symbols[i].name);
        if (address == NULL) {
            return error_set(err, GRS_ERR_UNSUPPORTED, "NCCL lacks %s: 2.20 or newer is needed", symbols[i].name);
        }
        memcpy(symbols[i].member, &address, sizeof(address));
    }
    return GRS_OK;
}

struct nccl_bootstrap {
    struct nccl nccl;
    const struct driver *drv;
    ncclComm_t comm;
    int size;
    double seconds;
    CUdevice device;
    grs_error error;
};

static grs_status nccl_check(const struct nccl *nccl, int status, const char *what, grs_error *err) {
    return status == NCCL_SUCCESS ? GRS_OK : error_set(err, GRS_ERR_PEER, "%s: %s", what, nccl->error_text(status));
}

/* Waits for the stream without blocking in it: a rank that never comes must not hang the others. */
static grs_status wait_for(struct nccl_bootstrap *self, CUstream stream, grs_error *err) {
    struct deadline deadline = deadline_in(self->seconds);
    const struct timespec pause = {0, 200000};
    for (;;) {
        int error = NCCL_SUCCESS;
        CUresult result = self->drv->cuStreamQuery(stream);
        if (result != CUDA_ERROR_NOT_READY) {
            return result == CUDA_SUCCESS ? GRS_OK : driver_error(self->drv, err, result, "cuStreamQuery");
        }
        if (self->nccl.async_error(self->comm, &error) == NCCL_SUCCESS && error != NCCL_SUCCESS &&
            error != NCCL_IN_PROGRESS) {
            return nccl_check(&self->nccl, error, "ncclAllGather", err);
        }
        if (deadline_left_ms(&deadline) == 0) {
            return error_set(
                err, GRS_ERR_TIMEOUT,
                "a rank of the ncclComm_t did not come to grs_comm_create_nccl in time "
                "(GRS_SETUP_DEADLINE, default 120 s); the communicator of NCCL has its all-gather pending");
        }
        nanosleep(&pause, NULL);
    }
}

static grs_status gather_on(struct nccl_bootstrap *self, CUstream stream, CUdeviceptr from, CUdeviceptr to,
                            const void *mine, size_t bytes, void *all, grs_error *err) {
    const struct driver *drv = self->drv;
    CUresult result = drv->cuMemcpyHtoDAsync(from, mine, bytes, stream);
    if (result == CUDA_SUCCESS) {
        result = drv->cuStreamSynchronize(stream);
    }
    if (result != CUDA_SUCCESS) {
        return driver_error(drv, err, result, "cuMemcpyHtoDAsync(%zu bytes for NCCL)", bytes);
    }
    int code = self->nccl.all_gather((const void *)(uintptr_t)from, (void *)(uintptr_t)to, bytes, NCCL_UINT8,
                                     self->comm, stream);
    grs_status status = code == NCCL_IN_PROGRESS ? GRS_OK : nccl_check(&self->nccl, code, "ncclAllGather", err);
    if (status != GRS_OK || (status = wait_for(self, stream, err)) != GRS_OK) {
        return status;
    }
    result = drv->cuMemcpyDtoH(all, to, bytes * (size_t)self->size);
    return result == CUDA_SUCCESS ? GRS_OK : driver_error(drv, err, result, "cuMemcpyDtoH(what NCCL gathered)");
}

/* With the context current. Memory and stream are left behind after a timeout, since NCCL may still use them. */
static grs_status gather(struct nccl_bootstrap *self, const void *mine, size_t bytes, void *all, grs_error *err) {
    const struct driver *drv = self->drv;
    CUdeviceptr from = 0, to = 0;
    CUstream stream = NULL;
    CUresult result = drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) {
        return driver_error(drv, err, result, "cuStreamCreate(for NCCL)");
    }
    result = drv->cuMemAlloc(&from, bytes);
    if (result == CUDA_SUCCESS) {
        result = drv->cuMemAlloc(&to, bytes * (size_t)self->size);
        to = result == CUDA_SUCCESS ? to : 0;
    } else {
        from = 0;
    }
    grs_status status = result == CUDA_SUCCESS ? gather_on(self, stream, from, to, mine, bytes, all, err)
                                               : driver_error(drv, err, result, "cuMemAlloc(%zu bytes for NCCL)",
                                                              bytes * (size_t)self->size);
    if (status == GRS_ERR_TIMEOUT) {
        return status;
    }
    if (from != 0) {
        drv->cuMemFree(from);
    }
    if (to != 0) {
        drv->cuMemFree(to);
    }
    drv->cuStreamDestroy(stream);
    return status;
}

static int nccl_all_gather(void *arg, const void *mine, size_t bytes, void *all) {
    struct nccl_bootstrap *self = arg;
    const struct driver *drv = self->drv;
    grs_error *err = &self->error;
    CUcontext context, old;
    CUresult result = drv->cuDevicePrimaryCtxRetain(&context, self->device);
    if (result != CUDA_SUCCESS) {
        return driver_error(drv, err, result, "cuDevicePrimaryCtxRetain(the GPU of the ncclComm_t)");
    }
    result = drv->cuCtxPushCurrent(context);
    grs_status status = GRS_OK;
    if (result != CUDA_SUCCESS) {
        status = driver_error(drv, err, result, "cuCtxPushCurrent(the GPU of the ncclComm_t)");
    } else {
        status = gather(self, mine, bytes, all, err);
        drv->cuCtxPopCurrent(&old);
    }
    drv->cuDevicePrimaryCtxRelease(self->device);
    return (int)status;
}

grs_status grs_comm_create_nccl(grs_ctx *ctx, void *nccl_comm, const grs_comm_options *options, grs_comm **out,
                                grs_error *err) {
    struct nccl_bootstrap self = {.comm = nccl_comm};
    int rank = 0, device = 0;
    grs_error own;
    err = err == NULL ? &own : err;
    if (ctx == NULL || nccl_comm == NULL || out == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_comm_create_nccl: %s is NULL",
                         ctx == NULL ? "ctx" : (nccl_comm == NULL ? "nccl_comm" : "out"));
    }
    *out = NULL;
    error_clear(err);
    self.drv = driver_get(err);
    grs_status status = self.drv == NULL ? err->status : peers_setup_seconds(options, &self.seconds, err);
    if (status != GRS_OK || (status = open_nccl(&self.nccl, err)) != GRS_OK ||
        (status = nccl_check(&self.nccl, self.nccl.count(self.comm, &self.size), "ncclCommCount", err)) != GRS_OK ||
        (status = nccl_check(&self.nccl, self.nccl.rank(self.comm, &rank), "ncclCommUserRank", err)) != GRS_OK ||
        (status = nccl_check(&self.nccl, self.nccl.device(self.comm, &device), "ncclCommCuDevice", err)) != GRS_OK) {
        return status;
    }
    if (self.size < 1 || self.size > GRS_MAX_TP) {
        return error_set(err, GRS_ERR_ARGUMENT,
                         "the ncclComm_t has %d ranks; allowed: 1 to %d (split it: "
                         "ncclCommSplit)",
                         self.size, GRS_MAX_TP);
    }
    CUresult result = self.drv->cuDeviceGet(&self.device, device);
    if (result != CUDA_SUCCESS) {
        return driver_error(self.drv, err, result, "cuDeviceGet(%d, the GPU of the ncclComm_t)", device);
    }
    const grs_bootstrap bootstrap = {.size = sizeof(bootstrap), .arg = &self, .all_gather = nccl_all_gather};
    return peers_create(ctx, rank, self.size, device, &bootstrap, &self.error, options, out, err);
}
