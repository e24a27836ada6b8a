/* Memory that the ranks of a group share: one allocation a purpose and rank. Everything that knows how it is allocated is
 * here, so that memory of other processes can come in by handle without the rest knowing. */
#ifndef GRS_RUNTIME_SYMM_H
#define GRS_RUNTIME_SYMM_H

#include "generator/plan.h"
#include "runtime/driver.h"

enum symm_purpose {
    SYMM_CONTROL = 0, /* struct grs_control, then the device array `everyone` of the group's control pointers */
    SYMM_SLOTS,       /* upstream writes partials here                                                        */
    SYMM_MASK,        /* upstream sets bits here                                                              */
    SYMM_OUTBOX,      /* what this rank is about to send                                                      */
    SYMM_GROUPS,      /* counters of tiles landed a signal group                                              */
    SYMM_WAITS,       /* wait counters, for kernels with them compiled in                                     */
    SYMM_PURPOSES
};
#define SYMM_EVERYONE_OFFSET sizeof(grs_control)
#define SYMM_WAITS_A_CTA     (GRS_ROLE_COUNT * GRS_WAIT_COUNT)

struct symm_sizes {
    size_t bytes[SYMM_PURPOSES];
};

/* What a rank of `plan` needs for launches with M <= max_M on `grid` CTAs. */
void symm_sizes_of(const struct plan *plan, int64_t max_M, int grid, struct symm_sizes *out);
size_t symm_total(const struct symm_sizes *sizes);

/* A block that was replaced by a larger one. It lives on until the rank goes: a graph that was captured before still points
 * to it, and so do all other ranks' graphs, so replays stay right. */
struct symm_block {
    CUdeviceptr pointer;
    struct symm_block *next;
};

/* One rank's memory. Zero-initialise; the caller has made the rank's context current for every call. */
struct symm {
    CUdeviceptr pointer[SYMM_PURPOSES]; /* 0: none */
    struct symm_sizes sizes;
    struct symm_block *retired;
};

/* Grows what is smaller than `wanted`, never shrinks. New memory that must start at zero (control, mask, groups) is zeroed
 * on `stream` and waited for. A failure leaves what was there before. */
grs_status symm_grow(const struct driver *drv, struct symm *symm, const struct symm_sizes *wanted, CUstream stream,
                     grs_error *err);
void symm_free(const struct driver *drv, struct symm *symm);

const char *symm_purpose_name(enum symm_purpose purpose);

#endif
