#include "runtime/nccl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/error.h"
#include "runtime/deadline.h"
#include "runtime/nccl_door.h"

/* ---------------------------------------------------------------- the library ----------------------------------- */

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

grs_status nccl_load(struct nccl_api *out, grs_error *err) {
    const struct {
        const char *name;
        void *member;
    } symbols[] = {
#define NCCL_SYMBOL(member, symbol, parameters) {#symbol, &out->member},
        NCCL_FUNCTIONS(NCCL_SYMBOL)
#undef NCCL_SYMBOL
            {"ncclGetErrorString", &out->error_text},
    };
    grs_error own;
    err = err == NULL ? &own : err;
    error_clear(err);
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

grs_status nccl_check(const struct nccl_api *nccl, int status, const char *what, grs_error *err) {
    if (status == NCCL_CLOSED) {
        return error_set(err, GRS_ERR_STATE, "%s: the communicator was aborted", what);
    }
    return status == NCCL_SUCCESS ? GRS_OK : error_set(err, GRS_ERR_PEER, "%s: %s", what, nccl->error_text(status));
}

/* ---------------------------------------------------------------- waiting --------------------------------------- */

static void pause_briefly(void) {
    const struct timespec pause = {0, 200000};
    nanosleep(&pause, NULL);
}

int nccl_settle(const struct nccl_api *nccl, struct nccl_door *door, int status) {
    while (status == NCCL_IN_PROGRESS) {
        pause_briefly();
        status = nccl_door_ask(door, nccl);
    }
    return status;
}

grs_status nccl_wait(const struct nccl_end *end, const char *what, CUstream stream, grs_error *err) {
    struct deadline deadline = deadline_in(end->seconds);
    for (;;) {
        CUresult result = end->drv->cuStreamQuery(stream);
        if (result != CUDA_ERROR_NOT_READY) {
            return result == CUDA_SUCCESS ? GRS_OK : driver_error(end->drv, err, result, "cuStreamQuery");
        }
        int error = nccl_door_ask(end->door, end->nccl);
        if (error != NCCL_SUCCESS && error != NCCL_IN_PROGRESS) {
            return nccl_check(end->nccl, error, what, err);
        }
        if (deadline_left_ms(&deadline) == 0) {
            return error_set(err, GRS_ERR_TIMEOUT,
                             "a rank of the ncclComm_t did not come to %s in time "
                             "(GRS_SETUP_DEADLINE, default 120 s); the communicator of NCCL has a call pending",
                             what);
        }
        pause_briefly();
    }
}

/* ---------------------------------------------------------------- an exchange of host memory -------------------- */

static grs_status gather_on(const struct nccl_end *end, const char *what, CUstream stream, CUdeviceptr from,
                            CUdeviceptr to, const void *mine, size_t bytes, void *all, grs_error *err) {
    const struct driver *drv = end->drv;
    CUresult result = drv->cuMemcpyHtoDAsync(from, mine, bytes, stream);
    if (result == CUDA_SUCCESS) {
        result = drv->cuStreamSynchronize(stream);
    }
    if (result != CUDA_SUCCESS) {
        return driver_error(drv, err, result, "cuMemcpyHtoDAsync(%zu bytes for NCCL)", bytes);
    }
    ncclComm_t comm = nccl_door_enter(end->door);
    int code = NCCL_CLOSED;
    if (comm != NULL) {
        code = end->nccl->all_gather((const void *)(uintptr_t)from, (void *)(uintptr_t)to, bytes, NCCL_UINT8, comm,
                                     stream);
        code = nccl_settle(end->nccl, end->door, nccl_door_leave(end->door, code));
    }
    grs_status status = nccl_check(end->nccl, code, "ncclAllGather", err);
    if (status != GRS_OK || (status = nccl_wait(end, what, stream, err)) != GRS_OK) {
        return status;
    }
    result = drv->cuMemcpyDtoH(all, to, bytes * (size_t)end->size);
    return result == CUDA_SUCCESS ? GRS_OK : driver_error(drv, err, result, "cuMemcpyDtoH(what NCCL gathered)");
}

/* With the context current. Memory and stream are left behind while NCCL may still use them. */
static grs_status gather(const struct nccl_end *end, const char *what, const void *mine, size_t bytes, void *all,
                         grs_error *err) {
    const struct driver *drv = end->drv;
    CUdeviceptr from = 0, to = 0;
    CUstream stream = NULL;
    CUresult result = drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) {
        return driver_error(drv, err, result, "cuStreamCreate(for NCCL)");
    }
    result = drv->cuMemAlloc(&from, bytes);
    if (result == CUDA_SUCCESS) {
        result = drv->cuMemAlloc(&to, bytes * (size_t)end->size);
        to = result == CUDA_SUCCESS ? to : 0;
    } else {
        from = 0;
    }
    grs_status status = result == CUDA_SUCCESS ? gather_on(end, what, stream, from, to, mine, bytes, all, err)
                                               : driver_error(drv, err, result, "cuMemAlloc(%zu bytes for NCCL)",
                                                              bytes * (size_t)end->size);
    if (status != GRS_OK && drv->cuStreamQuery(stream) != CUDA_SUCCESS) {
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

static grs_status enter(const struct nccl_end *end, grs_error *err) {
    CUcontext context;
    CUresult result = end->drv->cuDevicePrimaryCtxRetain(&context, end->device);
    if (result != CUDA_SUCCESS) {
        return driver_error(end->drv, err, result, "cuDevicePrimaryCtxRetain(the GPU of the ncclComm_t)");
    }
    result = end->drv->cuCtxPushCurrent(context);
    if (result != CUDA_SUCCESS) {
        end->drv->cuDevicePrimaryCtxRelease(end->device);
        return driver_error(end->drv, err, result, "cuCtxPushCurrent(the GPU of the ncclComm_t)");
    }
    return GRS_OK;
}

static void leave(const struct nccl_end *end) {
    CUcontext old;
    end->drv->cuCtxPopCurrent(&old);
    end->drv->cuDevicePrimaryCtxRelease(end->device);
}

grs_status nccl_gather(const struct nccl_end *end, const char *what, const void *mine, size_t bytes, void *all,
                       grs_error *err) {
    grs_status status = enter(end, err);
    if (status == GRS_OK) {
        status = gather(end, what, mine, bytes, all, err);
        leave(end);
    }
    return status;
}

/* ---------------------------------------------------------------- parts of a communicator ----------------------- */

/* The new communicator has its parent's way, and may not be complete. */
static int settle_child(const struct nccl_api *nccl, ncclComm_t child) {
    struct nccl_door door;
    nccl_door_init(&door, child);
    int code = nccl_settle(nccl, &door, nccl_door_ask(&door, nccl));
    nccl_door_end(&door);
    return code;
}

grs_status nccl_split(const struct nccl_end *end, int color, int key, ncclComm_t *out, grs_error *err) {
    const struct nccl_api *nccl = end->nccl;
    *out = NULL;
    grs_status status = enter(end, err);
    if (status != GRS_OK) {
        return status;
    }
    ncclComm_t parent = nccl_door_enter(end->door);
    int code = NCCL_CLOSED;
    if (parent != NULL) {
        code = nccl->split(parent, color, key, out, NULL);
        code = nccl_settle(nccl, end->door, nccl_door_leave(end->door, code));
    }
    code = code == NCCL_SUCCESS && *out != NULL ? settle_child(nccl, *out) : code;
    if (code != NCCL_SUCCESS && *out != NULL) { /* of no use, and nobody else knows of it */
        nccl->abort(*out);
        *out = NULL;
    }
    status = nccl_check(nccl, code, "ncclCommSplit", err);
    if (status == GRS_OK && *out == NULL) {
        status = error_set(err, GRS_ERR_PEER, "ncclCommSplit gave no communicator");
    }
    leave(end);
    return status;
}
