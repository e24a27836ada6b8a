/* What the library would run for a shape, without a GPU: compiled on the first run, from the cache on the next.
 *
 *   cc kernel_info.c $(pkg-config --cflags --libs grs)
 *   ./a.out M N K RANKS */
#include <grs.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double microseconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

int main(int argc, char **argv) {
    static const char *const from[] = {"nowhere", "memory", "disk", "the compiler"};
    grs_kernel_info info = GRS_INIT(grs_kernel_info);
    double expected, limit;
    size_t bytes;
    if (argc != 5)
        return 2;
    int64_t M = atoll(argv[1]), N = atoll(argv[2]), K = atoll(argv[3]);

    double start = microseconds();
    const grs_kernel *kernel = grs_jit_get(M, N, K, atoi(argv[4]));
    double first = microseconds() - start;
    if (kernel == NULL || grs_kernel_get_info(kernel, &info, NULL) != GRS_OK ||
        grs_kernel_memory(kernel, M, 132, &bytes, NULL) != GRS_OK ||
        grs_kernel_times(kernel, M, &expected, &limit, NULL) != GRS_OK) {
        fprintf(stderr, "%s\n", grs_last_error()->text);
        return 1;
    }
    enum { TIMES = 1000000 };
    start = microseconds();
    for (int i = 0; i < TIMES; i++)
        kernel = grs_jit_get(M, N, K, atoi(argv[4]));
    double again = (microseconds() - start) / TIMES;

    printf("%s for %s, M %lld to %lld\n", info.name, info.arch, (long long)info.m_min, (long long)info.m_max);
    printf("tile %d x %d x %d, %d stages, ring of %d; %d threads, %d registers, %d bytes spilled, %d bytes of shared "
           "memory\n",
           info.tile_m, info.tile_n, info.tile_k, info.stages, info.ring_depth, info.threads, info.registers,
           info.spill_bytes, info.shared_bytes);
    if (expected > 0)
        printf("expected %.0f us a launch, ", expected);
    printf("limit %.0f us\n", limit);
    printf("a rank reserves %.1f MB for this M on 132 SMs\n", (double)bytes * 1e-6);
    printf("the first call took %.1f ms, from %s; each later one %.0f ns\n", first * 1e-3, from[info.source],
           again * 1e3);
    return 0;
}
