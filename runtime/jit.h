/* From a shape to a kernel: a table in memory, then the cache, then the compiler. */
#ifndef GRS_RUNTIME_JIT_H
#define GRS_RUNTIME_JIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "generator/classes.h"
#include "grs.h"

/* The kernels of one (N, K, tp), one a class of M. Made once, never removed; look-ups read it without a lock. */
struct jit_shape {
    int64_t m; /* with m: fixed, the one M that it serves; 0: all of them, by class */
    int64_t n, k;
    int tp;
    struct classes classes;
    struct jit_slot {
        _Atomic(const grs_kernel *) kernel;
        grs_error *failure; /* remembered: a hundred callers do not compile a hundred times; guarded by jit.lock */
        bool building;      /* guarded by jit.lock */
    } slot[CLASSES_MAX];
};

/* Open addressing with linear probing. A full table is replaced by a larger one; the old one stays readable until the
 * context goes, since a reader may be in it. */
struct jit_table {
    size_t mask; /* slots - 1 */
    struct jit_table *older;
    _Atomic(struct jit_shape *) entry[];
};

struct jit {
    _Atomic(struct jit_table *) table;
    size_t count; /* guarded by lock, like every change */
    bool fixed;   /* config says m: fixed */
    pthread_mutex_t lock;
    pthread_cond_t done; /* some slot's `building` has become false */
};

/* What is compiled into a kernel beside its work, each another text and so another key. */
struct kernel_hooks {
    bool count_waits; /* cycles that each role waits: docs/grsrun.md                        */
    bool pace_model;  /* the link model, for ranks that share a GPU                         */
    bool stall;       /* the test hook that makes a sender stand still                      */
};

grs_status jit_init(struct jit *jit, bool fixed, grs_error *err);
void jit_free(struct jit *jit);

/* One kernel from cache or compiler, for an explicit config and arch, with the context's hooks. `*out` belongs to the caller
 * (kernel_free). */
grs_status jit_build(grs_ctx *ctx, const struct config *config, enum arch arch, const struct plan_shape *shape,
                     struct grs_kernel **out, grs_error *err);
/* The same with hooks of the caller's choice. */
grs_status jit_build_hooked(grs_ctx *ctx, const struct config *config, enum arch arch, const struct plan_shape *shape,
                            const struct kernel_hooks *hooks, struct grs_kernel **out, grs_error *err);

/* The same, and the context keeps the kernel as long as it lives. */
grs_status jit_get_hooked(grs_ctx *ctx, const struct config *config, enum arch arch, const struct plan_shape *shape,
                          const struct kernel_hooks *hooks, const grs_kernel **out, grs_error *err);

/* True when jit_build would find the kernel in the cache; compiles nothing. `plan` (may be NULL) receives the plan and
 * `key` (may be NULL) the entry's name; errors are those of the planner. */
grs_status jit_probe(grs_ctx *ctx, const struct config *config, enum arch arch, const struct plan_shape *shape,
                     bool *cached, struct plan *plan, char key[65], grs_error *err);

/* The class of M under a config, or the refusal of a fixed M that the config does not list. */
grs_status jit_class(const struct config *config, enum arch arch, int64_t M, int64_t n, int64_t k, int tp,
                     struct plan_shape *out, grs_error *err);

#endif
