/* --config alone: every kernel into the cache, several at a time; --dry-run: what that would do. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cache/cache.h"
#include "common/parallel.h"
#include "runtime/context.h"
#include "runtime/jit.h"
#include "runtime/kernel.h"
#include "tools/grsgen.h"
#include "tools/grsgen_json.h"

struct result {
    grs_status status;
    grs_source source;
    bool cached; /* --dry-run: the cache has it */
    double seconds;
    struct kernel_meta meta;
    char key[HASH_HEX_LENGTH + 1];
    char *error; /* text of a failure */
};

struct job {
    grs_ctx *ctx;
    const struct work *work;
    struct result *results;
    bool dry_run, terminal, quiet;
    struct timespec started;
    pthread_mutex_t lock; /* of all below, and of the progress line */
    size_t done, hits, failed;
};

static double seconds_since(const struct timespec *start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) * 1e-9;
}

static const char *outcome(const struct job *job, const struct result *result) {
    if (result->status != GRS_OK)
        return "failed";
    if (job->dry_run)
        return result->cached ? "cached" : "missing";
    return result->source == GRS_FROM_COMPILER ? "compiled" : "cached";
}

/* A bar that is drawn over itself on a terminal, a line a kernel elsewhere. Called with the lock held. */
static void show_progress(const struct job *job, size_t index) {
    const struct result *result = &job->results[index];
    const char *name = job->work->items[index].plan.name;
    size_t total = job->work->count;
    if (job->quiet)
        return;
    if (!job->terminal) {
        fprintf(stderr, "[%zu/%zu] %s %s %s, %.1f s\n", job->done, total, outcome(job, result),
                config_arch_name(job->work->items[index].plan.arch), name, result->seconds);
        return;
    }
    enum { WIDTH = 24 };
    static const char bar[] = "########################", space[] = "........................";
    int filled = (int)(job->done * WIDTH / total);
    fprintf(stderr, "\r\033[K[%.*s%.*s] %zu/%zu  %zu cached%s  %.0f s  %.60s", filled, bar, WIDTH - filled, space,
            job->done, total, job->hits, job->failed ? "  SOME FAILED" : "", seconds_since(&job->started), name);
    if (job->done == total)
        fputs("\r\033[K", stderr);
    fflush(stderr);
}

static void do_one(struct job *job, size_t index) {
    const struct work_item *item = &job->work->items[index];
    struct result *result = &job->results[index];
    struct grs_kernel *kernel = NULL;
    struct timespec start;
    grs_error err = {0};
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (job->dry_run)
        result->status = jit_probe(job->ctx, job->work->config, item->plan.arch, &item->shape, &result->cached, NULL,
                                   result->key, &err);
    else
        result->status = jit_build(job->ctx, job->work->config, item->plan.arch, &item->shape, &kernel, &err);
    result->seconds = seconds_since(&start);
    if (kernel) {
        result->source = kernel->source;
        result->meta = kernel->meta;
        memcpy(result->key, kernel->key, sizeof result->key);
    }
    if (result->status != GRS_OK)
        result->error = strdup(err.text);
    kernel_free(kernel);
}

static bool one_item(void *arg, size_t index) {
    struct job *job = arg;
    do_one(job, index);
    pthread_mutex_lock(&job->lock);
    const struct result *result = &job->results[index];
    job->done++;
    job->failed += result->status != GRS_OK;
    job->hits += result->status == GRS_OK && !strcmp(outcome(job, result), "cached");
    if (!job->dry_run)
        show_progress(job, index);
    pthread_mutex_unlock(&job->lock);
    return true; /* the others may still succeed */
}

static int print_table(const struct job *job, const char *dir) {
    struct buf out = {0};
    int width = 6;
    for (size_t i = 0; i < job->work->count; i++) {
        int length = (int)strlen(job->work->items[i].plan.name);
        width = length > width ? length : width;
    }
    buf_printf(&out, "%-*s  %-7s  %-19s  %-8s  %5s  %6s  %7s  %6s\n", width, "kernel", "arch", "M", "from", "regs",
               "spills", "shared", "time");
    for (size_t i = 0; i < job->work->count; i++) {
        const struct result *r = &job->results[i];
        const struct plan *plan = &job->work->items[i].plan;
        char m[48];
        snprintf(m, sizeof m, "%" PRId64 "..%" PRId64, plan->shape.m_min, plan->shape.m_max);
        buf_printf(&out, "%-*s  %-7s  %-19s  %-8s  ", width, plan->name, config_arch_name(plan->arch), m,
                   outcome(job, r));
        if (!job->dry_run && r->status == GRS_OK) {
            buf_printf(&out, "%5d  %6d  %7d  ", r->meta.registers, r->meta.spill_bytes, r->meta.shared_bytes);
            buf_fixed(&out, r->seconds, 2);
            buf_puts(&out, " s");
        } else {
            buf_printf(&out, "%5s  %6s  %7" PRId64 "  %s", "-", "-", plan->shared_bytes, "-");
        }
        buf_puts(&out, "\n");
    }
    size_t rest = job->work->count - job->hits - job->failed;
    buf_printf(&out, "%zu kernel%s: %zu %s, %zu cached, %zu failed", job->work->count, job->work->count == 1 ? "" : "s",
               rest, job->dry_run ? "missing" : "compiled", job->hits, job->failed);
    if (!job->dry_run) {
        buf_puts(&out, " in ");
        buf_fixed(&out, seconds_since(&job->started), 1);
        buf_puts(&out, " s");
    }
    buf_printf(&out, "; cache: %s\n", dir ? dir : "none");
    return print_buf(&out);
}

static int print_json(const struct job *job, const char *dir) {
    json_t *rows = json_array();
    for (size_t i = 0; i < job->work->count; i++) {
        const struct result *r = &job->results[i];
        const struct plan *plan = &job->work->items[i].plan;
        bool built = !job->dry_run && r->status == GRS_OK;
        json_array_append_new(
            rows,
            json_pack("{s:s, s:s?, s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:s?, s:o, s:o, s:I, s:o, s:s?}", "kernel",
                      plan->name, "name", job->work->items[i].name, "arch", config_arch_name(plan->arch), "outcome",
                      outcome(job, r), "m_min", (json_int_t)plan->shape.m_min, "m_max", (json_int_t)plan->shape.m_max,
                      "n", (json_int_t)plan->shape.n, "k", (json_int_t)plan->shape.k, "tp", plan->shape.tp, "key",
                      r->key[0] ? r->key : NULL, "registers", built ? json_integer(r->meta.registers) : json_null(),
                      "spill_bytes", built ? json_integer(r->meta.spill_bytes) : json_null(), "shared_bytes",
                      (json_int_t)plan->shared_bytes, "seconds", built ? json_real(r->seconds) : json_null(), "error",
                      r->error));
    }
    return json_print(json_pack("{s:s, s:s, s:s?, s:I, s:I, s:I, s:o}", "kind", job->dry_run ? "dry-run" : "precompile",
                                "config", job->work->config->path, "cache", dir, "total", (json_int_t)job->work->count,
                                "cached", (json_int_t)job->hits, "failed", (json_int_t)job->failed, "kernels", rows));
}

int grsgen_precompile(const struct grsgen_options *options) {
    struct work work;
    struct job job = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = &work, .dry_run = options->dry_run};
    grs_error err = {0};
    const char *why = "", *dir;
    int code = work_load(options, options->config_path, &work);
    if (code)
        return code;
    job.quiet = options->json;
    job.terminal = isatty(STDERR_FILENO);
    clock_gettime(CLOCK_MONOTONIC, &job.started);
    if (!work.count) {
        code = fail(GRSGEN_USAGE, "%s has no shapes, allowed: a config with shapes, or --shape M,N,K,tp",
                    work.config->path);
        goto done;
    }
    if (grs_ctx_open(&GRS_INIT(grs_ctx_options), &job.ctx, &err) != GRS_OK) {
        code = fail_with(GRSGEN_FAILED, &err);
        goto done;
    }
    dir = cache_dir(job.ctx->cache, &why);
    if (!dir && !options->dry_run) { /* filling it is the whole point */
        code = fail(GRSGEN_FAILED, "no cache to fill: %s", why && *why ? why : "GRS_CACHE_DIR names none");
        goto done;
    }
    job.results = calloc(work.count, sizeof *job.results);
    if (!job.results) {
        code = fail(GRSGEN_FAILED, "out of memory for %zu kernels", work.count);
        goto done;
    }
    parallel_for(work.count, options->jobs, one_item, &job);
    code = options->json ? print_json(&job, dir) : print_table(&job, dir);
    for (size_t i = 0; i < work.count; i++)
        if (job.results[i].status != GRS_OK) {
            fail(0, "%s: %s", work.items[i].plan.name, job.results[i].error ? job.results[i].error : "out of memory");
            code = GRSGEN_FAILED;
        }
    /* The cache may have given up in the middle (a full disk): what it holds then is not what was asked for. */
    if (!code && !options->dry_run && (why = cache_trouble(job.ctx->cache)))
        code = fail(GRSGEN_FAILED, "%s", why);
done:
    for (size_t i = 0; job.results && i < work.count; i++)
        free(job.results[i].error);
    free(job.results);
    grs_ctx_close(job.ctx);
    work_free(&work);
    return code;
}
