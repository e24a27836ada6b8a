/* Wait records, as text. */
#ifndef GRS_RUNTIME_FAULT_H
#define GRS_RUNTIME_FAULT_H

#include "common/buf.h"
#include "generator/plan.h"

/* The launch that a record most likely belongs to; NULL plan: not known. */
struct fault_launch {
    const struct plan *plan;
    int64_t M;
    int wave;
};

/* "prefetcher", and what it waits for: "a partial". */
const char *fault_role_name(enum grs_role role);
const char *fault_wait_name(enum grs_wait wait);

/* True once the kernel has finished writing the record (host memory that a GPU writes). */
bool fault_complete(const grs_wait_record *record);

/* "rank 2: sender waited 30.0 s for a credit from rank 1 (downstream): CTA 17, owner 1, tile 5, epoch 12, word seen 11,
 * wanted 12 (deadline: GRS_DEADLINE, default 30 s)". Math warps do not know their tile: it is worked out of the position
 * by `launch`, or the position is given. */
void fault_text(const grs_wait_record *record, int ring, const struct fault_launch *launch, struct buf *out);

#endif
