/* SASS of a cubin, through NVIDIA's disassembler. */
#ifndef GRS_TOOLS_GRSGEN_SASS_H
#define GRS_TOOLS_GRSGEN_SASS_H

#include "common/buf.h"
#include "grs.h"

/* Runs nvdisasm, else cuobjdump, from PATH or a CUDA toolkit. GRS_ERR_UNSUPPORTED with the line that installs one when
 * there is none. */
grs_status sass_disassemble(const void *cubin, size_t size, struct buf *out, grs_error *err);

#endif
