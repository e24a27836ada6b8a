/* grsgen cache: look at, check, clean up, pack and unpack the kernel cache. This file reads the command line and has the
 * commands that change something; grsgen_cache_list.c has those that look. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/pack.h"
#include "common/error.h"
#include "tools/grsgen.h"
#include "tools/grsgen_cache.h"
#include "tools/grsgen_json.h"

static const struct log stderr_log = {.sink = log_stderr, .level = GRS_LOG_WARN};

static int no_directory(const struct cache_command *command) {
    return fail(GRSGEN_FAILED, "there is no cache directory: %s; set GRS_CACHE_DIR", command->settings.why);
}

static int show_path(const struct cache_command *command) {
    const char *dir = command->settings.dir;
    struct buf out = {0};
    if (command->json) {
        json_t *shared = json_array();
        for (char **at = command->settings.ro_dirs; at && *at; at++)
            json_array_append_new(shared, json_string(*at));
        return json_print(json_pack("{s:s?, s:s, s:o, s:I}", "dir", dir, "why", dir ? "" : command->settings.why,
                                    "ro_dirs", shared, "max_bytes", (json_int_t)command->settings.max_bytes));
    }
    if (!dir)
        return no_directory(command);
    buf_printf(&out, "%s\n", dir);
    return print_buf(&out);
}

/* What prune and clear say they did. */
static int print_report(const struct cache_command *command, const struct evict_report *report) {
    struct buf out = {0};
    if (command->json)
        return json_print(json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:I}", "dir", command->settings.dir, "removed",
                                    report->removed, "damaged", report->aside, "temporary", report->stale, "in_use",
                                    report->in_use, "freed_bytes", (json_int_t)report->freed, "entries",
                                    (json_int_t)report->entries, "bytes", (json_int_t)report->bytes));
    buf_printf(&out, "removed %d entr%s, %d damaged, %d left-over temporary file%s: ", report->removed,
               report->removed == 1 ? "y" : "ies", report->aside, report->stale, report->stale == 1 ? "" : "s");
    cache_print_bytes(&out, report->freed);
    buf_printf(&out, "; %lld left, ", (long long)report->entries);
    cache_print_bytes(&out, report->bytes);
    buf_printf(&out, " in %s\n", command->settings.dir);
    return print_buf(&out);
}

static int change(const struct cache_command *command, bool all) {
    struct evict_report report;
    grs_error err;
    if (!command->settings.dir)
        return no_directory(command);
    grs_status status = all ? admin_clear(command->settings.dir, &report, &err)
                            : admin_prune(command->settings.dir, command->settings.max_bytes, &report, &err);
    return status == GRS_OK ? print_report(command, &report) : fail_with(GRSGEN_FAILED, &err);
}

static int prune(const struct cache_command *command) {
    return change(command, false);
}

static int clear(const struct cache_command *command) {
    return change(command, true);
}

/* ---------------------------------------------------------------- packs ------------------------------------------ */

static bool wanted(const struct cache_command *command, const struct cache_row *row, bool *found) {
    bool chosen = command->count == 1;
    for (int i = 1; i < command->count; i++)
        if (!strncmp(row->key, command->arguments[i], strlen(command->arguments[i])))
            chosen = found[i] = true;
    /* An entry that cannot be read has no arch: it is chosen, and then refused, rather than silently left out. */
    return chosen && row->kind == STORE_ENTRY && (!command->arch || !row->arch || !strcmp(row->arch, command->arch));
}

static int print_pack(const struct cache_command *command, const struct pack_report *report, bool unpacked) {
    struct buf out = {0};
    const char *file = command->arguments[0];
    if (command->json)
        return json_print(json_pack("{s:s, s:s?, s:i, s:i, s:I}", "file", file, "dir", command->settings.dir, "entries",
                                    report->entries, "already_there", report->present, "bytes",
                                    (json_int_t)report->bytes));
    buf_printf(&out, "%d entr%s, ", report->entries, report->entries == 1 ? "y" : "ies");
    cache_print_bytes(&out, report->bytes);
    if (unpacked)
        buf_printf(&out, ", from %s into %s (%d already there)\n", file, command->settings.dir, report->present);
    else
        buf_printf(&out, " in %s\n", file);
    return print_buf(&out);
}

static int pack(const struct cache_command *command) {
    struct cache_rows rows;
    struct pack_report report;
    grs_error err;
    size_t count = 0;
    int code = cache_rows_collect(command, &rows);
    const char **names = calloc(rows.count + 1, sizeof *names);
    bool *found = calloc((size_t)command->count, sizeof *found);
    if (!code && (!names || !found))
        code = fail(GRSGEN_FAILED, "out of memory for %zu entries", rows.count);
    for (size_t i = 0; !code && i < rows.count; i++)
        if (wanted(command, &rows.row[i], found) && (!count || strcmp(names[count - 1], rows.row[i].key)))
            names[count++] = rows.row[i].key;
    for (int i = 1; !code && i < command->count; i++)
        if (!found[i])
            code = fail(GRSGEN_FAILED, "no entry's key starts with '%s'", command->arguments[i]);
    if (!code && !count)
        code = fail(GRSGEN_FAILED, "there is no entry to pack");
    if (!code && pack_write(command->arguments[0], command->dirs, names, count, &report, &err) != GRS_OK)
        code = fail_with(GRSGEN_FAILED, &err);
    if (!code)
        code = print_pack(command, &report, false);
    free(names);
    free(found);
    cache_rows_free(&rows);
    return code;
}

static int unpack(const struct cache_command *command) {
    struct pack_report report;
    grs_error err;
    if (!command->settings.dir)
        return no_directory(command);
    if (pack_read(command->arguments[0], command->settings.dir, command->settings.max_bytes, &report, &err) != GRS_OK)
        return fail_with(GRSGEN_FAILED, &err);
    return print_pack(command, &report, true);
}

/* ---------------------------------------------------------------- command line ----------------------------------- */

enum { TAKES_PART = 1, TAKES_ARCH = 2, TAKES_MAX = 4 };

static const struct {
    const char *name, *arguments, *help;
    int (*run)(const struct cache_command *command);
    int least, most; /* arguments; most < 0: any number */
    int options;
    int first_key; /* which arguments are keys: those from here on; -1: none */
} commands[] = {
    {"path", "", "where the cache is", show_path, 0, 0, 0, -1},
    {"list", "[--arch A]", "its entries: arch, shape, config, size, age, last use, compiler", cache_list, 0, 0,
     TAKES_ARCH, -1},
    {"show", "KEY [--part P]", "one entry; P: key, config, meta, source, ptx, cubin or log, written as it is",
     cache_show, 1, 1, TAKES_PART, 0},
    {"verify", "", "check every entry; exit code 1 when one is damaged", cache_verify, 0, 0, 0, -1},
    {"prune", "[--max SIZE]", "remove what is damaged or left over, and the least recently used beyond the bound",
     prune, 0, 0, TAKES_MAX, -1},
    {"clear", "", "remove every entry", clear, 0, 0, 0, -1},
    {"pack", "FILE [KEY...] [--arch A]", "write entries (all, or those chosen) to one file", pack, 1, -1, TAKES_ARCH,
     1},
    {"unpack", "FILE", "check such a file and take its entries into the cache", unpack, 1, 1, 0, -1},
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static void print_help(void) {
    printf("usage: grsgen cache COMMAND [--json]\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-6s %-25s %s\n", commands[i].name, commands[i].arguments, commands[i].help);
    printf("\nKEY: the first digits (%d or more) of an entry's key. The cache is in GRS_CACHE_DIR, else "
           "XDG_CACHE_HOME/grs,\n"
           "else HOME/.cache/grs; GRS_CACHE_RO_DIRS names shared directories, GRS_CACHE_MAX the bound (default 2G).\n"
           "Exit codes: 0 done; 1 the work failed; 2 the command line is wrong.\n",
           CACHE_MIN_DIGITS);
}

static int no_option(const char *command, const char *option) {
    return fail(GRSGEN_USAGE, "cache %s: --%s is not possible here; see grsgen cache --help", command, option);
}

static int read_options(int argc, char **argv, size_t which, struct cache_command *out, int64_t *max) {
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},       {"part", required_argument, NULL, 'p'},
        {"arch", required_argument, NULL, 'a'}, {"max", required_argument, NULL, 'm'},
        {"help", no_argument, NULL, 'h'},       {0},
    };
    const char *name = commands[which].name;
    int takes = commands[which].options;
    enum arch arch;
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;)
        switch (option) {
        case 'j': out->json = true; break;
        case 'p':
            if (!(takes & TAKES_PART))
                return no_option(name, "part");
            out->part = optarg;
            break;
        case 'a':
            if (!(takes & TAKES_ARCH))
                return no_option(name, "arch");
            if (!options_read_arch(optarg, &arch))
                return GRSGEN_USAGE;
            out->arch = config_arch_name(arch);
            break;
        case 'm':
            if (!(takes & TAKES_MAX))
                return no_option(name, "max");
            if (!settings_parse_size(optarg, max))
                return fail(GRSGEN_USAGE, "--max: '%s' is not possible, allowed: bytes from 1, or with K, M, G, T",
                            optarg);
            break;
        case 'h': print_help(); exit(GRSGEN_OK);
        default: return GRSGEN_USAGE; /* getopt has said why */
        }
    out->arguments = argv + optind;
    out->count = argc - optind;
    if (out->count < commands[which].least || (commands[which].most >= 0 && out->count > commands[which].most))
        return fail(GRSGEN_USAGE, "usage: grsgen cache %s %s [--json]", name, commands[which].arguments);
    for (int i = commands[which].first_key; i >= 0 && i < out->count; i++) {
        const char *key = out->arguments[i];
        size_t length = strlen(key);
        if (length < CACHE_MIN_DIGITS || length > HASH_HEX_LENGTH || strspn(key, "0123456789abcdef") != length)
            return fail(GRSGEN_USAGE,
                        "'%s' is not a key, allowed: the first %d to %d digits of one in grsgen cache list", key,
                        CACHE_MIN_DIGITS, HASH_HEX_LENGTH);
    }
    return GRSGEN_OK;
}

int grsgen_cache_main(int argc, char **argv) {
    struct cache_options options = {.log = &stderr_log};
    struct cache_command command = {0};
    grs_error err;
    size_t which = 0;
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help();
        return argc < 2 ? GRSGEN_USAGE : GRSGEN_OK;
    }
    while (which < COMMAND_COUNT && strcmp(argv[1], commands[which].name))
        which++;
    if (which == COMMAND_COUNT)
        return fail(GRSGEN_USAGE, "cache: '%s' is no command; see grsgen cache --help", argv[1]);
    int code = read_options(argc - 1, argv + 1, which, &command, &options.max_bytes);
    if (code)
        return code;
    if (settings_resolve(&options, &command.settings, &err) != GRS_OK)
        return fail_with(GRSGEN_FAILED, &err);
    size_t shared = 0, count = 0;
    while (command.settings.ro_dirs && command.settings.ro_dirs[shared])
        shared++;
    const char **dirs = calloc(shared + 2, sizeof *dirs);
    if (dirs) {
        dirs[count++] = command.settings.dir ? command.settings.dir : "";
        for (size_t i = 0; i < shared; i++)
            dirs[count++] = command.settings.ro_dirs[i];
        command.dirs = dirs;
        code = commands[which].run(&command);
    } else {
        code = fail(GRSGEN_FAILED, "out of memory");
    }
    free(dirs);
    settings_free(&command.settings);
    return code;
}
