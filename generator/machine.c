#include "generator/machine.h"

static const struct machine machines[ARCH_COUNT] = {
    [ARCH_SM90A] = {.sms = 132,
                    .shared_limit = 227 * 1024,
                    .registers = 65536,
                    .registers_a_thread = 255,
                    .tflops = 750,
                    .link_gbps = 372,
                    .measured = "two H200 SXM, CUDA 13.0, 2026-11-30"},
    [ARCH_SM100A] = {.sms = 148,
                     .shared_limit = 227 * 1024,
                     .registers = 65536,
                     .registers_a_thread = 255,
                     .tflops = 1700,
                     .link_gbps = 720,
                     .measured = "not measured: the vendor's figures, less a quarter"},
};

const struct machine *machine_of(enum arch arch) {
    return &machines[arch];
}
