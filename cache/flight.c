#include "cache/flight.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"

struct flight {
    char name[HASH_HEX_LENGTH + 1];
    struct flight *next;
    pthread_t leader;
    int users;   /* leader and waiters; the last one frees */
    int lock_fd; /* -1: none */
    bool landed;
    struct landing landing;
    grs_error err;
};

/* ---------------------------------------------------------------- fork ------------------------------------------- */

/* A forked child has the forking thread alone. Every table is locked across the fork, so that none is in the middle of a
 * change; in the child, flights of threads that did not come along will never land and are forgotten. */
static struct flights *tables;
static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void before_fork(void) {
    pthread_mutex_lock(&tables_lock);
    for (struct flights *table = tables; table; table = table->next)
        pthread_mutex_lock(&table->mutex);
}

static void after_fork(void) {
    for (struct flights *table = tables; table; table = table->next)
        pthread_mutex_unlock(&table->mutex);
    pthread_mutex_unlock(&tables_lock);
}

static void forget_strangers(struct flights *table) {
    for (struct flight **at = &table->first; *at;) {
        struct flight *flight = *at;
        if (pthread_equal(flight->leader, pthread_self())) { /* forked by a maker, which goes on in the child */
            flight->users = 1;
            at = &flight->next;
            continue;
        }
        *at = flight->next;
        if (flight->lock_fd >= 0)
            close(flight->lock_fd); /* not unlocked: the lock is the parent's */
        free(flight);
    }
}

static void after_fork_in_child(void) {
    for (struct flights *table = tables; table; table = table->next) {
        forget_strangers(table);
        pthread_cond_init(&table->landed, NULL); /* the old one may count waiters that are gone */
    }
    after_fork();
}

static void register_handlers(void) {
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

void flights_init(struct flights *flights) {
    *flights = (struct flights){0};
    pthread_mutex_init(&flights->mutex, NULL);
    pthread_cond_init(&flights->landed, NULL);
    pthread_once(&fork_once, register_handlers);
    pthread_mutex_lock(&tables_lock);
    flights->next = tables;
    tables = flights;
    pthread_mutex_unlock(&tables_lock);
}

void flights_destroy(struct flights *flights) {
    pthread_mutex_lock(&tables_lock);
    for (struct flights **at = &tables; *at; at = &(*at)->next)
        if (*at == flights) {
            *at = flights->next;
            break;
        }
    pthread_mutex_unlock(&tables_lock);
    pthread_cond_destroy(&flights->landed);
    pthread_mutex_destroy(&flights->mutex);
}

/* ---------------------------------------------------------------- one flight ------------------------------------- */

bool flight_join(struct flights *flights, const char *name, struct flight **out) {
    bool leads = false;
    pthread_mutex_lock(&flights->mutex);
    struct flight *flight = flights->first;
    while (flight && strcmp(flight->name, name))
        flight = flight->next;
    if (!flight) {
        flight = calloc(1, sizeof *flight);
        leads = true;
        if (flight) {
            memcpy(flight->name, name, sizeof flight->name);
            flight->leader = pthread_self();
            flight->lock_fd = -1;
            flight->next = flights->first;
            flights->first = flight;
        }
    }
    if (flight)
        flight->users++;
    pthread_mutex_unlock(&flights->mutex);
    *out = flight;
    return leads;
}

/* With the mutex held. */
static void leave(struct flight *flight) {
    if (--flight->users)
        return;
    free(flight->landing.image);
    free(flight);
}

static void *copy(const void *image, size_t size) {
    void *bytes = malloc(size);
    if (bytes)
        memcpy(bytes, image, size);
    return bytes;
}

struct landing flight_wait(struct flights *flights, struct flight *flight, grs_error *err) {
    pthread_mutex_lock(&flights->mutex);
    while (!flight->landed)
        pthread_cond_wait(&flights->landed, &flights->mutex);
    struct landing landing = flight->landing;
    if (landing.status != GRS_OK) {
        if (err)
            *err = flight->err;
    } else if (flight->users == 1) {
        flight->landing.image = NULL; /* the last one takes it */
    } else {
        landing.image = copy(landing.image, landing.size);
        if (!landing.image)
            landing.status = error_set(err, GRS_ERR_MEMORY, "out of memory: cache entry of %zu bytes", landing.size);
    }
    leave(flight);
    pthread_mutex_unlock(&flights->mutex);
    return landing;
}

void flight_land(struct flights *flights, struct flight *flight, grs_status status, const void *image, size_t size,
                 const grs_error *err) {
    pthread_mutex_lock(&flights->mutex);
    for (struct flight **at = &flights->first; *at; at = &(*at)->next)
        if (*at == flight) {
            *at = flight->next;
            break;
        }
    if (flight->users > 1) {
        flight->landing = (struct landing){.status = status, .size = size};
        if (status == GRS_OK) {
            flight->landing.image = copy(image, size);
            if (!flight->landing.image)
                flight->landing.status =
                    error_set(&flight->err, GRS_ERR_MEMORY, "out of memory: cache entry of %zu bytes", size);
        } else {
            flight->err = *err;
        }
    }
    flight->landed = true;
    pthread_cond_broadcast(&flights->landed);
    leave(flight);
    pthread_mutex_unlock(&flights->mutex);
}

void flight_note_lock(struct flights *flights, struct flight *flight, int fd) {
    pthread_mutex_lock(&flights->mutex);
    flight->lock_fd = fd;
    pthread_mutex_unlock(&flights->mutex);
}
