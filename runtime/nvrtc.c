/* Opening NVRTC and compiling with it. */
#include "runtime/nvrtc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"

typedef struct nvrtc_program *program; /* nvrtcProgram */

enum { RESULT_SUCCESS = 0, RESULT_OUT_OF_MEMORY = 1, RESULT_COMPILATION = 6 }; /* nvrtcResult */

/* X(member, parameters): every one returns an nvrtcResult. */
#define NVRTC_FUNCTIONS(X)                                                                                             \
    X(Version, (int *major, int *minor))                                                                               \
    X(CreateProgram, (program * out, const char *source, const char *name, int count, const char *const *headers,      \
                      const char *const *names))                                                                       \
    X(DestroyProgram, (program * program))                                                                             \
    X(CompileProgram, (program program, int count, const char *const *options))                                        \
    X(GetProgramLogSize, (program program, size_t * size))                                                             \
    X(GetProgramLog, (program program, char *log))                                                                     \
    X(GetCUBINSize, (program program, size_t * size))                                                                  \
    X(GetCUBIN, (program program, char *cubin))                                                                        \
    X(GetPTXSize, (program program, size_t * size))                                                                    \
    X(GetPTX, (program program, char *ptx))

struct nvrtc {
#define NVRTC_MEMBER(name, parameters) int(*name) parameters;
    NVRTC_FUNCTIONS(NVRTC_MEMBER)
#undef NVRTC_MEMBER
    const char *(*GetErrorString)(int result);
    int version;
    char *path;
    struct nvrtc *next;
};

static const struct {
    const char *symbol;
    size_t offset;
} symbols[] = {
#define NVRTC_SYMBOL(name, parameters) {"nvrtc" #name, offsetof(struct nvrtc, name)},
    NVRTC_FUNCTIONS(NVRTC_SYMBOL)
#undef NVRTC_SYMBOL
        {"nvrtcGetErrorString", offsetof(struct nvrtc, GetErrorString)},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvrtc *opened; /* newest first, never freed: NVRTC does not take well to being unloaded */

int nvrtc_version(const struct nvrtc *nvrtc) {
    return nvrtc->version;
}

int nvrtc_arch_version(enum arch arch) {
    static const int versions[ARCH_COUNT] = {
        [ARCH_SM90A] = 12000, [ARCH_SM100A] = 12080, [ARCH_SM100F] = 12090, [ARCH_SM103A] = 12090};
    return versions[arch];
}

static grs_status open_library(const struct nvrtc_location *where, struct nvrtc **out, grs_error *err) {
    grs_status status = GRS_OK;
    int major = 0, minor = 0;
    void *library = NULL;
    struct nvrtc *nvrtc = calloc(1, sizeof(*nvrtc));
    if (nvrtc == NULL || (nvrtc->path = strdup(where->path)) == NULL) {
        status = error_set(err, GRS_ERR_MEMORY, "out of memory opening %s", where->path);
        goto done;
    }
    /* NVRTC opens its builtins by name, which fails where its directory is not searched: with the file open already, the
     * loader finds it under that name. A failure here is told by the compile, if it matters. */
    if (where->builtins[0] != '\0') {
        dlopen(where->builtins, RTLD_NOW | RTLD_LOCAL);
    }
    library = dlopen(where->path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        status = error_set(err, GRS_ERR_COMPILER, "NVRTC cannot be opened: %s", dlerror());
        goto done;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(library, symbols[i].symbol);
        if (address == NULL) {
            status = error_set(err, GRS_ERR_COMPILER, "%s has no %s: NVRTC %d.%d or newer is needed", where->path,
                               symbols[i].symbol, NVRTC_MIN_VERSION / 1000, NVRTC_MIN_VERSION % 1000 / 10);
            goto done;
        }
        *(void **)((char *)nvrtc + symbols[i].offset) = address;
    }
    if (nvrtc->Version(&major, &minor) != RESULT_SUCCESS || 1000 * major + 10 * minor < NVRTC_MIN_VERSION) {
        status =
            error_set(err, GRS_ERR_COMPILER, "%s is NVRTC %d.%d; %d.%d or newer is needed (name another in GRS_NVRTC)",
                      where->path, major, minor, NVRTC_MIN_VERSION / 1000, NVRTC_MIN_VERSION % 1000 / 10);
        goto done;
    }
    nvrtc->version = 1000 * major + 10 * minor;
    *out = nvrtc;
done:
    if (status != GRS_OK) {
        if (library != NULL) {
            dlclose(library);
        }
        if (nvrtc != NULL) {
            free(nvrtc->path);
        }
        free(nvrtc);
    }
    return status;
}

grs_status nvrtc_open(const struct nvrtc_location *where, const struct nvrtc **out, grs_error *err) {
    grs_status status = GRS_OK;
    struct nvrtc *nvrtc;
    *out = NULL;
    pthread_mutex_lock(&lock);
    for (nvrtc = opened; nvrtc != NULL && strcmp(nvrtc->path, where->path) != 0;) {
        nvrtc = nvrtc->next;
    }
    if (nvrtc == NULL) {
        status = open_library(where, &nvrtc, err);
        if (status == GRS_OK) {
            nvrtc->next = opened;
            opened = nvrtc;
        }
    }
    pthread_mutex_unlock(&lock);
    if (status == GRS_OK) {
        *out = nvrtc;
    }
    return status;
}

void nvrtc_options(enum arch arch, struct buf *out) {
    buf_printf(out,
               "-arch=%s\n"
               "-std=c++17\n"
               "--no-source-include\n" /* nothing is ever read from the working directory */
               "--ptxas-options=-v\n", /* registers and spills into the log                */
               config_arch_name(arch));
    const char *lines = getenv("GRS_LINE_INFO"); /* the instructions stay the same */
    if (lines != NULL && lines[0] != '\0') {
        buf_printf(out, "--generate-line-info\n");
    }
}

/* ---------------------------------------------------------------- compiling ------------------------------------ */

/* One of NVRTC's outputs with a NUL beyond it; NULL: `*result` says why (RESULT_OUT_OF_MEMORY for our own memory). */
static char *fetch(program program, int (*get_size)(struct nvrtc_program *, size_t *),
                   int (*get)(struct nvrtc_program *, char *), size_t *size, int *result) {
    char *data = NULL;
    *size = 0;
    *result = get_size(program, size);
    if (*result != RESULT_SUCCESS) {
        return NULL;
    }
    data = calloc(1, *size + 1);
    if (data == NULL) {
        *result = RESULT_OUT_OF_MEMORY;
        return NULL;
    }
    *result = get(program, data);
    if (*result != RESULT_SUCCESS) {
        free(data);
        return NULL;
    }
    return data;
}

/* A log that is too long for the error slot goes to a file of its own. False: it could not be written. */
static bool save_log(const char *log, size_t size, char *path, size_t path_size) {
    const char *directory = getenv("TMPDIR");
    if (directory == NULL || directory[0] == '\0') {
        directory = "/tmp";
    }
    if ((size_t)snprintf(path, path_size, "%s/grs-nvrtc-XXXXXX.log", directory) >= path_size) {
        return false;
    }
    int fd = mkstemps(path, 4);
    if (fd < 0) {
        return false;
    }
    bool written = write(fd, log, size) == (ssize_t)size;
    if (close(fd) != 0 || !written) {
        unlink(path);
        return false;
    }
    return true;
}

static grs_status compile_error(const struct nvrtc *nvrtc, int result, const char *entry, const char *log, size_t size,
                                grs_error *err) {
    char path[PATH_MAX];
    grs_status status = result == RESULT_OUT_OF_MEMORY ? GRS_ERR_MEMORY : GRS_ERR_COMPILER;
    const char *what = nvrtc->GetErrorString(result);
    if (size < sizeof(err->text) - 1024 || !save_log(log, size, path, sizeof(path))) {
        return error_set(err, status, "NVRTC %d.%d does not compile %s: %s\n%s", nvrtc->version / 1000,
                         nvrtc->version % 1000 / 10, entry, what, log == NULL ? "(no log)" : log);
    }
    return error_set(err, status, "NVRTC %d.%d does not compile %s: %s; the whole log is in %s and begins\n%.4000s",
                     nvrtc->version / 1000, nvrtc->version % 1000 / 10, entry, what, path, log);
}

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Splits the text in place; returns how many lines. */
static int split_lines(char *text, const char **lines, int capacity) {
    int count = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL && count < capacity;
         line = strtok_r(NULL, "\n", &rest)) {
        lines[count++] = line;
    }
    return count;
}

grs_status nvrtc_compile(const struct nvrtc *nvrtc, enum arch arch, const char *file, const char *source,
                         const struct emit_header *headers, const char *entry, struct nvrtc_result *out,
                         grs_error *err) {
    grs_status status = GRS_OK;
    struct buf option_text = {0};
    const char *options[16], **texts = NULL, **names = NULL;
    int header_count = 0, option_count, result = RESULT_SUCCESS, log_result;
    program program = NULL;
    double start = now_seconds();
    memset(out, 0, sizeof(*out));

    if (nvrtc->version < nvrtc_arch_version(arch)) {
        return error_set(err, GRS_ERR_UNSUPPORTED, "%s needs NVRTC %d.%d or newer; %s is %d.%d", config_arch_name(arch),
                         nvrtc_arch_version(arch) / 1000, nvrtc_arch_version(arch) % 1000 / 10, nvrtc->path,
                         nvrtc->version / 1000, nvrtc->version % 1000 / 10);
    }
    while (headers != NULL && headers[header_count].name != NULL) {
        header_count++;
    }
    texts = calloc((size_t)header_count + 1, sizeof(*texts));
    names = calloc((size_t)header_count + 1, sizeof(*names));
    nvrtc_options(arch, &option_text);
    if (texts == NULL || names == NULL || option_text.failed) {
        status = error_set(err, GRS_ERR_MEMORY, "out of memory compiling %s", entry);
        goto done;
    }
    for (int i = 0; i < header_count; i++) {
        texts[i] = headers[i].text;
        names[i] = headers[i].name;
    }
    option_count = split_lines(option_text.data, options, (int)(sizeof(options) / sizeof(options[0])));

    result = nvrtc->CreateProgram(&program, source, file, header_count, texts, names);
    if (result != RESULT_SUCCESS) {
        program = NULL;
        status = compile_error(nvrtc, result, entry, NULL, 0, err);
        goto done;
    }
    result = nvrtc->CompileProgram(program, option_count, options);
    out->log = fetch(program, nvrtc->GetProgramLogSize, nvrtc->GetProgramLog, &out->log_size, &log_result);
    if (out->log != NULL) {
        out->log_size = strlen(out->log); /* NVRTC counts the NUL */
    }
    if (result != RESULT_SUCCESS) {
        status = compile_error(nvrtc, result, entry, out->log, out->log_size, err);
        goto done;
    }
    out->cubin = fetch(program, nvrtc->GetCUBINSize, nvrtc->GetCUBIN, &out->cubin_size, &result);
    if (out->cubin != NULL) {
        out->ptx = fetch(program, nvrtc->GetPTXSize, nvrtc->GetPTX, &out->ptx_size, &result);
    }
    if (out->ptx == NULL || out->log == NULL) {
        result = out->log == NULL ? log_result : result;
        status = compile_error(nvrtc, result, entry, out->log, out->log_size, err);
        goto done;
    }
    out->ptx_size = strlen(out->ptx);
    ptxas_parse(out->log, entry, &out->report);
    out->seconds = now_seconds() - start;
done:
    if (program != NULL) {
        nvrtc->DestroyProgram(&program);
    }
    if (status != GRS_OK) {
        nvrtc_result_free(out);
    }
    free(texts);
    free(names);
    buf_free(&option_text);
    return status;
}

void nvrtc_result_free(struct nvrtc_result *result) {
    free(result->cubin);
    free(result->ptx);
    free(result->log);
    memset(result, 0, sizeof(*result));
}

/* ---------------------------------------------------------------- ptxas's report ------------------------------- */

/* The number before `unit` on the line, "… 24 bytes spill stores …"; 0: not there. */
static int number_before(const char *line, size_t length, const char *unit) {
    const char *at = memmem(line, length, unit, strlen(unit));
    if (at == NULL || at == line || at[-1] != ' ') {
        return 0;
    }
    const char *digit = at - 1;
    while (digit > line && digit[-1] >= '0' && digit[-1] <= '9') {
        digit--;
    }
    return atoi(digit);
}

void ptxas_parse(const char *log, const char *entry, struct ptxas_report *out) {
    char heading[512];
    memset(out, 0, sizeof(*out));
    snprintf(heading, sizeof(heading), "Compiling entry function '%s'", entry);
    const char *line = strstr(log, heading);
    bool in_entry = false;
    while (line != NULL && (line = strchr(line, '\n')) != NULL) {
        line++;
        size_t length = strcspn(line, "\n");
        if (memmem(line, length, "Compiling entry function", 24) != NULL) {
            break; /* the next kernel's */
        }
        /* "Function properties for NAME" precedes the stack line of the entry and of every function that it calls. */
        const char *properties = memmem(line, length, "properties for ", 15);
        if (properties != NULL) {
            size_t at = (size_t)(properties + 15 - line);
            in_entry = length - at == strlen(entry) && memcmp(line + at, entry, length - at) == 0;
        } else if (in_entry && memmem(line, length, "bytes stack frame", 17) != NULL) {
            out->stack_bytes = number_before(line, length, "bytes stack frame");
            out->spill_store_bytes = number_before(line, length, "bytes spill stores");
            out->spill_load_bytes = number_before(line, length, "bytes spill loads");
        } else if (memmem(line, length, ": Used ", 7) != NULL) {
            out->registers = number_before(line, length, "registers");
            out->barriers = number_before(line, length, "barriers");
            out->static_shared_bytes = number_before(line, length, "bytes smem");
            out->found = out->registers > 0;
        }
    }
}
