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
    return &machines[config_arch_family(arch)];
}

double machine_tflops(const struct machine *machine, int64_t sms) {
    return machine->tflops * (double)(sms ? sms : machine->sms) / machine->sms;
}

static const struct {
    int major, minor; /* minor -1: any */
} capabilities[ARCH_COUNT] = {
    [ARCH_SM90A] = {9, 0},
    [ARCH_SM100A] = {10, 0},
    [ARCH_SM100F] = {10, -1},
    [ARCH_SM103A] = {10, 3},
};

bool machine_runs(enum arch arch, int major, int minor) {
    return capabilities[arch].major == major && (capabilities[arch].minor == minor || capabilities[arch].minor < 0);
}

bool machine_arch_of(int major, int minor, enum arch *out) {
    for (int arch = 0; arch < ARCH_COUNT; arch++)
        if (capabilities[arch].major == major && capabilities[arch].minor == minor) {
            *out = (enum arch)arch;
            return true;
        }
    return false;
}
