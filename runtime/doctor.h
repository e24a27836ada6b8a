/* What the library finds on this machine, and what to do about what it does not find. */
#ifndef GRS_RUNTIME_DOCTOR_H
#define GRS_RUNTIME_DOCTOR_H

#include <stdbool.h>

#include "grs.h"

enum doctor_state {
    DOCTOR_FINE = 0,
    DOCTOR_NOTE,   /* missing or limited, and the current config can do without */
    DOCTOR_MISSING /* needed                                                    */
};

struct doctor_row {
    char *what; /* "driver", "GPU 0", …; stable, for scripts   */
    enum doctor_state state;
    char *found;  /* what there is, or what is wrong             */
    char *remedy; /* what to do about it; NULL where all is fine */
};

struct doctor {
    struct doctor_row *rows;
    int count;
    bool failed; /* out of memory: rows are missing */
};

/* Looks at everything: driver, GPUs, peer access and native atomics, NVRTC (opened, and a small kernel compiled for the
 * context's arch), its builtins, NCCL, config and cache. Free with doctor_free. */
void doctor_examine(struct doctor *out);
/* True when nothing that is needed is missing. */
bool doctor_passes(const struct doctor *doctor);
const char *doctor_state_name(enum doctor_state state); /* "ok", "note", "missing" */
void doctor_free(struct doctor *doctor);

#endif
