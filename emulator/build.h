// The kernel text, compiled by the host's C++ compiler and loaded.
#ifndef GRS_EMULATOR_BUILD_H
#define GRS_EMULATOR_BUILD_H

#include "emulator/emu.h"

struct emu_kernel {
    void *library;
    emu_entry entry;
};

// Texts that replace those of the templates, embedded in the program; ends with a NULL name. embedded.c.
extern "C" const struct emu_header emu_replacements[];

#endif
