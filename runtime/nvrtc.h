/* NVRTC: found by reading files, opened only when something must be compiled. docs/nvrtc.md is the user's side. */
#ifndef GRS_RUNTIME_NVRTC_H
#define GRS_RUNTIME_NVRTC_H

#include <limits.h>

#include "common/buf.h"
#include "common/log.h"
#include "generator/config.h"
#include "generator/emit.h"
#include "grs.h"

#define NVRTC_MIN_VERSION 12080 /* 1000 * major + 10 * minor */

/* Where the library is, from file names and ELF headers alone: finding it costs no dlopen (8 to 170 ms). */
struct nvrtc_location {
    char path[PATH_MAX];     /* absolute, links resolved                                                          */
    char builtins[PATH_MAX]; /* libnvrtc-builtins.so.X.Y beside it; "": none there (the dynamic loader may know one) */
    char build_id[2 * 64 + 1]; /* hexadecimal; of the GNU note, else "file-" and a digest of size and both ends     */
    char origin[64];           /* which step of the search found it: "GRS_NVRTC", "ld.so.cache", …                  */
    int version;               /* of the builtins' name, 12080; 0: not known before the library is opened           */
};

/* The search of docs/nvrtc.md. `path`: a file or a directory to look in and nowhere else; NULL: $GRS_NVRTC, which is taken
 * in the same way, else the search. GRS_ERR_COMPILER: none found, or only ones that are too old; the text lists what was
 * tried. */
grs_status nvrtc_locate(const char *path, struct nvrtc_location *out, grs_error *err);

/* The build id of an ELF file, or what stands for it (see build_id above). False: not a readable 64-bit ELF file. */
bool nvrtc_read_build_id(const char *path, char *out, size_t size);

struct nvrtc; /* an open library; lives as long as the process */

/* Opens the library (once a path and process), its builtins before it, and checks the version. Safe from any thread. */
grs_status nvrtc_open(const struct nvrtc_location *where, const struct nvrtc **out, grs_error *err);
int nvrtc_version(const struct nvrtc *nvrtc); /* 13000 */

/* The first NVRTC that knows an arch with its suffix. */
int nvrtc_arch_version(enum arch arch);

/* Compile options for an arch, one a line: part of the cache key. $GRS_LINE_INFO adds one. */
void nvrtc_options(enum arch arch, struct buf *out);

/* What ptxas said about the kernel. */
struct ptxas_report {
    bool found; /* false: the log has no report, the numbers are 0 */
    int registers, barriers;
    int stack_bytes, spill_store_bytes, spill_load_bytes;
    int static_shared_bytes;
};
void ptxas_parse(const char *log, const char *entry, struct ptxas_report *out);

struct nvrtc_result { /* free with nvrtc_result_free */
    void *cubin;
    size_t cubin_size;
    char *ptx; /* NUL-terminated beyond its size, like the log */
    size_t ptx_size;
    char *log; /* the compiler's, whole, and ptxas's report */
    size_t log_size;
    struct ptxas_report report;
    double seconds;
};

/* One compile for one arch gives cubin and PTX. `file` is the name that diagnostics cite, `headers` ends with a NULL name,
 * `entry` is the extern "C" name of the kernel. On failure GRS_ERR_COMPILER (GRS_ERR_UNSUPPORTED for an arch that this
 * NVRTC does not know): the text holds the whole log, or says in which file it is when it is too long. Safe from any
 * thread. */
grs_status nvrtc_compile(const struct nvrtc *nvrtc, enum arch arch, const char *file, const char *source,
                         const struct emit_header *headers, const char *entry, struct nvrtc_result *out,
                         grs_error *err);
void nvrtc_result_free(struct nvrtc_result *result);

#endif
