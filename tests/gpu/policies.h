/* Contexts for the policies of tests/policies.h, and ranks that stand still. */
#ifndef GRS_TESTS_GPU_POLICIES_H
#define GRS_TESTS_GPU_POLICIES_H

#include <unistd.h>

#include "tests/gpu/tap.h"
#include "tests/policies.h"

/* A context of this policy. The caller closes it. */
static inline grs_ctx *policy_open(const struct policy *policy) {
    char path[] = "/tmp/grs-policy-XXXXXX";
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    grs_ctx *ctx = NULL;
    int file = mkstemp(path);
    must(file >= 0 && dprintf(file, "version: 1\n%s", policy_text(policy, gpu_is_blackwell())) > 0, "a file in /tmp");
    close(file);
    options.config_path = path;
    grs_status status = grs_ctx_open(&options, &ctx, &err);
    unlink(path);
    must(status == GRS_OK, policy->name);
    return ctx;
}

/* The same, whose kernels carry the hook that makes a rank stand still. */
static inline grs_ctx *policy_open_stalling(const struct policy *policy) {
    setenv("GRS_STALL", "0:0", 1);
    grs_ctx *ctx = policy_open(policy);
    unsetenv("GRS_STALL");
    return ctx;
}

/* The options of a communicator whose rank `rank` stands still before its tile of this position are read from the
 * environment while it is made. */
static inline void make_stalling(grs_ctx *ctx, int tp, int rank, int position, const grs_comm_options *options,
                                 grs_comm **comms) {
    static const int first_gpu[GRS_MAX_TP];
    char text[32];
    snprintf(text, sizeof(text), "%d:%d", rank, position);
    setenv("GRS_STALL", text, 1);
    MUST(grs_comm_create_local(ctx, tp, first_gpu, options, comms, &err));
    unsetenv("GRS_STALL");
}

#endif
