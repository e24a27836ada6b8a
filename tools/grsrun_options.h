/* The command line of grsrun. One table describes every option: it drives the parser, its messages and --help. */
#ifndef GRS_TOOLS_GRSRUN_OPTIONS_H
#define GRS_TOOLS_GRSRUN_OPTIONS_H

#include "common/buf.h"
#include "tools/grsrun.h"

enum options_request { OPTIONS_RUN = 0, OPTIONS_HELP, OPTIONS_VERSION };

/* Parses the command line and, where it names one, the config; shapes come from --shape, else from the config. A failure
 * (GRS_ERR_ARGUMENT, or what config_load returns) names the option, what is wrong and what is allowed: exit code 2.
 * `out` is filled either way; free it with grsrun_options_free. With a request other than OPTIONS_RUN it holds no shapes. */
grs_status grsrun_options_parse(int argc, char **argv, struct grsrun_options *out, enum options_request *request,
                                grs_error *err);
void grsrun_options_free(struct grsrun_options *options);
/* What depends on more than one option; GRS_ERR_ARGUMENT as above. */
grs_status grsrun_options_check(const struct grsrun_options *options, grs_error *err);

void grsrun_options_help(struct buf *out);

/* "M[,M...],N,K", where an M may be FIRST:LAST (doubling), FIRST:LASTxFACTOR or FIRST:LAST+STEP: appends one shape for each
 * M, with tp 0. */
grs_status grsrun_options_parse_shape(const char *text, struct grsrun_options *out, grs_error *err);

#endif
