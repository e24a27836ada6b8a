/* The ranks of one tp on this machine's GPUs, their operands, and launches of them. */
#ifndef GRS_TOOLS_GRSRUN_TEAM_H
#define GRS_TOOLS_GRSRUN_TEAM_H

#include "tools/grsrun.h"
#include "tools/grsrun_device.h"

struct team {
    const struct grsrun_options *options;
    struct device *devices; /* in use, borrowed */
    int device_count, ranks_per_gpu, tp;
    int sms;                     /* what a rank may use */
    double pace_gbps;            /* of a rank's link under the link model; NAN: none */
    int nodes;                   /* that the sums are made on, each by itself; then NCCL adds them. 1: in one kernel */
    bool in_processes;           /* this process has one rank of the team, */
    int own_rank;                /* this one; everything of the others is computed on its GPU */
    grs_comm *comms[GRS_MAX_TP]; /* NULL: a rank of another process */
    struct device *device[GRS_MAX_TP]; /* of each rank */
    void *streams[GRS_MAX_TP];         /* of each rank: its device's */
    uint64_t launches;                 /* that these communicators have seen */
};

/* How `tp` ranks are dealt over `visible` GPUs when `asked` ranks a GPU were asked for (0: as few as possible). Ranks go
 * out in blocks. GRS_ERR_ARGUMENT: not enough GPUs, in numbers. */
grs_status team_deal(int tp, int visible, int asked, int *ranks_per_gpu, int *devices, grs_error *err);

/* Makes communicators for `tp` ranks over the first of `devices`; the team keeps the pointers. */
grs_status team_open(grs_ctx *ctx, const struct grsrun_options *options, struct device *devices, int visible, int tp,
                     struct team *out, grs_error *err);
void team_close(struct team *team);

/* A, B and D of every rank, with guard zones where they are asked for, and the captured launch of each GPU. */
struct operands {
    struct team *team;
    struct grsrun_shape shape;
    struct matrix a[GRS_MAX_TP], b[GRS_MAX_TP], d[GRS_MAX_TP];
    grs_operands launch[GRS_MAX_TP];
    CUgraphExec graphs[GRS_MAX_TP]; /* by device; NULL: not captured */
};

/* The caller frees with operands_free; NULL on failure. */
grs_status operands_make(struct team *team, const struct grsrun_shape *shape, struct operands **out, grs_error *err);
void operands_free(struct operands *operands);
/* New A and B from a seed. */
grs_status operands_fill(struct operands *operands, uint64_t seed, enum values_mode mode, uint32_t threshold,
                         grs_error *err);
/* Every D back to poison. */
grs_status operands_poison(struct operands *operands, grs_error *err);
/* GRS_ERR_STATE, naming the place, where something around D (or, with `inputs`, in or around A and B) was written. */
grs_status operands_check(const struct operands *operands, bool inputs, grs_error *err);

/* One launch of all ranks, asynchronous. With options.graph the first launch of these operands captures it. */
grs_status team_launch(struct team *team, const grs_kernel *kernel, struct operands *operands, grs_error *err);
/* Waits for every GPU and asks every rank what went wrong. */
grs_status team_wait(struct team *team, grs_error *err);

#endif
