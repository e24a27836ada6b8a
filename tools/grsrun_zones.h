/* Guard zones around everything that this process allocates on GPUs: also around what the runtime allocates for itself, which
 * no caller of it could surround. */
#ifndef GRS_TOOLS_GRSRUN_ZONES_H
#define GRS_TOOLS_GRSRUN_ZONES_H

#include <stddef.h>

#include "runtime/driver.h"

#define ZONE_BYTES                                                                                                     \
    0x40000 /* on either side: more than a tile is large. A multiple of 512, the driver's own alignment */
#define ZONE_BYTE 0x5a

struct zone_block { /* one allocation between its zones */
    CUdeviceptr pointer;
    size_t bytes;
    CUcontext context;
};

/* From here on cuMemAlloc of the driver's table reserves zones too, and fills them. Once a process, from one thread, before
 * anything is allocated. */
void zones_install(void);

/* All that is allocated now; valid until the next allocation. */
size_t zones_blocks(const struct zone_block **out);

#endif
