/* How long it takes to get a kernel: from memory, from disk, from the compiler, in one process.
 *
 *   bench_jit [--json]
 *
 * JSON of kind "jit": a row is {"what", "unit", "median", "min", "max", "samples", "note"}.
 *   memory_hit          grs_jit_get, one thread, the same shape again and again
 *   memory_hit_mixed    the same over sixteen shapes and M's in turn
 *   memory_hit_threads  as many threads as cores, each as memory_hit
 *   disk_hit            first grs_ctx_get of a fresh context, up to the module load: NVRTC is looked for, not opened
 *   nvrtc_open          opening the library, once a process
 *   cold                grs_ctx_get with an empty cache, NVRTC open: text, compile, entry published
 *   cold_nvrtc          the part of it inside NVRTC */
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "grs.h"
#include "runtime/kernel.h"
#include "runtime/nvrtc.h"
#include "stamp.h"

#define MAX_SAMPLES 64
#define MAX_ROWS    16

struct row {
    const char *what, *unit, *note;
    double samples[MAX_SAMPLES];
    int count;
};

static struct row rows[MAX_ROWS];
static int row_count;
static grs_error err;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static struct row *new_row(const char *what, const char *unit, const char *note) {
    struct row *row = &rows[row_count++];
    *row = (struct row){.what = what, .unit = unit, .note = note};
    return row;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(struct row *row) {
    qsort(row->samples, (size_t)row->count, sizeof(row->samples[0]), by_value);
    return row->samples[row->count / 2];
}

static void die(const char *what) {
    fprintf(stderr, "bench_jit: %s: %s\n", what, err.text);
    exit(1);
}

/* ---------------------------------------------------------------- what is measured ------------------------------ */

static const int64_t M = 8192, N = 4096, K = 2048;
static const int TP = 4;

static grs_ctx *open_context(const char *dir) {
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    grs_ctx *ctx = NULL;
    options.cache_dir = dir;
    if (grs_ctx_open(&options, &ctx, &err) != GRS_OK) {
        die("context");
    }
    return ctx;
}

static void measure_cold(const char *root, int samples) {
    struct row *all = new_row("cold", "ms", "empty cache, default kernel, N 4096 K 2048 tp 4");
    struct row *inside = new_row("cold_nvrtc", "ms", "the part inside NVRTC");
    for (int i = 0; i < samples; i++) {
        char dir[4200];
        const grs_kernel *kernel;
        snprintf(dir, sizeof(dir), "%s/cold-%d", root, i);
        grs_ctx *ctx = open_context(dir);
        double start = now();
        if (grs_ctx_get(ctx, M, N, K, TP, &kernel, &err) != GRS_OK) {
            die("cold");
        }
        all->samples[all->count++] = (now() - start) * 1e3;
        inside->samples[inside->count++] = kernel->meta.compile_ms;
        grs_ctx_close(ctx);
    }
}

static void measure_disk(const char *root, int samples) {
    struct row *row = new_row("disk_hit", "us", "fresh context each time");
    char dir[4200];
    snprintf(dir, sizeof(dir), "%s/cold-0", root);
    for (int i = 0; i < samples; i++) {
        const grs_kernel *kernel;
        grs_ctx *ctx = open_context(dir);
        double start = now();
        if (grs_ctx_get(ctx, M, N, K, TP, &kernel, &err) != GRS_OK || kernel->source != GRS_FROM_DISK) {
            die("disk hit");
        }
        row->samples[row->count++] = (now() - start) * 1e6;
        grs_ctx_close(ctx);
    }
}

static void must_get(const grs_kernel *kernel) {
    if (kernel == NULL) {
        err = *grs_last_error();
        die("grs_jit_get");
    }
}

#define CALLS 2000000

static double time_hits(void) {
    const grs_kernel *volatile kernel = NULL;
    double start = now();
    for (int i = 0; i < CALLS; i++) {
        kernel = grs_jit_get(M, N, K, TP);
    }
    must_get(kernel);
    return (now() - start) / CALLS * 1e9;
}

static void measure_memory(int samples) {
    struct row *row = new_row("memory_hit", "ns", "one thread, default context");
    must_get(grs_jit_get(M, N, K, TP));
    for (int i = 0; i < samples; i++) {
        row->samples[row->count++] = time_hits();
    }
}

/* Narrow shapes, so that the compiles before it are few: four kernels, four M's each. */
static void measure_mixed(int samples) {
    static const int64_t n[4] = {4096, 2048, 1024, 512}, m[4] = {2000, 4096, 8191, 16384};
    struct row *row = new_row("memory_hit_mixed", "ns", "one thread, four kernels and four M's in turn");
    const grs_kernel *volatile kernel = NULL;
    for (int i = 0; i < 16; i++) {
        must_get(grs_jit_get(m[i / 4], n[i % 4], K, TP));
    }
    for (int s = 0; s < samples; s++) {
        double start = now();
        for (int i = 0; i < CALLS; i++) {
            kernel = grs_jit_get(m[i / 4 % 4], n[i % 4], K, TP);
        }
        row->samples[row->count++] = (now() - start) / CALLS * 1e9;
    }
    must_get(kernel);
}

static void *hit(void *arg) {
    *(double *)arg = time_hits();
    return NULL;
}

static void measure_threads(int samples) {
    enum { MOST = 64 };
    pthread_t threads[MOST];
    double times[MOST];
    static char note[64];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int count = cores < 2 ? 2 : (cores > MOST ? MOST : (int)cores);
    snprintf(note, sizeof(note), "%d threads, slowest", count);
    struct row *row = new_row("memory_hit_threads", "ns", note);
    for (int s = 0; s < samples; s++) {
        double slowest = 0;
        for (int i = 0; i < count; i++) {
            if (pthread_create(&threads[i], NULL, hit, &times[i]) != 0) {
                die("pthread_create");
            }
        }
        for (int i = 0; i < count; i++) {
            pthread_join(threads[i], NULL);
            slowest = times[i] > slowest ? times[i] : slowest;
        }
        row->samples[row->count++] = slowest;
    }
}

static void measure_open(char *compiler, size_t size) {
    struct row *row = new_row("nvrtc_open", "ms", "dlopen of library and builtins, once a process");
    struct nvrtc_location where;
    const struct nvrtc *nvrtc;
    if (nvrtc_locate(NULL, &where, &err) != GRS_OK) {
        die("NVRTC");
    }
    double start = now();
    if (nvrtc_open(&where, &nvrtc, &err) != GRS_OK) {
        die("NVRTC");
    }
    row->samples[row->count++] = (now() - start) * 1e3;
    snprintf(compiler, size, "%d.%d", nvrtc_version(nvrtc) / 1000, nvrtc_version(nvrtc) % 1000 / 10);
}

/* ---------------------------------------------------------------- output ---------------------------------------- */

static void print_text(void) {
    struct buf out = {0};
    buf_printf(&out, "%-20s %12s %12s %12s  %s\n", "what", "median", "min", "max", "note");
    for (int i = 0; i < row_count; i++) {
        double middle = median(&rows[i]);
        const double values[3] = {middle, rows[i].samples[0], rows[i].samples[rows[i].count - 1]};
        buf_printf(&out, "%-20s", rows[i].what);
        for (int v = 0; v < 3; v++) {
            struct buf number = {0};
            buf_fixed(&number, values[v], 1);
            buf_printf(&out, " %9s %s", number.data, rows[i].unit);
            buf_free(&number);
        }
        buf_printf(&out, "  %s\n", rows[i].note);
    }
    fputs(out.failed ? "out of memory\n" : out.data, stdout);
    buf_free(&out);
}

static int print_json(const char *compiler) {
    char date[32];
    time_t seconds = time(NULL);
    struct tm utc;
    strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&seconds, &utc));
    json_t *list = json_array();
    for (int i = 0; i < row_count; i++) {
        double middle = median(&rows[i]);
        json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f, s:f, s:i, s:s}", "what", rows[i].what, "unit",
                                              rows[i].unit, "median", middle, "min", rows[i].samples[0], "max",
                                              rows[i].samples[rows[i].count - 1], "samples", rows[i].count, "note",
                                              rows[i].note));
    }
    json_t *all = json_pack("{s:s, s:n, s:n, s:s, s:i, s:s, s:s, s:b, s:o}", "kind", "jit", "gpu", "driver", "cuda",
                            compiler, "cores", (int)sysconf(_SC_NPROCESSORS_ONLN), "date", date, "commit", GRS_COMMIT,
                            "dirty", GRS_DIRTY, "rows", list);
    int code = all == NULL || json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) != 0;
    json_decref(all);
    putchar('\n');
    return code;
}

int main(int argc, char **argv) {
    char root[] = "/tmp/grs-bench-jit-XXXXXX", command[4200], compiler[16], dir[4200];
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    int code = 0;
    if (argc > 1 && !json) {
        fprintf(stderr, "usage: bench_jit [--json]\n");
        return 2;
    }
    if (mkdtemp(root) == NULL) {
        perror("bench_jit");
        return 1;
    }
    snprintf(dir, sizeof(dir), "%s/cold-0", root);
    setenv("GRS_CACHE_DIR", dir, 1); /* of the default context */
    measure_open(compiler, sizeof(compiler));
    measure_cold(root, 5);
    measure_disk(root, 25);
    measure_memory(9);
    measure_mixed(9);
    measure_threads(5);
    if (json) {
        code = print_json(compiler);
    } else {
        print_text();
    }
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command) != 0 ? 1 : code;
}
