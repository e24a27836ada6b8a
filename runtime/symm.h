/* Memory that the ranks of a group share: one allocation a purpose and rank. Everything that knows how it is allocated is
 * here. Between processes it is virtual memory with a handle that can be sent as a file descriptor: a mapping keeps the
 * memory alive whatever becomes of the process that made it. */
#ifndef GRS_RUNTIME_SYMM_H
#define GRS_RUNTIME_SYMM_H

#include <stdbool.h>

#include "generator/plan.h"
#include "runtime/driver.h"

enum symm_purpose {
    SYMM_CONTROL = 0, /* struct grs_control, then the device array `everyone` of the group's control pointers */
    SYMM_SLOTS,       /* upstream writes partials here                                                        */
    SYMM_MASK,        /* upstream sets bits here                                                              */
    SYMM_OUTBOX,      /* what this rank is about to send                                                      */
    SYMM_GROUPS,      /* counters of tiles landed a signal group                                              */
    SYMM_WAITS,       /* wait counters, for kernels with them compiled in                                     */
    SYMM_STAMPS,      /* for the same: GRS_STAMPS times of a launch's begin and end                           */
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

/* `mapped` 0: memory of cuMemAlloc; else virtual memory of so many bytes. */
struct symm_memory {
    CUdeviceptr pointer; /* 0: none */
    size_t mapped;
};

/* A block that was replaced by a larger one. It lives on until the rank goes: a graph that was captured before still points
 * to it, and so do all other ranks' graphs, so replays stay right. */
struct symm_block {
    struct symm_memory memory;
    struct symm_block *next;
};

/* One rank's memory; of a rank in another process what this one has mapped. Zero-initialise; the caller has made the rank's
 * context current for every call. */
struct symm {
    CUdeviceptr pointer[SYMM_PURPOSES]; /* 0: none */
    size_t mapped[SYMM_PURPOSES];
    struct symm_sizes sizes;
    struct symm_block *retired;
};

/* Memory that was made but is not yet in use, so that ranks can agree on it first. */
struct symm_fresh {
    struct symm_memory memory[SYMM_PURPOSES];
    size_t bytes[SYMM_PURPOSES];
    int file[SYMM_PURPOSES]; /* for another process; -1: none, closed by symm_commit and symm_discard */
    struct symm_block *retired[SYMM_PURPOSES];
};

/* Makes what is smaller than `wanted`. New memory that must start at zero (control, mask, groups) is zeroed on `stream` and
 * waited for. `sharing` NULL: all of it by cuMemAlloc; else what other ranks write to (control, slots, mask) is made with a
 * file descriptor, on that device. A failure leaves nothing behind. */
grs_status symm_stage(const struct driver *drv, const struct symm *symm, const struct symm_sizes *wanted,
                      const CUdevice *sharing, CUstream stream, struct symm_fresh *out, grs_error *err);
/* Maps memory of another process, `bytes` of it as its maker asked for, with access from `device`. */
grs_status symm_import(const struct driver *drv, const struct symm *symm, enum symm_purpose purpose, size_t bytes,
                       int file, CUdevice device, struct symm_fresh *out, grs_error *err);
/* Takes the fresh memory into use; cannot fail. */
void symm_commit(struct symm *symm, struct symm_fresh *fresh);
void symm_discard(const struct driver *drv, struct symm_fresh *fresh);
void symm_fresh_init(struct symm_fresh *fresh);
/* What other ranks write to. */
bool symm_is_shared(enum symm_purpose purpose);

/* Grows what is smaller than `wanted`, never shrinks: symm_stage and symm_commit within one process. A failure leaves what
 * was there before. */
grs_status symm_grow(const struct driver *drv, struct symm *symm, const struct symm_sizes *wanted, CUstream stream,
                     grs_error *err);
void symm_free(const struct driver *drv, struct symm *symm);

const char *symm_purpose_name(enum symm_purpose purpose);

#endif
