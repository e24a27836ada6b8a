/* A run on emulated ranks and everything that can be said about its results: several launches in a row on one communicator,
 * operands made from seeds, and D compared bit for bit with the ring computed on the host in the same order. */
#ifndef GRS_TOOLS_GRSRUN_TRIAL_H
#define GRS_TOOLS_GRSRUN_TRIAL_H

#include "emulator/emu.h"
#include "tools/grsrun_values.h"

/* A plan and its text, compiled for the host. Zero-initialise; free with trial_kernel_free. */
struct trial_kernel {
    struct plan plan;
    struct emu_kernel *kernel;
};

/* The kernel of a class of shapes, planned as the library plans it. `changed` and `directory` as for emu_kernel_build. */
grs_status trial_kernel_make(const struct config *config, enum arch arch, int64_t m, int64_t n, int64_t k, int tp,
                             const struct emu_header *changed, const char *directory, struct trial_kernel *out,
                             grs_error *err);
/* The same from a plan that the caller has solved (and perhaps changed). */
grs_status trial_kernel_build(const struct plan *plan, const struct emu_header *changed, const char *directory,
                              struct trial_kernel *out, grs_error *err);
void trial_kernel_free(struct trial_kernel *kernel);

struct trial_launch {
    const struct trial_kernel *kernel;
    int64_t m;
    uint64_t seed; /* of the operands */
    enum values_mode mode;
    int64_t pad_a, pad_b, pad_d; /* elements between rows beyond K, K and N; multiples of 8 */
};

struct trial_result {
    struct emu_report report;       /* of the emulator; the results' own verdicts are put here too */
    struct values_verdict *verdict; /* of each launch, where the emulator found nothing wrong; the caller frees */
    uint64_t
        digest; /* of all elements of every D: equal for equal launches, whatever kernel, grid and schedule made them */
};

/* Runs `count` launches. GRS_OK whatever the verdict is; an error means that nothing could be run. */
grs_status trial_run(const struct emu_group_options *options, const struct trial_launch *launches, int count,
                     struct trial_result *out, grs_error *err);

#endif
