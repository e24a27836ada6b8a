/* What the planner assumes of a GPU: figures to plan for, never read from the live device, so that the same config gives the
 * same kernel everywhere. */
#ifndef GRS_GENERATOR_MACHINE_H
#define GRS_GENERATOR_MACHINE_H

#include "generator/config.h"

struct machine { /* of a family of archs */
    int sms;
    int64_t shared_limit;   /* bytes of dynamic shared memory a CTA can have                      */
    int registers;          /* of an SM                                                           */
    int registers_a_thread; /* most that one thread can name                                      */
    double tflops;          /* BF16 rate that a large matrix product reaches, TFLOP/s             */
    int link_gbps;          /* one direction, a GPU: bulk stores from all SMs                      */
    const char *measured;   /* where the two rates come from                                      */
};

const struct machine *machine_of(enum arch arch);

/* TFLOP/s of so many of its SMs (0: all). */
double machine_tflops(const struct machine *machine, int64_t sms);

/* Whether a GPU of this compute capability runs kernels of the arch, and the arch to make them for: the GPU's own. */
bool machine_runs(enum arch arch, int major, int minor);
bool machine_arch_of(int major, int minor, enum arch *out);

#endif
