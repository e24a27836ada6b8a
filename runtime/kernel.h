/* A compiled kernel: what the public handle points to. Immutable once it is made. */
#ifndef GRS_RUNTIME_KERNEL_H
#define GRS_RUNTIME_KERNEL_H

#include "cache/cache.h"
#include "common/buf.h"
#include "generator/plan.h"
#include "grs.h"
#include "runtime/nvrtc.h"

/* What the compiler said about a kernel, kept in its cache entry. */
struct kernel_meta {
    int registers, spill_bytes, stack_bytes, static_shared_bytes; /* spills: stores and loads together */
    int threads, shared_bytes, max_grid;                          /* the plan's, for readers of the entry */
    int compile_ms;
};

struct grs_kernel {
    grs_ctx *ctx;
    struct plan plan;
    struct kernel_meta meta;
    struct cache_entry *entry; /* owned: cubin, PTX, source, log */
    char key[HASH_HEX_LENGTH + 1];
    grs_source source;
    struct grs_kernel *next; /* of the context's list */
};

/* Metadata as text, one `key: value` a line; unknown keys are skipped when it is read. False: not metadata. */
void kernel_meta_write(const struct kernel_meta *meta, struct buf *out);
bool kernel_meta_read(const void *data, size_t size, struct kernel_meta *out);

/* Takes the entry over, also on failure. */
grs_status kernel_create(grs_ctx *ctx, const struct plan *plan, struct cache_entry *entry, grs_source source,
                         struct grs_kernel **out, grs_error *err);
void kernel_free(struct grs_kernel *kernel);

/* "m 1..512 n 4096 k 2048 tp 4", for people. */
void kernel_shape_text(const struct plan *plan, struct buf *out);

#endif
