/* Keys that are being looked up or made in this process: one thread leads, those that come meanwhile wait for its result. */
#ifndef GRS_CACHE_FLIGHT_H
#define GRS_CACHE_FLIGHT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/hash.h"
#include "grs.h"

struct flight;

struct flights {
    pthread_mutex_t mutex; /* also guards the few other things that its owner changes; held for moments only */
    pthread_cond_t landed;
    struct flight *first;
    struct flights *next; /* every table of the process: a fork must leave none of them locked */
};

void flights_init(struct flights *flights);
void flights_destroy(struct flights *flights);

/* What a leader brings home. */
struct landing {
    grs_status status;
    void *image; /* a malloc'ed copy for whoever asks; NULL on failure */
    size_t size;
};

/* True: the caller leads and must end with flight_land; false: somebody else does, call flight_wait. *out is NULL when
 * memory is exhausted. */
bool flight_join(struct flights *flights, const char *name, struct flight **out);

/* Wait for the leader; the landing's image is the caller's, and on failure `err` is the leader's error. */
struct landing flight_wait(struct flights *flights, struct flight *flight, grs_error *err);

/* Hand the result (copied if anybody waits) or the error to those that wait. */
void flight_land(struct flights *flights, struct flight *flight, grs_status status, const void *image, size_t size,
                 const grs_error *err);

/* The leader holds this lock file now (-1: no longer): a child that is forked meanwhile closes its copy, which would
 * otherwise hold the lock beyond the leader's death. */
void flight_note_lock(struct flights *flights, struct flight *flight, int fd);

#endif
