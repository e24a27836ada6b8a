/* Puts grsrun_kernels.cu and the header that it includes into the program, NUL-terminated. */
#include "tools/grsrun_kernels.h"

#define EMBED(symbol, path)                                                                                            \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".globl " #symbol "\n"                                                                                     \
            ".hidden " #symbol "\n" #symbol ":\n"                                                                      \
            ".incbin \"" path "\"\n"                                                                                   \
            ".byte 0\n"                                                                                                \
            ".popsection\n")

EMBED(kernels_source, "tools/grsrun_kernels.cu");
EMBED(kernels_values, "tools/grsrun_values.h");
extern const char kernels_values[];

const struct emit_header kernels_headers[] = {{"grsrun_values.h", kernels_values}, {NULL, NULL}};
