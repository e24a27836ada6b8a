#include "tools/grsrun.h"

#include <stdio.h>

#include "tools/grsrun_gpu.h"
#include "tools/grsrun_options.h"

/* A build without the emulator has no such part. */
__attribute__((weak)) int grsrun_emu_main(const struct grsrun_options *options);

/* auto: GPUs where there are any. Timing needs them, so it asks for them and fails by name where there are none. */
static int dispatch(struct grsrun_options *options) {
    grs_error err;
    if (options->precompile) {
        return grsrun_precompile_main(options);
    }
    if (options->procs) {
        return grsrun_procs_main(options);
    }
    if (options->backend == BACKEND_AUTO) {
        bool needs_gpu = options->bench || options->ablate || options->pace_gbps > 0;
        options->backend = needs_gpu || gpu_count(&err) ? BACKEND_GPU : BACKEND_EMU;
        if (options->backend == BACKEND_EMU) {
            fprintf(stderr, "# no GPU, so on emulated ranks: %s\n", err.text);
        }
    }
    if (options->backend == BACKEND_EMU && !grsrun_emu_main) {
        fprintf(stderr, "grsrun: this build has no emulator\n");
        return GRSRUN_FAILED;
    }
    return options->backend == BACKEND_GPU ? grsrun_gpu_main(options) : grsrun_emu_main(options);
}

int main(int argc, char **argv) {
    struct grsrun_options options;
    enum options_request request;
    grs_error err;
    int code = GRSRUN_OK;
    grs_status status = grsrun_options_parse(argc, argv, &options, &request, &err);
    if (status) {
        fprintf(stderr, "grsrun: %s\n", err.text);
        code = status == GRS_ERR_MEMORY ? GRSRUN_FAILED : GRSRUN_USAGE;
    } else if (request == OPTIONS_HELP) {
        struct buf help = {0};
        grsrun_options_help(&help);
        fputs(help.data ? help.data : "", stdout);
        buf_free(&help);
    } else if (request == OPTIONS_VERSION) {
        printf("grsrun %s\n", grs_version());
    } else {
        code = dispatch(&options);
    }
    grsrun_options_free(&options);
    return code;
}
