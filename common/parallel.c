#include "common/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define MAX_THREADS 256

struct crew {
    size_t count;
    bool (*one)(void *arg, size_t index);
    void *arg;
    atomic_size_t next;
};

static void *work(void *arg) {
    struct crew *crew = arg;
    for (size_t index; (index = atomic_fetch_add(&crew->next, 1)) < crew->count;)
        if (!crew->one(crew->arg, index))
            atomic_store(&crew->next, crew->count);
    return NULL;
}

void parallel_for(size_t count, int jobs, bool (*one)(void *arg, size_t index), void *arg) {
    struct crew crew = {.count = count, .one = one, .arg = arg};
    pthread_t threads[MAX_THREADS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = jobs > 0 ? (size_t)jobs : cores > 0 ? (size_t)cores : 1, started = 0;
    wanted = wanted < count ? wanted : count;
    while (started + 1 < wanted && started < MAX_THREADS && pthread_create(&threads[started], NULL, work, &crew) == 0)
        started++;
    work(&crew);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
