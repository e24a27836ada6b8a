/* grsrun on the GPUs of this machine. */
#ifndef GRS_TOOLS_GRSRUN_GPU_H
#define GRS_TOOLS_GRSRUN_GPU_H

#include "tools/grsrun.h"

/* Visible GPUs, or 0 with the reason in `err`. */
int gpu_count(grs_error *err);

/* "580.95.05": version of the kernel driver, from the two places where it says so; false: in neither. `paths` ends with
 * NULL; gpu_driver_paths are the real ones. */
bool gpu_driver_version(const char *const *paths, char out[32]);
extern const char *const gpu_driver_paths[];

#endif
