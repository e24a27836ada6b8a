/* Stands in for NVRTC where tests count compiles: each opening of the library appends "o", each compile "c", to the file
 * named by SHIM_NVRTC_COUNT, whatever process it happens in. SHIM_NVRTC_SLEEP_MS makes a compile last, SHIM_NVRTC_FAIL
 * makes it fail, SHIM_NVRTC_CUBIN_BYTES sets how large a "cubin" is, SHIM_NVRTC_VERSION what it says it is (12080: 12.8). */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, OUT_OF_MEMORY = 1, COMPILATION = 6 };

struct program {
    char *source, *name;
    size_t cubin_size;
    const char *log;
};

EXPORT int nvrtcVersion(int *major, int *minor);
EXPORT const char *nvrtcGetErrorString(int result);
EXPORT int nvrtcCreateProgram(struct program **out, const char *source, const char *name, int count,
                              const char *const *headers, const char *const *names);
EXPORT int nvrtcDestroyProgram(struct program **program);
EXPORT int nvrtcCompileProgram(struct program *program, int count, const char *const *options);
EXPORT int nvrtcGetProgramLogSize(struct program *program, size_t *size);
EXPORT int nvrtcGetProgramLog(struct program *program, char *log);
EXPORT int nvrtcGetCUBINSize(struct program *program, size_t *size);
EXPORT int nvrtcGetCUBIN(struct program *program, char *cubin);
EXPORT int nvrtcGetPTXSize(struct program *program, size_t *size);
EXPORT int nvrtcGetPTX(struct program *program, char *ptx);

static void note(const char *letter) {
    const char *path = getenv("SHIM_NVRTC_COUNT");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (fd >= 0 && write(fd, letter, 1) != 1)
        abort();
    if (fd >= 0)
        close(fd);
}

static long setting(const char *name) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void opened(void) {
    note("o");
}

int nvrtcVersion(int *major, int *minor) {
    long version = setting("SHIM_NVRTC_VERSION");
    *major = version ? (int)(version / 1000) : 13;
    *minor = (int)(version % 1000 / 10);
    return SUCCESS;
}

const char *nvrtcGetErrorString(int result) {
    return result == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}

int nvrtcCreateProgram(struct program **out, const char *source, const char *name, int count,
                       const char *const *headers, const char *const *names) {
    (void)count, (void)headers, (void)names;
    struct program *program = calloc(1, sizeof *program);
    if (program) {
        program->source = strdup(source);
        program->name = strdup(name ? name : "");
        program->log = "";
    }
    *out = program;
    return program && program->source && program->name ? SUCCESS : OUT_OF_MEMORY;
}

int nvrtcDestroyProgram(struct program **program) {
    free((*program)->source);
    free((*program)->name);
    free(*program);
    *program = NULL;
    return SUCCESS;
}

int nvrtcCompileProgram(struct program *program, int count, const char *const *options) {
    (void)count, (void)options;
    long ms = setting("SHIM_NVRTC_SLEEP_MS");
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    note("c");
    nanosleep(&pause, NULL);
    if (getenv("SHIM_NVRTC_FAIL")) {
        program->log = "shim: told to fail";
        return COMPILATION;
    }
    long bytes = setting("SHIM_NVRTC_CUBIN_BYTES");
    program->cubin_size = bytes > 0 ? (size_t)bytes : 1000;
    return SUCCESS;
}

int nvrtcGetProgramLogSize(struct program *program, size_t *size) {
    *size = strlen(program->log) + 1;
    return SUCCESS;
}

int nvrtcGetProgramLog(struct program *program, char *log) {
    strcpy(log, program->log);
    return SUCCESS;
}

/* The same source gives the same bytes, another source others. */
int nvrtcGetCUBINSize(struct program *program, size_t *size) {
    *size = program->cubin_size;
    return SUCCESS;
}

int nvrtcGetCUBIN(struct program *program, char *cubin) {
    uint32_t state = 2166136261u;
    for (const char *at = program->source; *at; at++)
        state = (state ^ (unsigned char)*at) * 16777619u;
    for (size_t i = 0; i < program->cubin_size; i++) {
        state = state * 1664525u + 1013904223u;
        cubin[i] = (char)(state >> 24);
    }
    memcpy(cubin, "\177ELF",
           program->cubin_size < 4 ? program->cubin_size : 4); /* stand-ins for a driver look for it */
    return SUCCESS;
}

int nvrtcGetPTXSize(struct program *program, size_t *size) {
    *size = strlen(program->name) + sizeof "// shim: ";
    return SUCCESS;
}

int nvrtcGetPTX(struct program *program, char *ptx) {
    sprintf(ptx, "// shim: %s", program->name);
    return SUCCESS;
}
