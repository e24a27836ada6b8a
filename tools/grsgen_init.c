/* --init: a commented config for this machine, every key with its help and the planner's value for an example shape. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "generator/machine.h"
#include "runtime/driver.h"
#include "tools/grsgen.h"

/* The first GPU, when a driver is installed and there is one whose arch is known. */
static bool find_gpu(enum arch *arch, char *name, int name_size, int *sms) {
    const struct driver *drv = driver_get(NULL);
    CUdevice device;
    int count = 0, major = 0, minor = 0;
    if (!drv || drv->cuDeviceGetCount(&count) != CUDA_SUCCESS || !count ||
        drv->cuDeviceGet(&device, 0) != CUDA_SUCCESS || drv->cuDeviceGetName(name, name_size, device) != CUDA_SUCCESS ||
        drv->cuDeviceGetAttribute(sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) != CUDA_SUCCESS ||
        drv->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS ||
        drv->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS)
        return false;
    char wanted[16];
    snprintf(wanted, sizeof wanted, "sm_%d%da", major % 100, minor % 10);
    return config_arch_parse(wanted, arch);
}

/* "  m: 128                 # rows of …; 64, 128 or 256", all behind a comment sign. */
static void field_line(const struct plan *plan, enum field field, int depth, const char *name, struct buf *out) {
    struct buf value = {0}, allowed = {0};
    enum field number;
    const struct field_info *info = &config_fields[field];
    config_value_text(field, plan->value[field], &value);
    config_allowed_text(info, &allowed);
    char text[96];
    if (info->choices && config_choice_field(field, plan->value[field], &number))
        snprintf(text, sizeof text, "%s: {%s: %" PRId64 "}", name, value.failed ? "" : value.data, plan->value[number]);
    else
        snprintf(text, sizeof text, "%s: %s", name, value.failed ? "" : value.data);
    buf_printf(out, "# %*s%-*s # %s; allowed: %s\n", 2 * depth, "", 26 - 2 * depth, text, info->help,
               allowed.failed ? "" : allowed.data);
    buf_free(&value);
    buf_free(&allowed);
}

static void fields(const struct plan *plan, struct buf *out) {
    char open[64] = ""; /* section that the last line was in: "ring.chunk." */
    for (int f = 0; f < FIELD_COUNT; f++) {
        enum field owner;
        const char *key = config_fields[f].key, *name = strrchr(key, '.');
        name = name ? name + 1 : key;
        if (config_choice_owner((enum field)f, &owner))
            continue; /* written with its owner */
        if (!config_arch_knows(plan->arch, (enum field)f))
            continue;
        int depth = 0;
        for (const char *part = key; part < name; part = strchr(part, '.') + 1, depth++) {
            size_t end = (size_t)(strchr(part, '.') + 1 - key);
            if (strncmp(open, key, end) != 0) {
                buf_printf(out, "# %*s%.*s:\n", 2 * depth, "", (int)(strchr(part, '.') - part), part);
                snprintf(open, sizeof open, "%.*s", (int)end, key);
            }
        }
        field_line(plan, (enum field)f, depth, name, out);
    }
}

int grsgen_init(const struct grsgen_options *options) {
    struct config *config;
    struct plan plan;
    grs_error err = {0};
    struct buf out = {0};
    enum arch arch = ARCH_SM90A;
    char name[256] = "";
    int sms = 0, code;
    bool found = find_gpu(&arch, name, sizeof name, &sms);
    for (int a = 0; a < ARCH_COUNT && options->has_arch; a++)
        if (options->arch[a])
            arch = (enum arch)a;
    static const struct plan_shape example = {.m_min = 8192, .m_max = 8192, .n = 4096, .k = 2048, .tp = 4};
    if (config_defaults(&config, &err) != GRS_OK)
        return fail_with(GRSGEN_FAILED, &err);
    if (plan_solve(config, arch, &example, &plan, &err) != GRS_OK) {
        code = fail_with(GRSGEN_USAGE, &err);
        goto done;
    }
    buf_puts(
        &out,
        "# A grs config. Everything that is commented out is left to the planner; the values shown are those that it\n"
        "# chooses for the shape below, and `grsgen --explain` says why. docs/config.md is the reference.\n");
    if (found)
        buf_printf(&out, "# GPU 0 here: %s, %d SMs.\n", name, sms);
    else
        buf_puts(&out, "# No GPU was found here.\n");
    buf_printf(&out, "version: 1\narch: [%s]\n", config_arch_name(arch));
    fields(&plan, &out);
    buf_puts(&out, "shapes: # lists of m and tp multiply\n"
                   "  - {m: [1024, 8192], n: 4096, k: 2048, tp: 4, name: example}\n");
    code = print_buf(&out);
done:
    config_free(config);
    buf_free(&out);
    return code;
}
