#include "runtime/operands.h"

#include <inttypes.h>

#include "common/error.h"

static grs_status check_matrix(int rank, const char *name, const void *base, int64_t stride, const char *stride_name,
                               int64_t columns, const char *columns_name, grs_error *err) {
    if (base == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "rank %d: %s is NULL", rank, name);
    }
    if (((uintptr_t)base & 15) != 0) {
        return error_set(err, GRS_ERR_ARGUMENT, "rank %d: %s is %p; allowed: addresses that are multiples of 16", rank,
                         name, base);
    }
    if (stride < columns || stride % 8 != 0 || stride >= INT64_C(1) << 39) {
        return error_set(err, GRS_ERR_ARGUMENT,
                         "rank %d: %s is %" PRId64 "; allowed: multiples of 8 from %s = %" PRId64 " elements", rank,
                         stride_name, stride, columns_name, columns);
    }
    return GRS_OK;
}

grs_status operands_validate(int rank, const struct plan *plan, int64_t prepared_m, const grs_operands *operands,
                             grs_error *err) {
    const struct plan_shape *shape = &plan->shape;
    int64_t M = operands->M, first, kept;
    grs_status status;
    if (M < shape->m_min || M > shape->m_max) {
        return error_set(err, GRS_ERR_ARGUMENT,
                         "rank %d: M is %" PRId64 "; %s serves %" PRId64 " to %" PRId64
                         " (grs_jit_get with this M gives "
                         "the kernel of its class)",
                         rank, M, plan->name, shape->m_min, shape->m_max);
    }
    if (M > prepared_m) {
        return error_set(err, GRS_ERR_STATE,
                         "rank %d: M is %" PRId64 ", and grs_comm_prepare was called for %s with M up to %" PRId64,
                         rank, M, plan->name, prepared_m);
    }
    if ((status = check_matrix(rank, "A", operands->A, operands->lda, "lda", shape->k, "K", err)) != GRS_OK ||
        (status = check_matrix(rank, "B", operands->B, operands->ldb, "ldb", shape->k, "K", err)) != GRS_OK) {
        return status;
    }
    grs_rows(M, shape->tp, rank, &first, &kept);
    if (kept > 0 && operands->D == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT,
                         "rank %d: D is NULL; allowed only where no row is kept, and this rank keeps rows %" PRId64
                         " to %" PRId64 " of M %" PRId64,
                         rank, first, first + kept - 1, M);
    }
    return kept > 0 ? check_matrix(rank, "D", operands->D, operands->ldd, "ldd", shape->n, "N", err) : GRS_OK;
}
