#include "tools/grsrun_library.h"

#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "runtime/nvrtc.h"

static void *open_beside_nvrtc(const char *name, const char *package) {
    struct nvrtc_location where;
    if (nvrtc_locate(NULL, &where, NULL)) {
        return NULL;
    }
    struct buf beside = {0}, sibling = {0};
    const char *directory = dirname(where.path);
    buf_printf(&beside, "%s/%s", directory, name);
    buf_printf(&sibling, "%s/../../%s/lib/%s", directory, package, name);
    void *library = beside.data ? dlopen(beside.data, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library && sibling.data) {
        library = dlopen(sibling.data, RTLD_NOW | RTLD_LOCAL);
    }
    buf_free(&beside);
    buf_free(&sibling);
    return library;
}

grs_status library_open(const char *variable, const char *const *names, const char *package,
                        const struct library_symbol *symbols, size_t count, grs_error *err) {
    const char *path = getenv(variable);
    void *library = NULL;
    if (path && *path) {
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            return error_set(err, GRS_ERR_UNSUPPORTED, "$%s: %s", variable, dlerror());
        }
    }
    for (int i = 0; names[i] && !library; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        library = library ? library : open_beside_nvrtc(names[i], package);
    }
    if (!library) {
        return error_set(err, GRS_ERR_UNSUPPORTED, "%s not found; $%s may name the file", names[0], variable);
    }
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol && !symbols[i].optional) {
            dlclose(library);
            return error_set(err, GRS_ERR_UNSUPPORTED, "%s lacks %s: too old", path && *path ? path : names[0],
                             symbols[i].name);
        }
        memcpy(symbols[i].out, &symbol, sizeof(symbol));
    }
    return GRS_OK;
}
