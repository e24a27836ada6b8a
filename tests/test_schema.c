/* The JSON schema says of files what the parser says, as far as a schema can: every config of the repository is valid, and
 * what the parser refuses for a value, a type or a key is not. The validator here knows the keywords that our schema uses,
 * and fails on any other. */
#include <glob.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "generator/config_yaml.h"
#include "tests/golden.h"

/* ---------------------------------------------------------------- YAML → JSON */

static json_t *to_json(const struct node *node) {
    json_t *json;
    char *end;
    switch (node->kind) {
    case NODE_SEQUENCE:
        json = json_array();
        for (const struct node *child = node->first; child; child = child->next)
            json_array_append_new(json, to_json(child));
        return json;
    case NODE_MAPPING:
        json = json_object();
        for (const struct node *child = node->first; child; child = child->next)
            json_object_set_new(json, child->key->text, to_json(child));
        return json;
    case NODE_SCALAR:
        if (!node->plain)
            return json_string(node->text);
        if (!node->length)
            return json_null();
        long long number = strtoll(node->text, &end, 10);
        if (!*end)
            return json_integer(number);
        double real = strtod(node->text, &end);
        return *end || real != real || real > 1e300 ? json_string(node->text) : json_real(real);
    default: return json_null();
    }
}

static json_t *read_yaml(const char *path) {
    struct buf text = golden_read(path);
    assert_non_null(text.data);
    struct yaml_tree tree;
    struct problems problems = {0};
    json_t *json = NULL;
    if (yaml_read(text.data, text.length, &tree, &problems) && !problems.count && tree.root)
        json = to_json(tree.root);
    yaml_tree_free(&tree);
    buf_free(&text);
    problems_free(&problems);
    return json;
}

/* ---------------------------------------------------------------- validation */

static bool valid(const json_t *schema, const json_t *value);

static bool valid_type(const char *type, const json_t *value) {
    if (!strcmp(type, "object"))
        return json_is_object(value);
    if (!strcmp(type, "array"))
        return json_is_array(value);
    if (!strcmp(type, "integer"))
        return json_is_integer(value);
    if (!strcmp(type, "string"))
        return json_is_string(value);
    fail_msg("the schema names type %s, which this validator does not know", type);
    return false;
}

static bool valid_pattern(const char *pattern, const json_t *value) {
    regex_t regex;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    bool matches = !json_is_string(value) || regexec(&regex, json_string_value(value), 0, NULL, 0) == 0;
    regfree(&regex);
    return matches;
}

static bool valid_object(const json_t *schema, const json_t *value) {
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    const char *key;
    json_t *member;
    size_t i;
    json_array_foreach(required, i, member) {
        if (!json_object_get(value, json_string_value(member)))
            return false;
    }
    json_object_foreach((json_t *)value, key, member) {
        const json_t *property = json_object_get(properties, key);
        if (!property || !valid(property, member))
            return false;
    }
    return true;
}

static bool valid_array(const json_t *schema, const json_t *value) {
    if ((json_int_t)json_array_size(value) < json_integer_value(json_object_get(schema, "minItems")))
        return false;
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (!valid(json_object_get(schema, "items"), json_array_get(value, i)))
            return false;
        for (size_t j = 0; j < i && json_is_true(json_object_get(schema, "uniqueItems")); j++)
            if (json_equal(json_array_get(value, i), json_array_get(value, j)))
                return false;
    }
    return true;
}

static bool valid_any(const json_t *list, const json_t *value) {
    const json_t *one;
    size_t i;
    json_array_foreach(list, i, one) {
        if (valid(one, value))
            return true;
    }
    return false;
}

static bool listed(const json_t *list, const json_t *value) {
    const json_t *one;
    size_t i;
    json_array_foreach(list, i, one) {
        if (json_equal(one, value))
            return true;
    }
    return false;
}

static bool valid(const json_t *schema, const json_t *value) {
    static const char *const other[] = {
        "$schema", "title",       "description", "properties", "required", "additionalProperties",
        "items",   "uniqueItems", "minItems",    NULL};
    const char *keyword;
    json_t *rule;
    bool ok = true;
    json_object_foreach((json_t *)schema, keyword, rule) {
        json_int_t number = json_integer_value(value), limit = json_integer_value(rule);
        if (!strcmp(keyword, "type"))
            ok = ok && valid_type(json_string_value(rule), value);
        else if (!strcmp(keyword, "enum"))
            ok = ok && listed(rule, value);
        else if (!strcmp(keyword, "const"))
            ok = ok && json_equal(rule, value);
        else if (!strcmp(keyword, "minimum"))
            ok = ok && number >= limit;
        else if (!strcmp(keyword, "maximum"))
            ok = ok && number <= limit;
        else if (!strcmp(keyword, "multipleOf"))
            ok = ok && number % limit == 0;
        else if (!strcmp(keyword, "pattern"))
            ok = ok && valid_pattern(json_string_value(rule), value);
        else if (!strcmp(keyword, "anyOf"))
            ok = ok && valid_any(rule, value);
        else {
            int known = 0;
            while (other[known] && strcmp(other[known], keyword))
                known++;
            if (!other[known])
                fail_msg("the schema uses %s, which this validator does not know", keyword);
        }
    }
    if (ok && json_object_get(schema, "properties")) {
        assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
        ok = valid_object(schema, value);
    }
    return ok && (!json_object_get(schema, "items") || valid_array(schema, value));
}

static json_t *the_schema(void) {
    struct buf text = {0};
    config_schema(&text);
    assert_false(text.failed);
    json_error_t error;
    json_t *schema = json_loads(text.data, JSON_REJECT_DUPLICATES, &error);
    if (!schema)
        fail_msg("%s at line %d", error.text, error.line);
    buf_free(&text);
    return schema;
}

/* ---------------------------------------------------------------- tests */

static void configs_of_the_repository_are_valid(void **state) {
    (void)state;
    json_t *schema = the_schema();
    glob_t found;
    assert_int_equal(glob("configs/*.yaml", 0, NULL, &found), 0);
    assert_int_equal(glob("examples/*.yaml", GLOB_APPEND, NULL, &found), 0);
    assert_true(found.gl_pathc >= 5);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        json_t *json = read_yaml(found.gl_pathv[i]);
        if (!json || !valid(schema, json))
            fail_msg("%s is not valid by the schema", found.gl_pathv[i]);
        json_decref(json);
    }
    globfree(&found);
    json_decref(schema);
}

/* What no schema can see: how a text is written, and rules between keys. */
static bool beyond_a_schema(const char *path) {
    static const char *const names[] = {"duplicate_keys",
                                        "rule_",
                                        "too_many_shapes",
                                        "octal",
                                        "lone_cr",
                                        "line_separator",
                                        "control",
                                        "tabs",
                                        "utf",
                                        "nul",
                                        NULL};
    for (int i = 0; names[i]; i++)
        if (strstr(path, names[i]))
            return true;
    return false;
}

static void bad_files_are_not_valid(void **state) {
    (void)state;
    json_t *schema = the_schema();
    glob_t found;
    int judged = 0;
    assert_int_equal(glob("tests/golden/config/*.yaml", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        json_t *json = beyond_a_schema(found.gl_pathv[i]) ? NULL : read_yaml(found.gl_pathv[i]);
        if (!json)
            continue;
        if (valid(schema, json))
            fail_msg("%s is valid by the schema", found.gl_pathv[i]);
        judged++;
        json_decref(json);
    }
    assert_true(judged >= 20);
    globfree(&found);
    json_decref(schema);
}

/* Every row of the table is a property, with a description. */
static void every_key_is_described(void **state) {
    (void)state;
    json_t *schema = the_schema();
    for (int f = 0; f < FIELD_COUNT; f++) {
        enum field owner;
        if (config_choice_owner((enum field)f, &owner))
            continue;
        const json_t *at = schema;
        char key[64];
        snprintf(key, sizeof key, "%s", config_fields[f].key);
        for (char *part = strtok(key, "."); part; part = strtok(NULL, "."))
            at = json_object_get(json_object_get(at, "properties"), part);
        assert_string_equal(json_string_value(json_object_get(at, "description")), config_fields[f].help);
    }
    json_decref(schema);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configs_of_the_repository_are_valid),
        cmocka_unit_test(bad_files_are_not_valid),
        cmocka_unit_test(every_key_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
