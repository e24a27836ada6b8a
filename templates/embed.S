/* The templates as read-only data of the library, each NUL-terminated. templates.list is made by the Makefile and holds a
 * TEMPLATE(symbol, path, name) line for each header of this folder; generator/embedded.c makes the table of it. */
#define TEMPLATE(symbol, path, name)                                                                                   \
    .global template_##symbol ; .hidden template_##symbol ; template_##symbol: .incbin path ; .byte 0 ;

    .section .rodata.templates, "a", %progbits
#include "templates.list"
    .section .note.GNU-stack, "", %progbits
