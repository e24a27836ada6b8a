/* grsgen doctor: what was found on this machine, what is missing, and how to get it. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/doctor.h"
#include "tools/grsgen.h"
#include "tools/grsgen_json.h"

static const char allowed[] = "--config FILE, --arch A, --json, --help";

static int print_rows(const struct doctor *doctor) {
    struct buf out = {0};
    int width = 0, missing = 0;
    for (int i = 0; i < doctor->count; i++) {
        int length = (int)strlen(doctor->rows[i].what);
        width = length > width ? length : width;
        missing += doctor->rows[i].state == DOCTOR_MISSING;
    }
    for (int i = 0; i < doctor->count; i++) {
        const struct doctor_row *row = &doctor->rows[i];
        buf_printf(&out, "%-7s  %-*s  %s\n", doctor_state_name(row->state), width, row->what, row->found);
        if (row->remedy)
            buf_printf(&out, "%-7s  %-*s  -> %s\n", "", width, "", row->remedy);
    }
    if (missing)
        buf_printf(&out, "%d of %d missing\n", missing, doctor->count);
    else
        buf_puts(&out, "all that is needed is there\n");
    return print_buf(&out);
}

static int print_json(const struct doctor *doctor) {
    json_t *rows = json_array();
    for (int i = 0; i < doctor->count; i++) {
        const struct doctor_row *row = &doctor->rows[i];
        json_array_append_new(rows,
                              json_pack("{s:s, s:s, s:s, s:s?}", "what", row->what, "state",
                                        doctor_state_name(row->state), "found", row->found, "remedy", row->remedy));
    }
    return json_print(json_pack("{s:s, s:s, s:b, s:o}", "kind", "doctor", "version", grs_version(), "passes",
                                doctor_passes(doctor), "rows", rows));
}

int grsgen_doctor(int argc, char **argv) {
    static const struct option table[] = {{"config", required_argument, NULL, 'c'},
                                          {"arch", required_argument, NULL, 'a'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    bool json = false;
    enum arch arch;
    optind = 0;
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":h", table, NULL)) != -1;) {
        if (c == 'h') {
            printf(
                "usage: grsgen doctor [--config FILE] [--arch A] [--json]\n\n"
                "Says what grs finds on this machine, what is missing for the config (default: $GRS_CONFIG, else the\n"
                "planner's choices) and the arch (default: $GRS_ARCH, else the GPU's, else the config's), and how to\n"
                "get it. Exit code 1 when something that is needed is missing.\n");
            return GRSGEN_OK;
        } else if (c == 'j') {
            json = true;
        } else if (c == 'c') {
            setenv("GRS_CONFIG", optarg, 1);
        } else if (c == 'a') {
            if (!options_read_arch(optarg, &arch))
                return GRSGEN_USAGE;
            setenv("GRS_ARCH", config_arch_name(arch), 1);
        } else {
            return fail(GRSGEN_USAGE, "doctor: '%s' is wrong, allowed: %s", argv[optind - 1], allowed);
        }
    }
    if (optind < argc)
        return fail(GRSGEN_USAGE, "doctor: unexpected argument '%s', allowed: %s", argv[optind], allowed);
    struct doctor doctor;
    doctor_examine(&doctor);
    int code = doctor.failed ? fail(GRSGEN_FAILED, "out of memory") : json ? print_json(&doctor) : print_rows(&doctor);
    if (!code && !doctor_passes(&doctor))
        code = GRSGEN_FAILED;
    doctor_free(&doctor);
    return code;
}
