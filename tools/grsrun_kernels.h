/* The helper kernels as text, for NVRTC. */
#ifndef GRS_TOOLS_GRSRUN_KERNELS_H
#define GRS_TOOLS_GRSRUN_KERNELS_H

#include "generator/emit.h"

extern const char kernels_source[];                /* grsrun_kernels.cu                     */
extern const struct emit_header kernels_headers[]; /* what it includes; ends with a NULL name */

#endif
