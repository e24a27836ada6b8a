/* JSON Schema of a config, made from the field table: editors complete and check configs with it. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "generator/config.h"

/* jansson returns NULL when memory runs out and passes NULLs on; the text at the end tells. */

static json_t *number_schema(const struct field_info *info) {
    if (info->allowed) {
        json_t *list = json_array();
        for (int i = 0; info->allowed[i]; i++)
            json_array_append_new(list, json_integer(info->allowed[i]));
        return json_pack("{s:o}", "enum", list);
    }
    json_t *schema = json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum", (json_int_t)info->min, "maximum",
                               (json_int_t)info->max);
    if (info->multiple > 1)
        json_object_set_new(schema, "multipleOf", json_integer(info->multiple));
    return schema;
}

/* An object with nothing but the given properties. */
static json_t *closed_object(json_t *properties, json_t *required) {
    json_t *schema =
        json_pack("{s:s, s:b, s:o}", "type", "object", "additionalProperties", 0, "properties", properties);
    if (required)
        json_object_set_new(schema, "required", required);
    return schema;
}

static json_t *list_of(json_t *items) {
    return json_pack("{s:s, s:i, s:o}", "type", "array", "minItems", 1, "items", items);
}

static json_t *any_of(json_t *first, json_t *second) {
    return json_pack("{s:[o, o]}", "anyOf", first, second);
}

/* Names that stand alone as an enum; those that carry a number as objects; a range, where there is one. */
static json_t *field_schema(enum field field) {
    const struct field_info *info = &config_fields[field];
    json_t *schema;
    if (!info->choices) {
        schema = number_schema(info);
    } else {
        json_t *names = json_array();
        schema = json_pack("{s:o}", "enum", names);
        for (int i = 0; info->choices[i]; i++) {
            enum field number;
            if (!config_choice_field(field, i, &number)) {
                json_array_append_new(names, json_string(info->choices[i]));
                continue;
            }
            json_t *with_number = number_schema(&config_fields[number]);
            json_object_set_new(with_number, "description", json_string(config_fields[number].help));
            json_t *object =
                closed_object(json_pack("{s:o}", info->choices[i], with_number), json_pack("[s]", info->choices[i]));
            schema = any_of(schema, object);
        }
        if (info->max)
            schema = any_of(schema, number_schema(info));
    }
    json_object_set_new(schema, "description", json_string(info->help));
    return schema;
}

/* The `properties` that the last component of `key` belongs to; sections on the way are made. */
static json_t *properties_for(json_t *properties, const char *key, const char **last) {
    const char *dot;
    while ((dot = strchr(key, '.'))) {
        char name[32] = "";
        memcpy(name, key, (size_t)(dot - key) < sizeof name - 1 ? (size_t)(dot - key) : sizeof name - 1);
        if (!json_object_get(properties, name))
            json_object_set_new(properties, name, closed_object(json_object(), NULL));
        properties = json_object_get(json_object_get(properties, name), "properties");
        key = dot + 1;
    }
    *last = key;
    return properties;
}

static json_t *shape_schema(void) {
    json_t *properties = json_object(), *required = json_array();
    for (int f = 0; f < SHAPE_FIELD_COUNT; f++) {
        const struct field_info *info = &config_shape_fields[f];
        json_t *schema = number_schema(info);
        if (config_shape_field_is_list((enum shape_field)f))
            schema = any_of(schema, list_of(number_schema(info)));
        json_object_set_new(schema, "description", json_string(info->help));
        json_object_set_new(properties, info->key, schema);
        json_array_append_new(required, json_string(info->key));
    }
    json_object_set_new(properties, "name",
                        json_pack("{s:s, s:s, s:s}", "type", "string", "pattern", "^[A-Za-z0-9._-]{1,64}$",
                                  "description", "for people, and --only"));
    return closed_object(properties, required);
}

void config_schema(struct buf *out) {
    json_t *properties = json_object(), *archs = json_array();
    for (int a = 0; a < ARCH_COUNT; a++)
        json_array_append_new(archs, json_string(config_arch_name((enum arch)a)));
    json_object_set_new(properties, "version", json_pack("{s:i}", "const", CONFIG_VERSION));
    json_t *arch = list_of(json_pack("{s:o}", "enum", archs));
    json_object_set_new(arch, "uniqueItems", json_true());
    json_object_set_new(arch, "description", json_string("GPU architectures to make kernels for"));
    json_object_set_new(properties, "arch", arch);
    for (int f = 0; f < FIELD_COUNT; f++) {
        enum field owner;
        const char *last;
        if (config_choice_owner((enum field)f, &owner))
            continue; /* part of its owner */
        json_t *place = properties_for(properties, config_fields[f].key, &last);
        json_object_set_new(place, last, field_schema((enum field)f));
    }
    json_t *shapes = list_of(shape_schema());
    json_object_set_new(shapes, "description", json_string("what to make kernels for; lists of m and tp multiply"));
    json_object_set_new(properties, "shapes", shapes);

    json_t *schema =
        json_pack("{s:s, s:s}", "$schema", "http://json-schema.org/draft-07/schema#", "title", "grs config");
    json_t *body = closed_object(properties, json_pack("[s]", "version"));
    json_object_update(schema, body);
    json_decref(body);
    char *text = json_dumps(schema, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    json_decref(schema);
    if (!text) {
        out->failed = true;
        return;
    }
    buf_puts(out, text);
    buf_puts(out, "\n");
    free(text);
}
