/* One rank of grsrun --procs, in its own process. */
#ifndef GRS_TOOLS_GRSRUN_RANK_H
#define GRS_TOOLS_GRSRUN_RANK_H

#include "tools/grsrun.h"

/* Verifies this rank's rows of every shape. `prefix`: begins every line of the output with the rank. */
int rank_main(const struct grsrun_options *options, bool prefix);

#endif
