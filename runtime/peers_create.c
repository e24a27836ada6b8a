/* Making one rank of a group whose ranks are in several processes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "runtime/options.h"
#include "runtime/peers.h"

/* ---------------------------------------------------------------- this rank alone ------------------------------- */

static grs_status check_device(const struct group *group, const struct group_device *device, grs_error *err) {
    int virtual = 0, files = 0;
    CUresult result = group->drv->cuDeviceGetAttribute(
        &virtual, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device->device);
    if (result == CUDA_SUCCESS) {
        result = group->drv->cuDeviceGetAttribute(
            &files, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device->device);
    }
    if (result != CUDA_SUCCESS) {
        return driver_error(group->drv, err, result, "cuDeviceGetAttribute(%s)", device->name);
    }
    return virtual && files ? GRS_OK
                            : error_set(err, GRS_ERR_PEER,
                                        "%s cannot share memory with other processes: the driver offers no %s here "
                                        "(docs/processes.md; ranks in one process need none)",
                                        device->name, virtual ? "file descriptors for it" : "virtual memory");
}

/* The GPU and the listening socket, and what the others should know of them. */
static grs_status open_own(struct group *group, int rank, int ordinal, const grs_comm_options *options,
                           struct hello *hello, grs_error *err) {
    const char *directory = secure_getenv("GRS_SOCKET_DIR");
    struct group_device *device = &group->devices[0];
    CUuuid uuid;
    grs_status status = peers_setup_seconds(options, &group->peers->setup_seconds, err);
    if (status == GRS_OK && (group->drv = driver_get(err)) == NULL) {
        status = err->status;
    }
    if (status == GRS_OK) {
        status = mesh_listen(&group->peers->mesh, rank, group->tp,
                             directory == NULL || directory[0] == '\0' ? NULL : directory, err);
        hello->address = group->peers->mesh.address;
    }
    if (status != GRS_OK || (status = group_read_options(group, options, err)) != GRS_OK) {
        return status;
    }
    int visible = 0;
    CUresult result = group->drv->cuDeviceGetCount(&visible);
    if (result != CUDA_SUCCESS) {
        return driver_error(group->drv, err, result, "cuDeviceGetCount");
    }
    if (ordinal < 0 || ordinal >= visible) {
        return error_set(err, GRS_ERR_ARGUMENT, "device is %d; this process sees %d GPU%s (CUDA_VISIBLE_DEVICES)",
                         ordinal, visible, visible == 1 ? "" : "s");
    }
    *device = (struct group_device){.ordinal = ordinal, .rank_count = 1, .ranks = {rank}};
    group->device_count = 1;
    if ((status = group_ask_device(group, device, err)) != GRS_OK) {
        return status;
    }
    snprintf(hello->device, sizeof(hello->device), "%s", device->name);
    if ((status = check_device(group, device, err)) != GRS_OK ||
        (status = group_open_device(group, device, err)) != GRS_OK) {
        return status;
    }
    result = group->drv->cuDeviceGetUuid(&uuid, device->device);
    if (result != CUDA_SUCCESS) {
        return driver_error(group->drv, err, result, "cuDeviceGetUuid(%s)", device->name);
    }
    memcpy(hello->gpu, uuid.bytes, sizeof(hello->gpu));
    return GRS_OK;
}

/* ---------------------------------------------------------------- first contact --------------------------------- */

static grs_status bootstrap_failed(const char *what, int code, const grs_error *own, grs_error *err) {
    if (own != NULL && own->status != GRS_OK) {
        return error_set(err, own->status, "%s", own->text);
    }
    return error_set(err, GRS_ERR_PEER, "the bootstrap's %s failed (it returned %d)", what, code);
}

/* GPUs that this process sees are asked whether they reach each other; of others the mapping of memory will tell. */
static grs_status check_reach(struct group *group, const struct hello *all, grs_error *err) {
    const struct driver *drv = group->drv;
    const struct group_device *own = &group->devices[0];
    int visible = 0;
    grs_status status = GRS_OK;
    CUresult result = drv->cuDeviceGetCount(&visible);
    for (int ordinal = 0; ordinal < visible && result == CUDA_SUCCESS && status == GRS_OK; ordinal++) {
        struct group_device other = {.ordinal = ordinal};
        CUuuid uuid;
        bool has_rank = false;
        result = drv->cuDeviceGet(&other.device, ordinal);
        if (result == CUDA_SUCCESS) {
            result = drv->cuDeviceGetUuid(&uuid, other.device);
        }
        for (int rank = 0; rank < group->tp && result == CUDA_SUCCESS; rank++) {
            if (memcmp(uuid.bytes, all[rank].gpu, sizeof(uuid.bytes)) == 0) {
                has_rank = true;
                snprintf(other.name, sizeof(other.name), "the GPU of rank %d", rank);
            }
        }
        if (result == CUDA_SUCCESS && has_rank && ordinal != own->ordinal) {
            status = group_check_pair(group, own, &other, err);
        }
    }
    return result == CUDA_SUCCESS ? status : driver_error(drv, err, result, "cuDeviceGetUuid");
}

static grs_status meet(struct group *group, const struct hello *mine, const grs_bootstrap *bootstrap,
                       const grs_error *bootstrap_error, struct hello *all, const struct deadline *deadline,
                       grs_error *err) {
    struct mesh *mesh = &group->peers->mesh;
    struct mesh_address addresses[GRS_MAX_TP];
    int code = bootstrap->all_gather(bootstrap->arg, mine, sizeof(*mine), all);
    if (code != 0) {
        return bootstrap_failed("all-gather", code, bootstrap_error, err);
    }
    grs_status status = hello_check(all, group->tp, err);
    if (status != GRS_OK) {
        return status;
    }
    for (int rank = 0; rank < group->tp; rank++) {
        hello_name(&all[rank], mesh->name[rank], sizeof(mesh->name[rank]));
        addresses[rank] = all[rank].address;
    }
    return mesh_connect(mesh, addresses, deadline, err);
}

/* ---------------------------------------------------------------- shared memory --------------------------------- */

static grs_status map_board(struct group *group, int file, grs_error *err) {
    struct stat about;
    size_t bytes = group->peers->board_bytes;
    if (fstat(file, &about) != 0 || (size_t)about.st_size != bytes) {
        return error_set(err, GRS_ERR_PEER, "rank 0 gave %lld bytes for the wait records, not %zu",
                         (long long)about.st_size, bytes);
    }
    void *board = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (board == MAP_FAILED) {
        return error_set(err, GRS_ERR_MEMORY, "no memory for the wait records of %d ranks", group->tp);
    }
    group->host = board;
    CUresult result =
        group->drv->cuMemHostRegister(board, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result != CUDA_SUCCESS) {
        return driver_error(group->drv, err, result, "cuMemHostRegister(%zu bytes for wait records)", bytes);
    }
    group->peers->registered = true;
    return GRS_OK;
}

/* Rank 0 makes the memory in which every GPU writes its record, and every process reads all of them. */
static grs_status make_board(size_t bytes, int *file, grs_error *err) {
    *file = memfd_create("grs-records", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*file < 0 || ftruncate(*file, (off_t)bytes) != 0) {
        return error_set(err, GRS_ERR_MEMORY, "no memory for %zu bytes of wait records", bytes);
    }
    fcntl(*file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL); /* nobody can cut it under the others */
    return GRS_OK;
}

static grs_status stage_control(struct group *group, struct grs_comm *own, struct symm_fresh *fresh, int *board,
                                grs_error *err) {
    struct symm_sizes sizes = {.bytes[SYMM_CONTROL] = SYMM_EVERYONE_OFFSET + (size_t)group->tp * sizeof(CUdeviceptr)};
    grs_status status = own->rank == 0 ? make_board(group->peers->board_bytes, board, err) : GRS_OK;
    if (status == GRS_OK) {
        status = symm_stage(group->drv, &own->symm, &sizes, &own->device->device, own->device->stream, fresh, err);
    }
    return status;
}

/* Maps every rank's control words and the board, all of them checked for what was sent. */
static grs_status take_control(struct group *group, struct grs_comm *own, const struct mesh_files *files,
                               struct symm_fresh *fresh, int board, grs_error *err) {
    size_t bytes = SYMM_EVERYONE_OFFSET + (size_t)group->tp * sizeof(CUdeviceptr);
    grs_status status = GRS_OK;
    symm_commit(&own->symm, fresh);
    for (int rank = 0; rank < group->tp && status == GRS_OK; rank++) {
        struct grs_comm *comm = &group->ranks[rank];
        if (rank == own->rank) {
            continue;
        }
        if (files->received[rank][0] < 0) {
            return error_set(err, GRS_ERR_PEER, "%s sent no file descriptor of its control words",
                             group->peers->mesh.name[rank]);
        }
        struct symm_fresh theirs;
        symm_fresh_init(&theirs);
        status = symm_import(group->drv, &comm->symm, SYMM_CONTROL, bytes, files->received[rank][0],
                             own->device->device, &theirs, err);
        if (status == GRS_OK) {
            symm_commit(&comm->symm, &theirs);
        } else {
            symm_discard(group->drv, &theirs);
            error_prepend(err, "the memory of %s", group->peers->mesh.name[rank]);
        }
    }
    board = own->rank == 0 ? board : files->received[0][1];
    if (status == GRS_OK && board < 0) {
        status =
            error_set(err, GRS_ERR_PEER, "%s sent no file descriptor of the wait records", group->peers->mesh.name[0]);
    }
    status = status == GRS_OK ? map_board(group, board, err) : status;
    status = status == GRS_OK ? group_map_record(group, own, err) : status;
    return status == GRS_OK ? group_write_everyone(group, own, err) : status;
}

static grs_status share(struct group *group, struct grs_comm *own, const struct deadline *deadline, grs_error *err) {
    static const char what[] = "the making of the communicator";
    struct mesh_files *files = malloc(sizeof(*files));
    struct symm_fresh fresh;
    int board = -1;
    grs_error own_error;
    symm_fresh_init(&fresh);
    if (files == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of memory for the files of %d ranks", group->tp);
    }
    mesh_files_init(files);
    grs_status mine = stage_control(group, own, &fresh, &board, &own_error);
    for (int rank = 0; rank < group->tp && mine == GRS_OK; rank++) {
        files->send[rank][0] = fresh.file[SYMM_CONTROL];
        files->send[rank][1] = board;
    }
    grs_status status = peers_agree(group, what, mine, &own_error, files, deadline, err);
    if (status == GRS_OK) {
        mine = take_control(group, own, files, &fresh, board, &own_error);
        if (own->rank == 0 && mine == GRS_OK) {
            group->host->one = 1;
        }
        status = peers_agree(group, what, mine, &own_error, NULL, deadline, err);
    }
    symm_discard(group->drv, &fresh);
    mesh_files_close(files);
    free(files);
    if (board >= 0) {
        close(board);
    }
    return status;
}

/* ---------------------------------------------------------------- together -------------------------------------- */

static grs_status open_group(struct group *group, int rank, int ordinal, const grs_bootstrap *bootstrap,
                             const grs_error *bootstrap_error, const grs_comm_options *options, struct hello *hellos,
                             grs_error *err) {
    struct grs_comm *own = &group->ranks[rank];
    struct hello mine;
    grs_error own_error;
    hello_init(&mine, rank, group->tp);
    /* A rank that fails here still comes to the exchange: the others learn why. */
    mine.status = (int32_t)open_own(group, rank, ordinal, options, &mine, &own_error);
    if (mine.status != GRS_OK) {
        snprintf(mine.text, sizeof(mine.text), "%.*s", (int)sizeof(mine.text) - 1, own_error.text);
    }
    struct deadline deadline = deadline_in(group->peers->setup_seconds);
    grs_status status = meet(group, &mine, bootstrap, bootstrap_error, hellos, &deadline, err);
    if (status != GRS_OK) {
        return status;
    }
    own->device = &group->devices[0];
    own->device->sharers = hello_sharers(hellos, group->tp, rank);
    deadline = deadline_in(group->peers->setup_seconds);
    grs_status reach = group_share_device(group, own->device, &own_error);
    reach = reach == GRS_OK ? check_reach(group, hellos, &own_error) : reach;
    bool entered = reach == GRS_OK && (reach = group_enter(group, own->device, &own_error)) == GRS_OK;
    status = peers_agree(group, "the making of the communicator", reach, &own_error, NULL, &deadline, err);
    if (status == GRS_OK) {
        status = share(group, own, &deadline, err);
    }
    if (entered) {
        group_leave(group);
    }
    return status;
}

grs_status peers_create(grs_ctx *ctx, int rank, int size, int device, const grs_bootstrap *bootstrap,
                        const grs_error *bootstrap_error, const grs_comm_options *options, grs_comm **out,
                        grs_error *err) {
    struct group *group = NULL;
    struct hello *hellos = calloc((size_t)size, sizeof(*hellos));
    grs_status status = group_make(ctx, NULL, size, &group, err);
    if (status == GRS_OK && (hellos == NULL || (group->peers = calloc(1, sizeof(*group->peers))) == NULL)) {
        status = error_set(err, GRS_ERR_MEMORY, "out of memory for %d ranks", size);
    }
    if (status == GRS_OK) {
        group->peers->mesh.listener = -1;
        long page = sysconf(_SC_PAGESIZE);
        size_t bytes = sizeof(struct group_host) + (size_t)size * sizeof(struct group_record);
        group->peers->board_bytes = (bytes + (size_t)page - 1) / (size_t)page * (size_t)page;
        for (int i = 0; i < size; i++) {
            group->ranks[i] = (struct grs_comm){.group = group, .rank = i};
        }
        status = open_group(group, rank, device, bootstrap, bootstrap_error, options, hellos, err);
    }
    if (status == GRS_OK && bootstrap->barrier != NULL) {
        int code = bootstrap->barrier(bootstrap->arg);
        status = code == 0 ? GRS_OK : bootstrap_failed("barrier", code, bootstrap_error, err);
    }
    free(hellos);
    if (status != GRS_OK) {
        if (bootstrap->abort != NULL) {
            bootstrap->abort(bootstrap->arg, err->text);
        }
        group_free(group);
        return status;
    }
    struct grs_comm *own = &group->ranks[rank];
    group->open_count = 1;
    own->open = true;
    *out = own;
    log_write(&ctx->log, GRS_LOG_DEBUG, "%s of %d, %d of %d SMs, %d rank%s on this GPU", group->peers->mesh.name[rank],
              size, own->device->sms, own->device->sm_count, own->device->sharers,
              own->device->sharers == 1 ? "" : "s");
    return GRS_OK;
}

grs_status grs_comm_create(grs_ctx *ctx, int rank, int size, int device, const grs_bootstrap *bootstrap,
                           const grs_comm_options *options, grs_comm **out, grs_error *err) {
    grs_error own;
    grs_bootstrap known = {0};
    err = err == NULL ? &own : err;
    if (ctx == NULL || bootstrap == NULL || out == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_comm_create: %s is NULL",
                         ctx == NULL ? "ctx" : (bootstrap == NULL ? "bootstrap" : "out"));
    }
    *out = NULL;
    if (size < 1 || size > GRS_MAX_TP) {
        return error_set(err, GRS_ERR_ARGUMENT, "size is %d; allowed: 1 to %d", size, GRS_MAX_TP);
    }
    if (rank < 0 || rank >= size) {
        return error_set(err, GRS_ERR_ARGUMENT, "rank is %d; allowed: 0 to %d", rank, size - 1);
    }
    grs_status status = options_copy(&known, sizeof(known), bootstrap, "grs_bootstrap", err);
    if (status == GRS_OK && known.all_gather == NULL) {
        status = error_set(err, GRS_ERR_ARGUMENT, "grs_comm_create: bootstrap->all_gather is NULL");
    }
    return status == GRS_OK ? peers_create(ctx, rank, size, device, &known, NULL, options, out, err) : status;
}
