/* The headers that stand in for ptx.cuh and mma_*.cuh, as read-only data, each NUL-terminated. The Makefile lists them as
 * prerequisites of this object, since no compiler sees that it depends on them. */
#include <stddef.h>

#include "emulator/emu.h"

#define EMBED(symbol, path)                                                                                            \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".globl " #symbol "\n.hidden " #symbol "\n" #symbol ": .incbin \"" path "\"\n.byte 0\n"                    \
            ".popsection\n");                                                                                          \
    extern __attribute__((visibility("hidden"))) const char symbol[]

EMBED(emu_text_device, "emulator/device.h");
EMBED(emu_text_ptx, "emulator/emu_ptx.cuh");
EMBED(emu_text_mma_sm90, "emulator/emu_mma_sm90.cuh");
EMBED(emu_text_mma_sm100, "emulator/emu_mma_sm100.cuh");

const struct emu_header emu_replacements[] = {
    {"grs/device.h", emu_text_device},
    {"grs/ptx.cuh", emu_text_ptx},
    {"grs/mma_sm90.cuh", emu_text_mma_sm90},
    {"grs/mma_sm100.cuh", emu_text_mma_sm100},
    {NULL, NULL},
};
