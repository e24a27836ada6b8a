/* Emulated ranks: runs the text that the generator emits on threads, CTAs and ranks that exist in this process alone, and
 * says what is wrong with it. docs/emulator.md describes what is modelled.
 *
 *   emu_kernel_build    the text, compiled by the host's C++ compiler into a shared object, which is kept
 *   emu_group_open      R ranks with control words that persist from launch to launch
 *   emu_group_memory    operands of one rank
 *   emu_group_launch    one more launch on every rank (stream-ordered on each)
 *   emu_group_run       runs all launches; the first thing found wrong ends the run
 *
 * One group runs at a time in a process, on the calling thread. */
#ifndef GRS_EMULATOR_EMU_H
#define GRS_EMULATOR_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "generator/plan.h"
#include "grs.h"

enum emu_verdict {
    EMU_PASSED = 0,
    EMU_DEADLOCK,     /* nobody can run: the text lists who waits for what                                           */
    EMU_WRONG_RESULT, /* an element of D is not what it should be                                                    */
    EMU_UNWRITTEN,    /* an element of D was never written                                                           */
    EMU_STRAY_WRITE,  /* memory around a matrix changed                                                              */
    EMU_OVERWRITTEN,  /* memory was written while somebody might still read it                                       */
    EMU_TOO_EARLY,    /* memory was read before what was to be read is known to have arrived                         */
    EMU_UNFENCED,     /* a fence is missing: between the generic and the async proxy, or before the first products   */
    EMU_BIT_TWICE,    /* a bit was set that was set already                                                          */
    EMU_BIT_NEVER,    /* a launch ended without having set every bit, or without having cleared them                 */
    EMU_BIT_LOST,     /* a bit was cleared before it was seen, or by a launch older than the one that set it         */
    EMU_CLEAR_EARLY,  /* the mask was cleared while CTAs of the launch had yet to leave                              */
    EMU_CREDIT_EARLY, /* a credit was given before the launch was left: bits still set, CTAs still there             */
    EMU_PHASE_SKIPPED, /* a barrier completed a second phase before a thread that waited for the first looked again      */
    EMU_BARRIER_COUNT, /* more arrivals than a barrier expects, or bytes beyond its range                             */
    EMU_GROUP_MISUSE,  /* bulk groups: not committed, or the CTA ended while its shared memory was still being read   */
    EMU_OUT_OF_BOUNDS, /* an address outside what the CTA or the rank owns, or a bit beyond the mask                  */
    EMU_BAD_OPERAND,   /* alignment, size or form that the instruction does not allow                                 */
    EMU_DIVERGED,      /* threads of a warp or warpgroup that must execute one instruction execute different ones     */
    EMU_REGISTERS,     /* setmaxnreg outside the rules, or more registers than there are                              */
    EMU_TENSOR_MEMORY, /* tensor memory not freed, freed by another warp, or allocated after the right to was given up */
    EMU_EXHAUSTED      /* the emulator's own limits: steps, memory, agents                                            */
};
#define EMU_VERDICTS (EMU_EXHAUSTED + 1)
const char *emu_verdict_name(enum emu_verdict verdict); /* "passed", "deadlock", "wrong result" … */

enum emu_schedule {
    EMU_SCHEDULE_RANDOM = 0, /* any thread that can run; transfers after a random delay                          */
    EMU_SCHEDULE_EAGER,      /* first come, first served; transfers finish at once                               */
    EMU_SCHEDULE_LAZY,       /* transfers finish only when nobody can run                                        */
    EMU_SCHEDULE_ADVERSARIAL /* random priorities of ranks, CTAs and warps; whole kinds of transfers held back   */
};

struct emu_report {
    enum emu_verdict verdict;
    int rank, cta, role, owner; /* of the thread that noticed; -1: not known. role: enum grs_role         */
    int64_t tile, position, launch;
    uint64_t steps, transfers, switches; /* what the run took                                              */
    struct {
        uint64_t partials, bytes; /* signals that upstream set; bytes that landed in the slots      */
    } received[GRS_MAX_RING];     /* by rank, over all launches                                     */
    char text[16384];             /* in words; "" when passed                                       */
};

/* ---------------------------------------------------------------- kernels */

struct emu_kernel;

struct emu_header { /* a template to use instead of the embedded one; ends with a NULL name */
    const char *name, *text;
};

/* Compiles a generated file. `names` are its entries, separated by spaces; the first is the kernel's. `directory` (made when missing) keeps shared objects under a digest of
 * all they depend on; NULL: a private temporary directory, removed by emu_kernel_free. GRS_ERR_COMPILER: no compiler was
 * found ($CXX, c++, g++, clang++), or it failed; its output is in the text. */
grs_status emu_kernel_build(const char *text, const char *names, const struct emu_header *changed,
                            const char *directory, struct emu_kernel **out, grs_error *err);
void emu_kernel_free(struct emu_kernel *kernel);
/* One of the entries; NULL when it is none. */
typedef void (*emu_entry)(const grs_args *args);
emu_entry emu_kernel_entry(const struct emu_kernel *kernel, const char *name);

/* ---------------------------------------------------------------- groups of ranks */

struct emu_group_options {
    int ranks;
    int ctas;           /* a rank */
    int ranks_per_grid; /* ranks that are launched as one grid, as those that share a GPU are */
    enum emu_schedule schedule;
    uint64_t seed;
    uint64_t deadline_ns; /* of waits inside the kernel, in emulated time; 0: 1000 s, which only a deadlock reaches */
    uint64_t stall;       /* grs_args.stall */
    uint64_t pace_ps_per_kib;  /* grs_args.pace_ps_per_kib, for kernels with the model of the link */
    uint32_t pace_signal_ns;   /* grs_args.pace_signal_ns */
    uint32_t send_ps_per_byte; /* grs_args.send_ps_per_byte: the tempo; 0: as fast as copies go */
    uint64_t
        *counters; /* out: [rank][cta][role][wait] of kernels with wait counters, over all launches; NULL: not wanted */
    grs_stamp *stamps;  /* out: GRS_STAMPS a rank, of the same kernels; NULL: not wanted */
    uint64_t max_steps; /* 0: 2^36 */
};

struct emu_group;
struct emu_operands { /* of one rank; strides in elements */
    const uint16_t *a, *b;
    uint16_t *d; /* NULL where no row is kept */
    int64_t lda, ldb, ldd;
};

grs_status emu_group_open(const struct emu_group_options *options, struct emu_group **out, grs_error *err);
void emu_group_close(struct emu_group *group);
/* `words` 16-bit words of one rank's memory, 256-byte aligned; lives as long as the group. Kernels may write it only where
 * `is_output`. NULL without memory. */
uint16_t *emu_group_memory(struct emu_group *group, int rank, size_t words, bool is_output);
/* Queues one launch of all ranks. The plan must outlive the run. */
grs_status emu_group_launch(struct emu_group *group, const struct emu_kernel *kernel, const struct plan *plan,
                            int64_t M, const struct emu_operands *operands, grs_error *err);
/* Once a group. */
void emu_group_run(struct emu_group *group, struct emu_report *report);

#ifdef __cplusplus
}
#endif
#endif
