/* Any bytes given to the config parser: an error with a position, or a config whose values are within their bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "generator/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct config *config = NULL;
    grs_error err = {0};
    grs_status status = config_parse("f", (const char *)data, size, &config, &err);
    if (status != GRS_OK) {
        if (status != GRS_ERR_CONFIG || config || err.line < 1 || err.column < 1 || strncmp(err.text, "f:", 2))
            abort();
        return 0;
    }
    for (int f = 0; f < FIELD_COUNT; f++) {
        const struct field_info *info = &config_fields[f];
        int64_t choices = 0;
        while (info->choices && info->choices[choices])
            choices++;
        bool in_range = info->max && config->value[f] >= info->min && config->value[f] <= info->max;
        bool is_choice = config->value[f] >= 0 && config->value[f] < choices;
        if (config->is_set[f] && !in_range && !is_choice)
            abort();
    }
    for (size_t i = 0; i < config->shape_count; i++) {
        const struct config_shape *s = &config->shapes[i];
        if (s->m < 1 || s->n < 8 || s->n % 8 || s->k < 8 || s->k % 8 || s->tp < 1 || s->tp > GRS_MAX_TP)
            abort();
    }
    config_free(config);
    return 0;
}
