/* A mistake of one kind, for checking that a tool finds it in kernels that NVRTC compiled and the driver loaded: the tools'
 * silence about others says something only then.
 *
 *   planted memcheck|racecheck|synccheck|initcheck */
#include "generator/config.h"
#include "runtime/nvrtc.h"
#include "tests/gpu/tap.h"

static const char source[] =
    "// Writes behind what was allocated.\n"
    "extern \"C\" __global__ void memcheck(unsigned *memory) { memory[(1 << 20) + threadIdx.x] = 1; }\n"
    "// A warp reads what another has written, without a barrier.\n"
    "extern \"C\" __global__ void racecheck(unsigned *memory) {\n"
    "    __shared__ unsigned shared[64];\n"
    "    shared[threadIdx.x] = threadIdx.x;\n"
    "    memory[threadIdx.x] = shared[63 - threadIdx.x];\n"
    "}\n"
    "// Two phases of a barrier in shared memory, and nobody has waited for the first.\n"
    "extern \"C\" __global__ void synccheck(unsigned *memory) {\n"
    "    __shared__ unsigned long long barrier;\n"
    "    unsigned address = (unsigned)__cvta_generic_to_shared(&barrier);\n"
    "    if (threadIdx.x == 0) {\n"
    "        asm volatile(\"mbarrier.init.shared::cta.b64 [%0], 1;\" ::\"r\"(address) : \"memory\");\n"
    "        for (int i = 0; i < 3; i++)\n"
    "            asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" ::\"r\"(address) : \"memory\");\n"
    "    }\n"
    "    __syncthreads();\n"
    "    memory[threadIdx.x] = 1;\n"
    "}\n"
    "// Reads what nobody has written.\n"
    "extern \"C\" __global__ void initcheck(unsigned *memory) { memory[threadIdx.x] = memory[1024 + threadIdx.x] + 1; "
    "}\n";

int main(int count, char **argument) {
    const struct emit_header none = {0};
    const struct nvrtc *nvrtc;
    struct nvrtc_location where;
    struct nvrtc_result result;
    CUmodule module;
    CUfunction function;
    CUdeviceptr memory;
    must(count == 2, "one argument: the kernel");
    open_gpus();
    MUST(nvrtc_locate(NULL, &where, &err));
    MUST(nvrtc_open(&where, &nvrtc, &err));
    MUST(nvrtc_compile(nvrtc, ARCH_SM90A, "planted.cu", source, &none, argument[1], &result, &err));
    CU(cuMemAlloc(&memory, (size_t)4 << 20));
    CU(cuModuleLoadData(&module, result.cubin));
    CU(cuModuleGetFunction(&function, module, argument[1]));
    void *arguments[] = {&memory};
    CU(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL));
    CU(cuCtxSynchronize());
    return 0;
}
