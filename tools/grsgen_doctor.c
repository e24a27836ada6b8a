/* grsgen doctor: what is here, what is missing, and what to do about it. */
#include <stdio.h>
#include <string.h>

#include "runtime/doctor.h"
#include "tools/grsgen.h"
#include "tools/grsgen_json.h"

static int print_rows(const struct doctor *doctor) {
    struct buf out = {0};
    for (int i = 0; i < doctor->count; i++) {
        const struct doctor_row *row = &doctor->rows[i];
        buf_printf(&out, "%-8s %-15s %s\n", doctor_state_name(row->state), row->what, row->found);
        if (row->remedy)
            buf_printf(&out, "%-8s %-15s   -> %s\n", "", "", row->remedy);
    }
    return print_buf(&out);
}

static int print_rows_json(const struct doctor *doctor) {
    json_t *rows = json_array();
    for (int i = 0; i < doctor->count; i++) {
        const struct doctor_row *row = &doctor->rows[i];
        json_array_append_new(rows,
                              json_pack("{s:s, s:s, s:s, s:s?}", "what", row->what, "state",
                                        doctor_state_name(row->state), "found", row->found, "remedy", row->remedy));
    }
    return json_print(json_pack("{s:s, s:s, s:b, s:o}", "kind", "doctor", "version", grs_version(), "ok",
                                doctor_passes(doctor), "rows", rows));
}

int grsgen_doctor(int argc, char **argv) {
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") != 0)
            return fail(GRSGEN_USAGE, "doctor: unknown argument %s, allowed: --json", argv[i]);
        json = true;
    }
    struct doctor doctor;
    doctor_examine(&doctor);
    int code = doctor.failed ? fail(GRSGEN_FAILED, "out of memory")
               : json        ? print_rows_json(&doctor)
                             : print_rows(&doctor);
    if (!code && !doctor_passes(&doctor))
        code = GRSGEN_FAILED;
    doctor_free(&doctor);
    return code;
}
