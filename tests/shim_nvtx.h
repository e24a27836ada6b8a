/* What the stand-in for a profiler saw. */
#ifndef GRS_TESTS_SHIM_NVTX_H
#define GRS_TESTS_SHIM_NVTX_H

struct shim_nvtx {
    char text[8192]; /* a range a line, those inside another further in */
    int depth, ranges;
};
typedef struct shim_nvtx *shim_nvtx_function(void); /* "shim_nvtx_get" */

#endif
