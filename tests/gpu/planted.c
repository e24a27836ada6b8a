/* Launches one kernel of planted.cu, by name: a mistake that a tool must find in kernels which NVRTC compiled and the driver
 * loaded (its silence about others says something only then), or one that is right and that some versions of it report.
 *
 *   planted KERNEL [FILE]     from the root of the repository */
#include "generator/config.h"
#include "runtime/nvrtc.h"
#include "tests/gpu/tap.h"

enum { THREADS = 192, BYTES = 4 << 20 };

int main(int count, char **argument) {
    const char *path = count == 3 ? argument[2] : "tests/gpu/planted.cu";
    const struct emit_header none = {0};
    const struct nvrtc *nvrtc;
    struct nvrtc_location where;
    struct nvrtc_result result;
    CUmodule module;
    CUfunction function;
    CUdeviceptr memory;
    static char source[1 << 16];
    must(count == 2 || count == 3, "arguments: the kernel, and the file");
    FILE *file = fopen(path, "r");
    must(file != NULL && fread(source, 1, sizeof(source) - 1, file) > 0, path);
    fclose(file);
    open_gpus();
    MUST(nvrtc_locate(NULL, &where, &err));
    MUST(nvrtc_open(&where, &nvrtc, &err));
    MUST(nvrtc_compile(nvrtc, gpu_arch(), "planted.cu", source, &none, argument[1], &result, &err));
    CU(cuMemAlloc(&memory, BYTES));
    CU(cuMemsetD8(memory, 0, BYTES / 2));
    CU(cuModuleLoadData(&module, result.cubin));
    CU(cuModuleGetFunction(&function, module, argument[1]));
    void *arguments[] = {&memory};
    CU(cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL));
    CU(cuCtxSynchronize());
    CU(cuMemFree(memory));
    close_gpus();
    return 0;
}
