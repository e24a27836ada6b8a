#include "tools/grsrun_options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

#define SHAPES_MAX 4096 /* of one command: guards against a slip such as 1:100000+1 */
#define SIZE_LIMIT INT32_MAX

enum kind { FLAG, NUMBER, RATE, SEED, CHOICE, TEXT, STRIDE, ARCH, SHAPE, TP, HELP, VERSION };

struct option_info {
    const char *name;
    enum kind kind;
    size_t offset; /* of the member in struct grsrun_options */
    const char *argument;
    const char *const *choices; /* CHOICE: in enum order, ends with NULL */
    int min, max;               /* NUMBER                                */
    const char *help;
};

static const char *const backends[] = {"auto", "gpu", "emu", NULL};
static const char *const temperatures[] = {"warm", "cold", NULL};
static const char *const schedules[] = {"random", "eager", "lazy", "adversarial", NULL};

#define AT(member) offsetof(struct grsrun_options, member)
static const struct option_info infos[] = {
    {"shape", SHAPE, 0, "M[,M...],N,K", NULL, 0, 0, "K per rank; an M may be FIRST:LAST[xFACTOR|+STEP]; repeatable"},
    {"tp", TP, 0, "R[,R...]", NULL, 0, 0, "ranks (default 1); without --shape: only the config's shapes with these"},
    {"config", TEXT, AT(config_path), "FILE", NULL, 0, 0, "values for the kernel and, without --shape, the shapes"},
    {"backend", CHOICE, AT(backend), "B", backends, 0, 0, "auto: GPUs where there are any, else emulated ranks"},
    {"procs", FLAG, AT(procs), NULL, NULL, 0, 0,
     "a process a rank: started here, or by torchrun, mpirun or srun (with --verify)"},
    {"nodes", NUMBER, AT(nodes), "S", NULL, 1, GRS_MAX_TP,
     "with --procs: S nodes of equal size, NCCL between them; pretended, unless GRS_NODE is set"},
    {"arch", ARCH, 0, "A", NULL, 0, 0, "the device's by default, on emulated ranks the config's"},
    {"verify", FLAG, AT(verify), NULL, NULL, 0, 0, "compare every element of D on every rank (the default)"},
    {"bench", FLAG, AT(bench), NULL, NULL, 0, 0, "time against cuBLAS and, with a GPU a rank, NCCL"},
    {"ablate", FLAG, AT(ablate), NULL, NULL, 0, 0,
     "time the older policies beside ours, and count what each waits for"},
    {"waits", FLAG, AT(waits), NULL, NULL, 0, 0, "with --bench: count the cycles that each role waits, and for what"},
    {"skew", FLAG, AT(skew), NULL, NULL, 0, 0,
     "with --bench: how far apart the ranks begin and end a launch, and stand still between two"},
    {"pace", RATE, AT(pace_gbps), "GBPS", NULL, 0, 0,
     "model a link of so many GB/s a GPU; a rank has its share of it, by SMs"},
    {"precompile", FLAG, AT(precompile), NULL, NULL, 0, 0,
     "only compile what the command would launch, into the cache; needs no GPU"},
    {"json", FLAG, AT(json), NULL, NULL, 0, 0, "one JSON object on standard output, nothing else"},
    {"save", TEXT, AT(save_path), "FILE", NULL, 0, 0, "the same object to a file, if all results are right"},
    {"svg", TEXT, AT(svg_path), "FILE", NULL, 0, 0, "with --bench: chart of the ratio against M; with --ablate: bars"},
    {"seed", SEED, AT(seed), "S", NULL, 0, 0, "of the operands (default 1)"},
    {"repeat", NUMBER, AT(repeat), "N", NULL, 1, 1000000, "launches on the same operands, bitwise equal (default 2)"},
    {"rounds", NUMBER, AT(rounds), "N", NULL, 1, 1000000,
     "times through the shapes, new operands each time (default 1)"},
    {"iters", NUMBER, AT(iters), "N", NULL, 1, 10000, "launches between two events (default 20)"},
    {"l2", CHOICE, AT(l2), "T", temperatures, 0, 0, "cold: operands rotate through more memory than L2 holds"},
    {"ranks-per-gpu", NUMBER, AT(ranks_per_gpu), "N", NULL, 1, 8, "as few as the visible GPUs allow by default"},
    {"sms", NUMBER, AT(sms), "N", NULL, 1, 1024, "SMs a rank may use (default: its share of the GPU)"},
    {"lda", STRIDE, AT(lda), "L", NULL, 0, 0, "leading dimension of A: a number, or +P for K + P"},
    {"ldb", STRIDE, AT(ldb), "L", NULL, 0, 0, "the same for B"},
    {"ldd", STRIDE, AT(ldd), "L", NULL, 0, 0, "the same for D: a number, or +P for N + P"},
    {"guard", FLAG, AT(guard), NULL, NULL, 0, 0,
     "guard zones around A, B, D and the runtime's memory, checked after the launches"},
    {"graph", FLAG, AT(graph), NULL, NULL, 0, 0, "launch by replaying a captured graph"},
    {"ctas", NUMBER, AT(ctas), "N", NULL, 1, 1024, "emulated: CTAs a rank (default 2)"},
    {"schedule", CHOICE, AT(schedule), "S", schedules, 0, 0, "emulated: who runs next"},
    {"runs", NUMBER, AT(runs), "N", NULL, 1, 1000000,
     "emulated: runs of each shape, with seeds S, S + 1, ... (default 1)"},
    {"help", HELP, 0, NULL, NULL, 0, 0, "print this and exit"},
    {"version", VERSION, 0, NULL, NULL, 0, 0, "print the version and exit"},
};
#define INFO_COUNT (sizeof(infos) / sizeof(infos[0]))

static void list_choices(const char *const *choices, struct buf *out) {
    for (int i = 0; choices[i]; i++) {
        buf_printf(out, "%s%s", i ? ", " : "", choices[i]);
    }
}

void grsrun_options_help(struct buf *out) {
    buf_puts(out, "usage: grsrun --shape M,N,K --tp R [options]\n"
                  "       grsrun --config FILE [options]\n\n"
                  "Launches the kernel for each shape across the ranks and verifies or times it.\n\n");
    for (size_t i = 0; i < INFO_COUNT; i++) {
        const struct option_info *info = &infos[i];
        struct buf left = {0};
        buf_printf(&left, "--%s%s%s", info->name, info->argument ? " " : "", info->argument ? info->argument : "");
        buf_printf(out, "  %-22s %s", left.data ? left.data : info->name, info->help);
        if (info->choices) {
            buf_puts(out, " (");
            list_choices(info->choices, out);
            buf_puts(out, ")");
        }
        buf_puts(out, "\n");
        buf_free(&left);
    }
    buf_puts(out, "\nExit codes: 0 done; 1 the work failed; 2 the command line or the config is wrong.\n");
}

/* A decimal number in [min, max] and nothing else; `end` NULL: up to the end of the text. */
static bool parse_number(const char *text, const char **end, int64_t min, int64_t max, int64_t *out) {
    if (*text < '0' || *text > '9') {
        return false;
    }
    char *stop;
    errno = 0;
    long long value = strtoll(text, &stop, 10);
    if (errno || value < min || value > max || (!end && *stop)) {
        return false;
    }
    if (end) {
        *end = stop;
    }
    *out = value;
    return true;
}

static grs_status add_shape(struct grsrun_options *out, struct grsrun_shape shape, grs_error *err) {
    if (out->shape_count == SHAPES_MAX) {
        return error_set(err, GRS_ERR_ARGUMENT, "more than %d shapes in one command", SHAPES_MAX);
    }
    struct grsrun_shape *grown = realloc(out->shapes, (out->shape_count + 1) * sizeof(*grown));
    if (!grown) {
        return error_set(err, GRS_ERR_MEMORY, "no memory for %zu shapes", out->shape_count + 1);
    }
    out->shapes = grown;
    out->shapes[out->shape_count++] = shape;
    return GRS_OK;
}

/* One M item: [*first, *last] and how to get from one to the next (next = value · factor + step). */
static bool parse_m(const char *text, const char **end, int64_t *first, int64_t *last, int64_t *factor, int64_t *step) {
    if (!parse_number(text, end, 1, SIZE_LIMIT, first)) {
        return false;
    }
    *last = *first, *factor = 2, *step = 0;
    if (**end != ':') {
        return true;
    }
    if (!parse_number(*end + 1, end, *first, SIZE_LIMIT, last)) {
        return false;
    }
    if (**end == 'x') {
        return parse_number(*end + 1, end, 2, SIZE_LIMIT, factor);
    }
    if (**end == '+') {
        *factor = 1;
        return parse_number(*end + 1, end, 1, SIZE_LIMIT, step);
    }
    return true;
}

grs_status grsrun_options_parse_shape(const char *text, struct grsrun_options *out, grs_error *err) {
    static const char allowed[] =
        "allowed is M[,M...],N,K with M from 1 or FIRST:LAST[xFACTOR|+STEP], N and K multiples of 8";
    /* N and K are the last two items. */
    const char *tail[2] = {NULL, NULL};
    for (const char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
        tail[0] = tail[1];
        tail[1] = comma;
    }
    struct grsrun_shape shape = {0};
    const char *end = text;
    if (!tail[0] || !parse_number(tail[0] + 1, &end, 8, SIZE_LIMIT, &shape.n) || end != tail[1] ||
        !parse_number(tail[1] + 1, NULL, 8, SIZE_LIMIT, &shape.k)) {
        return error_set(err, GRS_ERR_ARGUMENT, "--shape: '%s' is not a shape; %s", text, allowed);
    }
    if (shape.n % 8 || shape.k % 8) {
        return error_set(err, GRS_ERR_ARGUMENT, "--shape: '%s': %c = %" PRId64 " is not a multiple of 8", text,
                         shape.n % 8 ? 'N' : 'K', shape.n % 8 ? shape.n : shape.k);
    }
    for (const char *item = text; item <= tail[0]; item = end + 1) {
        int64_t first, last, factor, step;
        if (!parse_m(item, &end, &first, &last, &factor, &step) || *end != ',') {
            return error_set(err, GRS_ERR_ARGUMENT, "--shape: '%s': bad M at '%s'; %s", text, item, allowed);
        }
        for (int64_t m = first; m <= last; m = m * factor + step) {
            shape.m = m;
            grs_status status = add_shape(out, shape, err);
            if (status) {
                return status;
            }
        }
    }
    return GRS_OK;
}

/* Ranks asked for, in the order given. */
struct tp_list {
    int count, tp[GRS_MAX_TP];
};

static grs_status parse_tp(const char *text, struct tp_list *list, grs_error *err) {
    const char *end = text;
    list->count = 0;
    for (const char *item = text;; item = end + 1) {
        int64_t tp;
        if (list->count == GRS_MAX_TP || !parse_number(item, &end, 1, GRS_MAX_TP, &tp) || (*end && *end != ',')) {
            return error_set(err, GRS_ERR_ARGUMENT, "--tp: '%s' is not a list of numbers from 1 to %d", text,
                             GRS_MAX_TP);
        }
        list->tp[list->count++] = (int)tp;
        if (!*end) {
            return GRS_OK;
        }
    }
}

static grs_status parse_stride(const char *name, const char *text, struct grsrun_stride *out, grs_error *err) {
    out->is_absolute = *text != '+';
    if (!parse_number(text + !out->is_absolute, NULL, 0, SIZE_LIMIT, &out->value) || out->value % 8 ||
        (out->is_absolute && out->value == 0)) {
        return error_set(err, GRS_ERR_ARGUMENT, "--%s: '%s' is neither a multiple of 8 nor '+' and one", name, text);
    }
    return GRS_OK;
}

static grs_status parse_choice(const struct option_info *info, const char *text, int *out, grs_error *err) {
    for (int i = 0; info->choices[i]; i++) {
        if (!strcmp(text, info->choices[i])) {
            *out = i;
            return GRS_OK;
        }
    }
    struct buf list = {0};
    list_choices(info->choices, &list);
    error_set(err, GRS_ERR_ARGUMENT, "--%s: '%s' is none of %s", info->name, text, list.data ? list.data : "");
    buf_free(&list);
    return GRS_ERR_ARGUMENT;
}

static grs_status parse_arch(const char *text, struct grsrun_options *out, grs_error *err) {
    out->has_arch = config_arch_parse(text, &out->arch);
    if (out->has_arch) {
        return GRS_OK;
    }
    struct buf list = {0};
    config_archs_text(ARCH_COUNT, &list);
    error_set(err, GRS_ERR_ARGUMENT, "--arch: '%s' is none of %s", text, list.data ? list.data : "");
    buf_free(&list);
    return GRS_ERR_ARGUMENT;
}

static grs_status parse_seed(const char *text, uint64_t *out, grs_error *err) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (*text < '0' || *text > '9' || *end || errno) {
        return error_set(err, GRS_ERR_ARGUMENT, "--seed: '%s' is not a number from 0 to 2^64 - 1", text);
    }
    *out = value;
    return GRS_OK;
}

/* A decimal number without sign or exponent, whatever the locale. */
static grs_status parse_rate(const char *name, const char *text, double *out, grs_error *err) {
    double value = 0, unit = 1;
    bool point = false, digits = false;
    const char *at = text;
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && !point); at++) {
        if (*at == '.') {
            point = true;
        } else {
            digits = true;
            unit = point ? unit / 10 : unit;
            value = point ? value + (*at - '0') * unit : value * 10 + (*at - '0');
        }
    }
    if (*at || !digits || value < 0.1 || value > 1e5) {
        return error_set(err, GRS_ERR_ARGUMENT, "--%s: '%s' is not a rate from 0.1 to 100000", name, text);
    }
    *out = value;
    return GRS_OK;
}

static grs_status apply(const struct option_info *info, const char *text, struct grsrun_options *out,
                        struct tp_list *tps, enum options_request *request, grs_error *err) {
    void *member = (char *)out + info->offset;
    int64_t number;
    switch (info->kind) {
    case FLAG: *(bool *)member = true; return GRS_OK;
    case TEXT: *(const char **)member = text; return GRS_OK;
    case NUMBER:
        if (!parse_number(text, NULL, info->min, info->max, &number)) {
            return error_set(err, GRS_ERR_ARGUMENT, "--%s: '%s' is not a number from %d to %d", info->name, text,
                             info->min, info->max);
        }
        *(int *)member = (int)number;
        return GRS_OK;
    case RATE: return parse_rate(info->name, text, member, err);
    case SEED: return parse_seed(text, member, err);
    case CHOICE: return parse_choice(info, text, member, err);
    case STRIDE: return parse_stride(info->name, text, member, err);
    case ARCH: return parse_arch(text, out, err);
    case SHAPE: return grsrun_options_parse_shape(text, out, err);
    case TP: return parse_tp(text, tps, err);
    case HELP: *request = OPTIONS_HELP; return GRS_OK;
    case VERSION: *request = OPTIONS_VERSION; return GRS_OK;
    }
    return error_set(err, GRS_ERR_ARGUMENT, "--%s: unknown kind of option", info->name);
}

/* getopt_long's table, made from ours: an option's index is its place in `infos`. */
static grs_status parse_command_line(int argc, char **argv, struct grsrun_options *out, struct tp_list *tps,
                                     enum options_request *request, grs_error *err) {
    struct option table[INFO_COUNT + 1] = {{0}};
    for (size_t i = 0; i < INFO_COUNT; i++) {
        table[i] = (struct option){infos[i].name, infos[i].argument ? required_argument : no_argument, NULL, 0};
    }
    optind = 0; /* start anew, whatever was parsed before */
    opterr = 0;
    for (;;) {
        int index = -1, c = getopt_long(argc, argv, ":", table, &index);
        if (c == -1) {
            break;
        }
        if (c == ':') {
            return error_set(err, GRS_ERR_ARGUMENT, "%s needs an argument; see grsrun --help", argv[optind - 1]);
        }
        if (c != 0) {
            return error_set(err, GRS_ERR_ARGUMENT, "unknown or ambiguous option '%s'; see grsrun --help",
                             argv[optind - 1]);
        }
        grs_status status = apply(&infos[index], optarg, out, tps, request, err);
        if (status) {
            return status;
        }
    }
    if (optind < argc) {
        return error_set(err, GRS_ERR_ARGUMENT, "unexpected argument '%s'; see grsrun --help", argv[optind]);
    }
    return GRS_OK;
}

/* Shapes from the command line times the list of tp. */
static grs_status multiply_tp(struct grsrun_options *out, const struct tp_list *tps, grs_error *err) {
    size_t count = out->shape_count;
    for (int i = 1; i < tps->count; i++) {
        for (size_t s = 0; s < count; s++) {
            struct grsrun_shape shape = out->shapes[s];
            shape.tp = tps->tp[i];
            grs_status status = add_shape(out, shape, err);
            if (status) {
                return status;
            }
        }
    }
    for (size_t s = 0; s < count; s++) {
        out->shapes[s].tp = tps->count ? tps->tp[0] : 1;
    }
    return GRS_OK;
}

static grs_status take_config_shapes(struct grsrun_options *out, const struct tp_list *tps, grs_error *err) {
    for (size_t s = 0; s < out->config->shape_count; s++) {
        const struct config_shape *from = &out->config->shapes[s];
        bool wanted = tps->count == 0;
        for (int i = 0; i < tps->count; i++) {
            wanted |= tps->tp[i] == from->tp;
        }
        grs_status status =
            wanted ? add_shape(out, (struct grsrun_shape){from->m, from->n, from->k, from->tp}, err) : GRS_OK;
        if (status) {
            return status;
        }
    }
    if (out->shape_count == 0) {
        return error_set(err, GRS_ERR_ARGUMENT, "%s: no shape%s; give one with --shape M,N,K", out->config_path,
                         tps->count ? " with that tp" : "");
    }
    return GRS_OK;
}

grs_status grsrun_options_parse(int argc, char **argv, struct grsrun_options *out, enum options_request *request,
                                grs_error *err) {
    *out = (struct grsrun_options){.seed = 1, .rounds = 1, .repeat = 2, .iters = 20, .ctas = 2, .runs = 1};
    *request = OPTIONS_RUN;
    struct tp_list tps = {0};
    grs_status status = parse_command_line(argc, argv, out, &tps, request, err);
    if (status || *request != OPTIONS_RUN) {
        return status;
    }
    out->verify |= !out->bench && !out->ablate;
    if (!out->shapes && !out->config_path) {
        return error_set(err, GRS_ERR_ARGUMENT,
                         "nothing to run: give --shape M,N,K or --config FILE; see grsrun --help");
    }
    status = out->config_path ? config_load(out->config_path, &out->config, err) : config_defaults(&out->config, err);
    if (!status) {
        status = out->shapes ? multiply_tp(out, &tps, err) : take_config_shapes(out, &tps, err);
    }
    return status ? status : grsrun_options_check(out, err);
}

void grsrun_options_free(struct grsrun_options *options) {
    config_free(options->config);
    free(options->shapes);
    options->config = NULL;
    options->shapes = NULL;
}
