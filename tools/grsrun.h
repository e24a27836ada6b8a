/* grsrun: launches a kernel across ranks (of one process, or a process each), verifies and times it. This header is what its parts share;
 * grsrun.c ties them together.
 *
 * Every part returns the exit code of the program: 0 done, 1 the work failed (a mismatch, no GPU, no compiler), 2 the
 * command line or the config is wrong. */
#ifndef GRS_TOOLS_GRSRUN_H
#define GRS_TOOLS_GRSRUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "generator/config.h"
#include "grs.h"

enum { GRSRUN_OK = 0, GRSRUN_FAILED = 1, GRSRUN_USAGE = 2 };

enum grsrun_backend { BACKEND_AUTO = 0, BACKEND_GPU, BACKEND_EMU };
enum grsrun_l2 { L2_WARM = 0, L2_COLD };
/* How the emulator picks who runs next and when a transfer lands (emulated ranks only). */
enum grsrun_emu_schedule { EMU_RANDOM = 0, EMU_EAGER, EMU_LAZY, EMU_ADVERSARIAL };

struct grsrun_shape {
    int64_t m, n, k; /* K per rank */
    int tp;
};

/* A leading dimension: the row plus `value` elements, or `value` itself. */
struct grsrun_stride {
    bool is_absolute;
    int64_t value; /* multiple of 8 */
};

struct grsrun_options {
    enum grsrun_backend backend;
    struct grsrun_shape *shapes; /* lists of M and of tp multiplied out; owned by the options                    */
    size_t shape_count;      /* at least 1 after grsrun_options_parse, also where the shapes came from the config    */
    const char *config_path; /* NULL: the planner chooses everything                                         */
    struct config *config;   /* parsed config_path, or defaults; owned by the options                        */
    bool has_arch;
    enum arch arch; /* valid with has_arch; else the device's (emulated: sm_90a)                    */

    bool procs;            /* a process a rank, started here or by a launcher                              */
    int nodes;             /* with procs: nodes of equal size, NCCL between them; 0: no NCCL, one host     */
    bool verify, bench;    /* neither was asked for: verify                                                */
    bool ablate;           /* every older policy beside ours, instead of both                              */
    bool waits;            /* with bench: count what each role waits for                                   */
    bool skew;             /* with bench: how far apart the ranks begin and end a launch                   */
    bool precompile;       /* only compile what the command would launch, into the cache                   */
    double pace_gbps;      /* the link of a whole GPU under the link model; 0: no model                    */
    bool json;             /* standard output holds one JSON object and nothing else                       */
    const char *save_path; /* the same object to this file, if all went well                              */
    const char *svg_path;  /* chart of what bench or ablate measured                                       */
    uint64_t seed;         /* of the operands, and of the emulator's scheduler                             */
    int rounds;            /* times that the list of shapes is verified, with new operands each time           */
    int repeat;            /* launches on the same operands that must agree bit for bit, at least 1        */
    int iters;             /* launches between two events                                                  */
    int ranks_per_gpu;     /* 0: as few as the visible GPUs allow                                          */
    int sms;               /* SMs a rank may use; 0: its share of the device                               */
    struct grsrun_stride lda, ldb, ldd;
    bool guard;        /* guard zones around A, B and D, checked after every launch                    */
    bool graph;        /* launch by replaying a captured graph                                         */
    enum grsrun_l2 l2; /* of the timed launches                                                        */

    /* emulated ranks */
    int ctas; /* CTAs a rank                                                                  */
    enum grsrun_emu_schedule schedule;
    int runs; /* runs of each shape; run i takes seed + i                                     */
};

/* 2 for what the user asked for and cannot have (arguments, config, plan, not built yet), 1 for work that failed. */
int grsrun_exit_code(grs_status status);

/* The leading dimension of rows of `row` elements under `stride`. */
int64_t grsrun_leading(const struct grsrun_stride *stride, int64_t row);

/* Runs every shape on emulated ranks (grsrun_emu.c) and prints the result. */
int grsrun_emu_main(const struct grsrun_options *options);
/* The same on GPUs (grsrun_gpu.c). */
int grsrun_gpu_main(const struct grsrun_options *options);
/* A process a rank (grsrun_procs.c): starts them, or is one of those that torchrun, mpirun or srun have started. The driver
 * must not have been used before. */
int grsrun_procs_main(const struct grsrun_options *options);
/* Compiles the kernels of --verify, --bench or --ablate into the cache; needs no GPU (grsrun_precompile.c). */
int grsrun_precompile_main(const struct grsrun_options *options);

#endif
