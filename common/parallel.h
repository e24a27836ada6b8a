/* The same work on many items, several at a time. */
#ifndef GRS_COMMON_PARALLEL_H
#define GRS_COMMON_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>

/* Calls `one(arg, i)` for i = 0 … count−1, at most `jobs` at a time (0: as many as there are cores), and returns when all
 * have ended. Items start in order. After a call that returns false no further item starts. The calling thread works
 * too, so that all is done even where no thread can be made. */
void parallel_for(size_t count, int jobs, bool (*one)(void *arg, size_t index), void *arg);

#endif
