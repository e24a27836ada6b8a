/* The command line, from one table that also makes the help. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "generator/config_values.h"
#include "tools/grsgen.h"

static const char *const emit_names[] = {"cuda", "ptx", "cubin", "sass", "log", "all", NULL};
static const char *const schema_names[] = {"json", "markdown", NULL};

enum id {
    CONFIG = 1,
    CHECK,
    EXPLAIN,
    EMIT,
    DIFF,
    INIT,
    SCHEMA,
    ARCH,
    SHAPE,
    ONLY,
    DRY_RUN,
    JSON,
    OUT,
    JOBS,
    HELP,
    VERSION
};

struct option_info {
    enum id id;
    const char *name;
    const char *argument; /* NULL: none; "[=X]": optional */
    const char *help;
};

static const struct option_info infos[] = {
    {CONFIG, "config", "FILE", "the config ('-': standard input); alone: precompile its shapes into the cache"},
    {CHECK, "check", NULL, "validate the config, and plan every kernel of it, only"},
    {EXPLAIN, "explain", NULL, "the plan in words: shared-memory map, roles, tile order, limits, reasons"},
    {EMIT, "emit", "WHAT", "cuda, ptx, cubin, sass, log, or all"},
    {DIFF, "diff", "A B", "what differs between two configs' plans and emitted text"},
    {INIT, "init", NULL, "write a commented config for this machine to standard output"},
    {SCHEMA, "schema", "[=FORMAT]", "JSON Schema of configs for editors; markdown: the reference"},
    {ARCH, "arch", "A[,A...]", "instead of the config's arch (default: $GRS_ARCH, else sm_90a)"},
    {SHAPE, "shape", "M,N,K,tp", "instead of the config's shapes; repeatable; works without a config"},
    {ONLY, "only", "NAME", "only the config's shapes of this name"},
    {DRY_RUN, "dry-run", NULL, "what would be compiled, and what the cache has"},
    {OUT, "output", "DIR", "-o DIR: one file a kernel and kind of text instead of standard output"},
    {JOBS, "jobs", "N", "-j N: compile so many kernels at a time (default: one a core)"},
    {JSON, "json", NULL, "one JSON object on standard output, nothing else"},
    {HELP, "help", NULL, "print this and exit"},
    {VERSION, "version", NULL, "print the version and exit"},
};
#define INFO_COUNT (sizeof infos / sizeof infos[0])

void options_print_help(void) {
    printf("usage: grsgen --config FILE [--check | --explain | --emit WHAT | --dry-run] [options]\n"
           "       grsgen --shape M,N,K,tp --explain | --emit WHAT [options]\n"
           "       grsgen --diff A B | --init | --schema\n"
           "       grsgen cache path|list|show|verify|prune|clear|pack|unpack\n"
           "       grsgen doctor [--config FILE] [--arch A] [--json]\n\n"
           "Makes fused GEMM + reduce-scatter kernels from a config, and shows what is made.\n\n");
    for (size_t i = 0; i < INFO_COUNT; i++) {
        char left[64];
        const char *argument = infos[i].argument ? infos[i].argument : "";
        snprintf(left, sizeof left, "--%s%s%s", infos[i].name, *argument && *argument != '[' ? " " : "", argument);
        printf("  %-20s %s\n", left, infos[i].help);
    }
    printf("\nExit codes: 0 done; 1 the work failed; 2 the command line or the config is wrong.\n");
}

static bool wrong(const char *option, const char *text, const char *allowed) {
    fail(0, "--%s: '%s' is not possible, allowed: %s", option, text, allowed);
    return false;
}

static bool read_choice(const char *option, const char *text, const char *const *names, int *out) {
    struct buf allowed = {0};
    for (int i = 0; names[i]; i++) {
        if (!strcmp(text, names[i])) {
            *out = i;
            buf_free(&allowed);
            return true;
        }
        buf_printf(&allowed, "%s%s", i ? ", " : "", names[i]);
    }
    wrong(option, text, allowed.failed ? "" : allowed.data);
    buf_free(&allowed);
    return false;
}

/* Digits up to `stop` or the end; -1 otherwise. */
static int64_t read_number(const char *text, const char **end) {
    char *after;
    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    long long value = strtoll(text, &after, 10);
    *end = after;
    return errno ? -1 : value;
}

static bool read_shape(const char *text, struct grsgen_options *out) {
    static const enum shape_field order[] = {SHAPE_M, SHAPE_N, SHAPE_K, SHAPE_TP};
    static const char *const names[] = {"M", "N", "K", "tp"};
    int64_t values[SHAPE_FIELD_COUNT];
    const char *at = text;
    if (out->shape_count == GRSGEN_MAX_SHAPES)
        return fail(0, "--shape: more than %d shapes, allowed: a config for so many", GRSGEN_MAX_SHAPES) != 0;
    for (int i = 0; i < SHAPE_FIELD_COUNT; i++) {
        const char *end = at;
        values[i] = read_number(at, &end);
        if (values[i] < 0 || *end != (i + 1 < SHAPE_FIELD_COUNT ? ',' : 0))
            return wrong("shape", text, "M,N,K,tp such as 8192,4096,2048,4");
        at = end + 1;
    }
    for (int i = 0; i < SHAPE_FIELD_COUNT; i++) {
        struct buf why = {0};
        if (!value_is_allowed(&config_shape_fields[order[i]], values[i], &why)) {
            fail(0, "--shape: %s: %lld %s", names[i], (long long)values[i], why.failed ? "" : why.data);
            buf_free(&why);
            return false;
        }
    }
    out->shapes[out->shape_count++] =
        (struct config_shape){.m = values[0], .n = values[1], .k = values[2], .tp = (int)values[3]};
    return true;
}

bool options_read_arch(const char *name, enum arch *out) {
    struct buf allowed = {0};
    if (config_arch_parse(name, out))
        return true;
    config_archs_text(ARCH_COUNT, &allowed);
    wrong("arch", name, allowed.failed ? "" : allowed.data);
    buf_free(&allowed);
    return false;
}

/* Names with commas between them; an empty one is none. */
static bool read_archs(const char *text, struct grsgen_options *out) {
    for (const char *at = text;; at++) {
        enum arch arch;
        char name[64];
        int length = (int)strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", length, at);
        if (!options_read_arch(name, &arch))
            return false;
        out->arch[arch] = out->has_arch = true;
        at += length;
        if (!*at)
            return true;
    }
}

/* Two commands in one line make no sense. `given` remembers the option of the first. */
static bool choose(struct grsgen_options *out, enum grsgen_command command, const char *name, const char **given) {
    if (*given && out->command != command)
        return fail(0, "--%s and --%s exclude each other; see grsgen --help", *given, name) != 0;
    *given = name;
    out->command = command;
    return true;
}

static bool apply(const struct option_info *info, const char *text, struct grsgen_options *out, const char **command) {
    int choice = 0;
    int64_t number;
    const char *end;
    switch (info->id) {
    case CONFIG: out->config_path = text; return true;
    case CHECK: return choose(out, COMMAND_CHECK, info->name, command);
    case EXPLAIN: return choose(out, COMMAND_EXPLAIN, info->name, command);
    case DIFF: out->config_path = text; return choose(out, COMMAND_DIFF, info->name, command);
    case INIT: return choose(out, COMMAND_INIT, info->name, command);
    case HELP: return choose(out, COMMAND_HELP, info->name, command);
    case VERSION: return choose(out, COMMAND_VERSION, info->name, command);
    case EMIT:
        if (!read_choice(info->name, text, emit_names, &choice))
            return false;
        out->emit = (enum grsgen_emit)choice;
        return choose(out, COMMAND_EMIT, info->name, command);
    case SCHEMA:
        if (text && !read_choice(info->name, text, schema_names, &choice))
            return false;
        out->schema = (enum grsgen_schema)choice;
        return choose(out, COMMAND_SCHEMA, info->name, command);
    case ARCH: return read_archs(text, out);
    case SHAPE: return read_shape(text, out);
    case ONLY: out->only = text; return true;
    case OUT: out->out_dir = text; return true;
    case DRY_RUN: out->dry_run = true; return true;
    case JSON: out->json = true; return true;
    case JOBS:
        number = read_number(text, &end);
        if (number < 1 || number > 1024 || *end)
            return wrong(info->name, text, "1 to 1024");
        out->jobs = (int)number;
        return true;
    }
    return false;
}

static bool check_together(const struct grsgen_options *o, const char *command) {
    bool works = o->command <= COMMAND_EMIT;
    if (o->command == COMMAND_PRECOMPILE && !o->config_path && !o->shape_count)
        return fail(0, "nothing to do: give --config FILE; see grsgen --help") != 0;
    if (works && !o->config_path && !o->shape_count)
        return fail(0, "--%s: give --config FILE or --shape M,N,K,tp", command) != 0;
    if (o->command == COMMAND_CHECK && !o->config_path)
        return fail(0, "--check: give --config FILE") != 0;
    if (o->only && (!o->config_path || o->shape_count || !(works || o->command == COMMAND_DIFF)))
        return fail(0, "--only chooses among the shapes of --config: it cannot be used here") != 0;
    if (o->dry_run && o->command != COMMAND_PRECOMPILE)
        return fail(0, "--dry-run is about precompiling: it cannot be used with --%s", command) != 0;
    if (o->out_dir && o->command != COMMAND_EMIT)
        return fail(0, "-o is for --emit") != 0;
    if (o->json && !(works && o->command != COMMAND_EMIT))
        return fail(0, "--json cannot be used with --%s", command) != 0;
    return true;
}

bool options_read(int argc, char **argv, struct grsgen_options *out) {
    struct option table[INFO_COUNT + 1] = {{0}};
    const char *command = NULL;
    *out = (struct grsgen_options){0};
    for (size_t i = 0; i < INFO_COUNT; i++)
        table[i] = (struct option){infos[i].name,
                                   !infos[i].argument            ? no_argument
                                   : infos[i].argument[0] == '[' ? optional_argument
                                                                 : required_argument,
                                   NULL, infos[i].id};
    optind = 0; /* start anew, whatever was parsed before */
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":o:j:h", table, NULL)) != -1;) {
        c = c == 'o' ? OUT : c == 'j' ? JOBS : c == 'h' ? HELP : c;
        const struct option_info *info = NULL;
        for (size_t i = 0; i < INFO_COUNT; i++)
            info = infos[i].id == (enum id)c ? &infos[i] : info;
        if (!info && c == ':')
            return fail(0, "%s needs an argument; see grsgen --help", argv[optind - 1]) != 0;
        if (!info)
            return fail(0, "unknown or ambiguous option '%s'; see grsgen --help", argv[optind - 1]) != 0;
        if (!apply(info, optarg, out, &command))
            return false;
    }
    if (out->command == COMMAND_DIFF) {
        if (optind + 1 != argc)
            return fail(0, "--diff: two configs are needed: --diff A B") != 0;
        out->other_path = argv[optind];
    } else if (optind < argc) {
        return fail(0, "unexpected argument '%s'; see grsgen --help", argv[optind]) != 0;
    }
    return check_together(out, command);
}
