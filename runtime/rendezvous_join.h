/* What rendezvous.c and rendezvous_join.c share. */
#ifndef GRS_RUNTIME_RENDEZVOUS_JOIN_H
#define GRS_RUNTIME_RENDEZVOUS_JOIN_H

#include "runtime/rendezvous.h"

enum rendezvous_progress { RENDEZVOUS_DONE, RENDEZVOUS_TIMEOUT, RENDEZVOUS_GONE };

/* All `bytes`, before the deadline. */
enum rendezvous_progress rendezvous_read(int file, void *data, size_t bytes, const struct deadline *deadline);
enum rendezvous_progress rendezvous_write(int file, const void *data, size_t bytes, const struct deadline *deadline);

/* GRS_ERR_TIMEOUT of a rank that rank 0 does not answer. */
grs_status rendezvous_no_answer(const struct rendezvous *rendezvous, grs_error *err);

/* rendezvous_join.c: until every rank is there (`file` of rank 0), or this one is in (`file[0]`). The caller closes `listener`. */
grs_status rendezvous_join(struct rendezvous *rendezvous, const char *address, int port, grs_error *err);

#endif
