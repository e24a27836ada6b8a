/* Plan → CUDA text. The generated file is a config struct and an entry; templates come as in-memory headers. */
#ifndef GRS_GENERATOR_EMIT_H
#define GRS_GENERATOR_EMIT_H

#include "common/buf.h"
#include "generator/plan.h"

/* The generated file: `#include "grs/…"`, struct Config, one extern "C" entry named plan->name. Byte-identical from run
 * to run and under any locale. */
grs_status emit_entry(const struct plan *plan, struct buf *out, grs_error *err);
/* What the kernel is, in lines that begin with "//": for people, at the head of CUDA and PTX text. `key` is the cache entry's
 * and `compiler` what made the PTX ("NVRTC 13.0"); NULL: not said. */
void emit_comment(const struct plan *plan, const char *key, const char *compiler, struct buf *out);
/* The comment, and the entry with every template inlined: one standalone file that nvcc accepts. */
grs_status emit_standalone(const struct plan *plan, const char *key, struct buf *out, grs_error *err);

/* The templates, embedded. `name` is as included: "grs/ring.cuh". */
struct emit_header {
    const char *name;
    const char *text;
};
extern const struct emit_header emit_headers[]; /* ends with a NULL name */

/* Hex SHA-256 over the generated text and every header it includes. */
void emit_digest(const struct plan *plan, const struct buf *entry, char hex[65]);

#endif
