#include "cache/key.h"

#include <stdio.h>
#include <string.h>

#include "cache/entry.h"

static void add_field(struct buf *out, const char *name, const char *value) {
    if (!value)
        value = "";
    buf_printf(out, "%s %zu:%s\n", name, strlen(value), value);
}

void key_text(const struct cache_key *key, struct buf *out) {
    buf_printf(out, "entry %d\n", ENTRY_FORMAT);
    add_field(out, "grs", key->grs_version);
    add_field(out, "text", key->text_digest);
    add_field(out, "options", key->options);
    add_field(out, "arch", key->arch);
}

void key_name(const char *text, const char *compiler_id, char hex[HASH_HEX_LENGTH + 1]) {
    char tail[HASH_HEX_LENGTH + 1];
    hash_sha256_hex(text, strlen(text), hex);
    if (compiler_id && *compiler_id)
        hash_sha256_hex(compiler_id, strlen(compiler_id), tail);
    else
        memset(tail, '0', HASH_HEX_LENGTH);
    memcpy(hex + KEY_BASE_DIGITS, tail, HASH_HEX_LENGTH - KEY_BASE_DIGITS);
    hex[HASH_HEX_LENGTH] = 0;
}

bool key_text_is_for(const char *text, const char *arch) {
    char line[ENTRY_MAX_ARCH + 32];
    size_t length = strlen(text), arch_length = strlen(arch);
    if (arch_length == 0 || arch_length > ENTRY_MAX_ARCH)
        return false;
    size_t size = (size_t)snprintf(line, sizeof line, "\narch %zu:%s\n", arch_length, arch);
    return length >= size && memcmp(text + length - size, line, size) == 0;
}

void cache_key_digest(const struct cache_key *key, char hex[HASH_HEX_LENGTH + 1]) {
    struct buf text = {0};
    key_text(key, &text);
    key_name(text.data ? text.data : "", key->compiler_id, hex);
    buf_free(&text);
}
