/* What ranks of the same place in their nodes exchange. */
#include "common/buf.h"
#include "common/error.h"
#include "runtime/staged.h"

static void *pointer_of(CUdeviceptr memory) {
    return (void *)(uintptr_t)memory; // NOLINT(performance-no-int-to-ptr): a device address
}

/* ---------------------------------------------------------------- on the stream --------------------------------- */

/* A group, of which NCCL makes one kernel: the word costs no launch and no wait of its own. */
static int call(const struct staged *staged, ncclComm_t across, const void *word, void *words, void *to, size_t count,
                CUstream stream, const char **what) {
    const struct nccl_api *nccl = &staged->nccl;
    *what = "ncclGroupStart";
    int code = nccl->group_start();
    if (code != NCCL_SUCCESS) {
        return code;
    }
    *what = "ncclReduceScatter";
    code = nccl->reduce_scatter(pointer_of(staged->work), to, count, NCCL_BFLOAT16, NCCL_SUM, across, stream);
    if (code == NCCL_SUCCESS || code == NCCL_IN_PROGRESS) {
        *what = "ncclAllGather";
        code = nccl->all_gather(word, words, sizeof(uint32_t), NCCL_UINT8, across, stream);
    }
    int end = nccl->group_end();
    if (code == NCCL_SUCCESS || code == NCCL_IN_PROGRESS) {
        *what = "ncclGroupEnd";
        code = end;
    }
    return code;
}

grs_status staged_exchange(struct staged *staged, bool failed, CUdeviceptr to, size_t count, CUstream stream,
                           grs_error *err) {
    const struct nccl_api *nccl = &staged->nccl;
    const struct grs_comm *inner = staged->inner;
    const struct group_host *host = inner->group->host;
    const struct group_record *record = &host->rank[inner->rank];
    /* The GPU's view of host memory that is one piece. */
    CUdeviceptr one = inner->record - (CUdeviceptr)((const char *)&record->record - (const char *)&host->one);
    CUdeviceptr words = inner->record + offsetof(struct group_record, told);
    CUdeviceptr word = failed ? one : inner->symm.pointer[SYMM_CONTROL] + offsetof(grs_control, abort);
    const char *what = NULL;
    ncclComm_t across = nccl_door_enter(&staged->across);
    int code = NCCL_CLOSED;
    if (across != NULL) {
        code = call(staged, across, pointer_of(word), pointer_of(words), pointer_of(to), count, stream, &what);
        code = nccl_settle(nccl, &staged->across, nccl_door_leave(&staged->across, code));
    }
    if (code == NCCL_CLOSED) {
        return error_set(err, GRS_ERR_STATE, "rank %d: the communicator was aborted", staged->handle.rank);
    }
    return nccl_check(nccl, code, what, err);
}

/* ---------------------------------------------------------------- what it brought ------------------------------- */

static bool is_told_of(const struct staged *staged, int node) {
    const struct group_host *host = staged->inner->group->host;
    uint32_t words = 0;
    for (int i = 0; i < staged->nodes.local; i++) {
        words |= __atomic_load_n(&host->rank[i].told[node], __ATOMIC_ACQUIRE);
    }
    return words != 0;
}

bool staged_is_told(const struct staged *staged) {
    bool told = false;
    for (int node = 0; node < staged->nodes.count; node++) {
        told |= is_told_of(staged, node);
    }
    return told;
}

grs_status staged_told(const struct staged *staged, bool own, grs_error *err) {
    int local = staged->nodes.local;
    struct buf text = {0};
    for (int node = 0; node < staged->nodes.count; node++) {
        if ((!own && node == staged->handle.rank / local) || !is_told_of(staged, node)) {
            continue;
        }
        buf_puts(&text, text.length > 0 ? " and " : "");
        if (local > 1) {
            buf_printf(&text, "node %d (%s, ranks %d to %d)", node, staged->names[node].text, node * local,
                       node * local + local - 1);
        } else {
            buf_printf(&text, "rank %d (%s)", node, staged->names[node].text);
        }
    }
    grs_status status = GRS_OK;
    if (text.length > 0 || text.failed) {
        status = error_set(err, GRS_ERR_PEER,
                           "rank %d: %s left a launch early: D of that launch and of later ones is not valid; "
                           "grs_comm_check there says why",
                           staged->handle.rank, text.data == NULL ? "another node" : text.data);
    }
    buf_free(&text);
    return status;
}
