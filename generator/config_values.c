#include "generator/config_values.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct quoted node_text(const struct node *node) {
    if (node->kind == NODE_SEQUENCE)
        return (struct quoted){"a list"};
    if (node->kind == NODE_MAPPING)
        return (struct quoted){"a mapping"};
    if (node->length == 0)
        return (struct quoted){"nothing"};
    return quote(node->text, node->length);
}

bool node_is(const struct node *scalar, const char *text) {
    return scalar->kind == NODE_SCALAR && scalar->length == strlen(text) && !memcmp(scalar->text, text, scalar->length);
}

/* "… what, allowed: …advice" */
static void refuse(struct problems *problems, const struct node *node, const char *key, const struct field_info *info,
                   const char *what, const char *advice) {
    struct buf allowed = {0};
    config_allowed_text(info, &allowed);
    if (allowed.failed)
        problems->out_of_memory = true;
    else
        problem_add(problems, node->where, key, "%s %s, allowed: %s%s", node_text(node).text, what, allowed.data,
                    advice);
    buf_free(&allowed);
}

static const char octal[] = "looks octal";

/* The numbers that people write and YAML versions read differently, or not at all. */
static const char *why_no_number(const char *text, size_t length) {
    size_t sign = length && (text[0] == '-' || text[0] == '+');
    size_t digits = strspn(text + sign, "0123456789");
    if (sign + digits == length && digits)
        return text[0] == '+' ? "has a plus sign" : digits > 1 && text[sign] == '0' ? octal : NULL;
    if (digits == 1 && text[sign] == '0' && strchr("xXoObB", text[sign + 1]) && length > sign + 2)
        return "is not a decimal number";
    if (digits && strspn(text, "0123456789+-.eE_,") == length)
        return strpbrk(text, "_,") ? "has a separator in it" : "is not an integer";
    return "is not a number";
}

/* For a number between two that are allowed. */
static void nearest_numbers(const struct field_info *info, int64_t value, struct buf *out) {
    int64_t below = value / info->multiple * info->multiple, above = below + info->multiple;
    if (below < info->min)
        buf_printf(out, "; nearest: %lld", (long long)info->min);
    else if (above > info->max)
        buf_printf(out, "; nearest: %lld", (long long)info->max);
    else
        buf_printf(out, "; nearest: %lld or %lld", (long long)below, (long long)above);
}

/* The same for a list of allowed numbers, which ascends. */
static void nearest_listed(const struct field_info *info, int64_t value, struct buf *out) {
    int above = 0;
    while (info->allowed[above] && info->allowed[above] < value)
        above++;
    if (above > 0 && info->allowed[above])
        buf_printf(out, "; nearest: %lld or %lld", (long long)info->allowed[above - 1],
                   (long long)info->allowed[above]);
}

bool value_is_allowed(const struct field_info *info, int64_t value, struct buf *why) {
    bool in_range = value >= info->min && value <= info->max, listed = !info->allowed;
    for (int i = 0; info->allowed && info->allowed[i]; i++)
        listed = listed || info->allowed[i] == value;
    bool multiple = info->allowed || value % info->multiple == 0;
    if (in_range && listed && multiple)
        return true;
    if (!in_range)
        buf_puts(why, "is out of range");
    else if (!listed)
        buf_puts(why, "is not possible");
    else
        buf_printf(why, "is not a multiple of %lld", (long long)info->multiple);
    buf_puts(why, ", allowed: ");
    config_allowed_text(info, why);
    if (in_range && listed)
        nearest_numbers(info, value, why);
    else if (in_range)
        nearest_listed(info, value, why);
    return false;
}

bool value_read_number(struct problems *problems, const struct node *node, const char *key,
                       const struct field_info *info, int64_t *out) {
    if (node->kind == NODE_REFUSED)
        return false;
    if (node->kind != NODE_SCALAR || node->length == 0) {
        refuse(problems, node, key, info, "where a number is expected", "");
        return false;
    }
    if (!node->plain) {
        refuse(problems, node, key, info, "is a text (in quotes), not a number", "");
        return false;
    }
    const char *why = why_no_number(node->text, node->length);
    if (why) {
        char advice[64] = "";
        if (!strcmp(why, octal) && node->length < 20)
            snprintf(advice, sizeof advice, "; without leading zeros: %lld", strtoll(node->text, NULL, 10));
        refuse(problems, node, key, info, why, advice);
        return false;
    }
    errno = 0;
    long long value = strtoll(node->text, NULL, 10);
    struct buf text = {0};
    if (errno) /* beyond 64 bits: out of any range */
        value = node->text[0] == '-' ? INT64_MIN : INT64_MAX;
    bool allowed = value_is_allowed(info, value, &text);
    if (text.failed)
        problems->out_of_memory = true;
    else if (!allowed)
        problem_add(problems, node->where, key, "%s %s", node_text(node).text, text.data);
    buf_free(&text);
    if (!allowed)
        return false;
    *out = value;
    return true;
}

bool value_read_choice(struct problems *problems, const struct node *node, const char *key,
                       const struct field_info *info, int64_t *out) {
    if (node->kind == NODE_REFUSED)
        return false;
    for (int i = 0; info->choices[i]; i++)
        if (node_is(node, info->choices[i])) {
            *out = i;
            return true;
        }
    bool looks_like_number =
        node->kind == NODE_SCALAR && node->plain && node->length && strchr("0123456789+-", node->text[0]);
    if (info->max && looks_like_number)
        return value_read_number(problems, node, key, info, out);
    const char *near = node->kind == NODE_SCALAR ? nearest_text(node->text, node->length, info->choices) : NULL;
    char advice[64] = "";
    if (near)
        snprintf(advice, sizeof advice, "; did you mean %s?", near);
    refuse(problems, node, key, info,
           node->kind == NODE_SCALAR && node->length ? "is unknown" : "where one value is expected", advice);
    return false;
}
