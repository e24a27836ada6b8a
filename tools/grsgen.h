/* grsgen: makes kernels from configs ahead of time, and shows what is made. This header is what its parts share; grsgen.c
 * ties them together.
 *
 * Every command returns the exit code of the program: 0 done, 1 the work failed, 2 the command line or the config is wrong. */
#ifndef GRS_TOOLS_GRSGEN_H
#define GRS_TOOLS_GRSGEN_H

#include <stdbool.h>
#include <stddef.h>

#include "generator/plan.h"
#include "grs.h"

enum { GRSGEN_OK = 0, GRSGEN_FAILED = 1, GRSGEN_USAGE = 2 };

enum grsgen_command {
    COMMAND_PRECOMPILE = 0,
    COMMAND_CHECK,
    COMMAND_EXPLAIN,
    COMMAND_EMIT,
    COMMAND_SCHEMA,
    COMMAND_INIT,
    COMMAND_DIFF,
    COMMAND_HELP,
    COMMAND_VERSION
};
enum grsgen_emit { EMIT_CUDA = 0, EMIT_PTX, EMIT_CUBIN, EMIT_SASS, EMIT_LOG, EMIT_ALL };
enum grsgen_schema { SCHEMA_JSON = 0, SCHEMA_MARKDOWN };

#define GRSGEN_MAX_SHAPES 64 /* of one command line */

struct grsgen_options {
    enum grsgen_command command;
    const char *config_path; /* NULL: the planner chooses everything              */
    const char *other_path;  /* the second config of --diff                       */
    bool has_arch, arch[ARCH_COUNT];
    struct config_shape shapes[GRSGEN_MAX_SHAPES]; /* of --shape, instead of the config's */
    size_t shape_count;
    const char *only; /* name of shapes of the config; NULL: all           */
    enum grsgen_emit emit;
    enum grsgen_schema schema;
    const char *out_dir;
    int jobs; /* 0: cores */
    bool json, dry_run;
};

/* What one command works on: every kernel that config, archs and shapes ask for, once each. */
struct work_item {
    struct plan plan;
    struct plan_shape shape; /* as planned for: the plan may have cut m_max */
    int64_t m;               /* the largest M that was asked of this kernel */
    const char *name;        /* of the shape in the config, or NULL         */
};
struct work {
    struct config *config;
    struct work_item *items;
    size_t count;
    size_t shape_count; /* shapes that led to them, after --only and --shape */
    int archs;
};

/* Loads the config and plans. On failure returns the exit code after printing why (all refusals, once each, for check). */
int work_load(const struct grsgen_options *options, const char *config_path, struct work *work);
void work_free(struct work *work);
/* "m 1..512 n 4096 k 2048 tp 4" */
void work_shape_text(const struct plan *plan, struct buf *out);

/* grsgen_options.c. False after printing what is wrong. */
bool options_read(int argc, char **argv, struct grsgen_options *out);
bool options_read_arch(const char *name, enum arch *out); /* of --arch */
void options_print_help(void);

/* One a file: grsgen_check.c, grsgen_explain.c … */
int grsgen_check(const struct grsgen_options *options);
int grsgen_explain(const struct grsgen_options *options);
int grsgen_emit(const struct grsgen_options *options);
int grsgen_precompile(const struct grsgen_options *options);
int grsgen_diff(const struct grsgen_options *options);
int grsgen_init(const struct grsgen_options *options);
int grsgen_schema(const struct grsgen_options *options);
int grsgen_cache_main(int argc, char **argv);
int grsgen_doctor(int argc, char **argv);

/* grsgen_print.c: messages to standard error, "grsgen: …" before the first line; and results to standard output. */
int fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fail_with(int code, const grs_error *err);
/* Writes everything, and a failure (a full disk, a closed pipe) is exit code 1. */
int print_buf(struct buf *text); /* frees it */

#endif
