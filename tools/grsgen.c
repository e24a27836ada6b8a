/* grsgen: configs in, kernels (and explanations of them) out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/grsgen.h"

int main(int argc, char **argv) {
    struct grsgen_options options;
    if (argc > 1 && !strcmp(argv[1], "cache"))
        return grsgen_cache_main(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "doctor"))
        return grsgen_doctor(argc - 1, argv + 1);
    /* Configs are named on the command line here; one from the environment would only surprise. */
    unsetenv("GRS_CONFIG");
    if (argc == 1) {
        options_print_help();
        return GRSGEN_USAGE;
    }
    if (!options_read(argc, argv, &options))
        return GRSGEN_USAGE;
    switch (options.command) {
    case COMMAND_PRECOMPILE: return grsgen_precompile(&options);
    case COMMAND_CHECK: return grsgen_check(&options);
    case COMMAND_EXPLAIN: return grsgen_explain(&options);
    case COMMAND_EMIT: return grsgen_emit(&options);
    case COMMAND_SCHEMA: return grsgen_schema(&options);
    case COMMAND_INIT: return grsgen_init(&options);
    case COMMAND_DIFF: return grsgen_diff(&options);
    case COMMAND_HELP: options_print_help(); return GRSGEN_OK;
    case COMMAND_VERSION: printf("grsgen %s\n", grs_version()); return GRSGEN_OK;
    }
    return GRSGEN_USAGE;
}
