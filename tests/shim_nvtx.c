/* Stands in for a profiler's NVTX library, the one that NVTX_INJECTION64_PATH names: takes the ranges of domains, or with
 * SHIM_NVTX=core those without one, and keeps what it saw. SHIM_NVTX=refuses: it does not want to. SHIM_NVTX=nothing: it
 * takes no functions. Written after NVTX's manual for tools, from the tool's side, and shares no line with the library. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shim_nvtx.h"

#define EXPORT __attribute__((visibility("default")))

static struct shim_nvtx seen;
EXPORT struct shim_nvtx *shim_nvtx_get(void);
EXPORT int InitializeInjectionNvtx2(const void *(*tables)(uint32_t));

struct shim_nvtx *shim_nvtx_get(void) {
    return &seen;
}

static void add(const char *kind, const char *text) {
    size_t length = strlen(seen.text);
    snprintf(seen.text + length, sizeof seen.text - length, "%*s%s%s\n", 2 * seen.depth, "", kind, text);
}

static void begin(const char *text) {
    add("", text);
    seen.depth++;
    seen.ranges++;
}

static int end(void) {
    return --seen.depth;
}

/* nvtxEventAttributes_v2 by offsets: version 0, size 2, type of the message 40 - 8, message 40. */
static int domain_begin(void *domain, const unsigned char *attributes) {
    uint16_t version, size;
    int32_t type;
    const char *text;
    memcpy(&version, attributes, 2);
    memcpy(&size, attributes + 2, 2);
    memcpy(&type, attributes + 32, 4);
    memcpy(&text, attributes + 40, sizeof text);
    if (domain != &seen || version != 3 || size != 48 || type != 1)
        add("bad attributes", "");
    else
        begin(text);
    return seen.depth - 1;
}

static int domain_end(void *domain) {
    if (domain != &seen)
        add("bad domain", "");
    return end();
}

static void *create_domain(const char *name) {
    add("domain ", name);
    return &seen;
}

static int begin_without_domain(const char *text) {
    begin(text);
    return seen.depth - 1;
}

typedef void (*function)(void);

int InitializeInjectionNvtx2(const void *(*tables)(uint32_t)) {
    static const unsigned sizes[] = {0, 16, 9, 15, 7, 16, 7}; /* of NVTX 3.0: ids that a tool may fill */
    const char *mode = getenv("SHIM_NVTX") ? getenv("SHIM_NVTX") : "";
    const struct {
        size_t size;
        int (*get)(int module, function ***table, unsigned *size);
    } *callbacks = tables(1);
    const struct {
        size_t size;
        uint32_t version, reserved;
        void (*set)(uint32_t);
    } *info = tables(3);
    if (!strcmp(mode, "refuses") || !callbacks || callbacks->size != sizeof *callbacks || !info || info->version != 3 ||
        tables(99))
        return 0;
    info->set(3);
    function **table = NULL;
    for (int module = 1; module <= 6; module++) { /* a tool may go through all of them */
        unsigned size = 0;
        if (!callbacks->get(module, &table, &size) || size != sizes[module] || table[0] || table[size])
            return 0;
        for (unsigned i = 1; i < size; i++)
            if (!table[i])
                return 0;
    }
    if (callbacks->get(7, &table, NULL) || !strcmp(mode, "nothing"))
        return 1;
    callbacks->get(1, &table, NULL);
    *table[9] = (function)begin_without_domain;
    *table[11] = (function)end;
    if (strcmp(mode, "core")) {
        callbacks->get(5, &table, NULL);
        *table[4] = (function)domain_begin;
        *table[5] = (function)domain_end;
        *table[12] = (function)create_domain;
    }
    return 1;
}
