#include "cache/entry.h"

#include <stdlib.h>
#include <string.h>

#include "cache/key.h"
#include "common/buf.h"
#include "common/error.h"

#define FIELD_HEAD_BYTES 16 /* tag, zero, size */

/* The fields of an entry in file order; the tag is the index + 1. Texts have no size member and hold no NUL. */
static const struct part {
    const char *label;
    size_t pointer, size; /* offsets in struct cache_entry; size 0: a text */
    bool required;        /* an entry without it is of no use              */
} parts[] = {
#define TEXT(member, required)                                                                                         \
    { #member, offsetof(struct cache_entry, member), 0, required }
#define BLOB(member, required)                                                                                         \
    { #member, offsetof(struct cache_entry, member), offsetof(struct cache_entry, member##_size), required }
    TEXT(key_text, true),  TEXT(compiler_id, false), TEXT(arch, true),    TEXT(name, true),
    TEXT(compiler, false), TEXT(shape, false),       TEXT(config, false), BLOB(meta, false),
    BLOB(cubin, true),     BLOB(ptx, false),         BLOB(source, false), BLOB(log, false),
#undef TEXT
#undef BLOB
};
#define PART_COUNT (sizeof parts / sizeof parts[0])

static const char *part_data(const struct cache_entry *entry, const struct part *part) {
    const char *data;
    memcpy(&data, (const char *)entry + part->pointer, sizeof data);
    return data;
}

static size_t part_size(const struct cache_entry *entry, const struct part *part) {
    const char *data = part_data(entry, part);
    size_t size = 0;
    if (part->size)
        memcpy(&size, (const char *)entry + part->size, sizeof size);
    else if (data)
        size = strlen(data);
    return data ? size : 0;
}

static void part_set(struct cache_entry *entry, const struct part *part, const char *data, size_t size) {
    memcpy((char *)entry + part->pointer, &data, sizeof data);
    if (part->size)
        memcpy((char *)entry + part->size, &size, sizeof size);
}

void entry_put32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

void entry_put64(uint8_t *at, uint64_t value) {
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

uint32_t entry_get32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint64_t entry_get64(const uint8_t *at) {
    return (uint64_t)entry_get32(at) | (uint64_t)entry_get32(at + 4) << 32;
}

/* 1 to 8 NULs end every field: texts are terminated where they lie, and the next field starts at a multiple of 8. */
static size_t padded(size_t size) {
    return (size / 8 + 1) * 8;
}

grs_status entry_encode(const struct cache_entry *entry, const char *key_text, const char *compiler_id, void **image,
                        size_t *size, grs_error *err) {
    struct cache_entry whole = *entry;
    whole.key_text = key_text;
    whole.compiler_id = compiler_id;
    *image = NULL;

    size_t total = ENTRY_HEAD_BYTES + ENTRY_TAIL_BYTES;
    for (size_t i = 0; i < PART_COUNT; i++) {
        size_t bytes = part_size(&whole, &parts[i]);
        if (parts[i].required && bytes == 0)
            return error_set(err, GRS_ERR_STATE, "compiled kernel without %s", parts[i].label);
        if (bytes > ENTRY_MAX_BYTES - FIELD_HEAD_BYTES - 8 ||
            total + FIELD_HEAD_BYTES + padded(bytes) > ENTRY_MAX_BYTES)
            return error_set(err, GRS_ERR_STATE,
                             "compiled kernel is too large for the cache: %s has %zu bytes, allowed: %zu in all",
                             parts[i].label, bytes, ENTRY_MAX_BYTES);
        total += FIELD_HEAD_BYTES + padded(bytes);
    }
    if (!key_text_is_for(key_text, whole.arch))
        return error_set(err, GRS_ERR_STATE, "kernel compiled for arch %s does not belong to the key\n%s", whole.arch,
                         key_text);

    uint8_t *bytes = calloc(1, total), *at = bytes;
    if (!bytes)
        return error_set(err, GRS_ERR_MEMORY, "out of memory: cache entry of %zu bytes", total);
    memcpy(at, ENTRY_MAGIC, 8);
    entry_put32(at + 8, ENTRY_FORMAT);
    entry_put32(at + 12, PART_COUNT);
    entry_put64(at + 16, total);
    at += ENTRY_HEAD_BYTES;
    for (size_t i = 0; i < PART_COUNT; i++) {
        size_t length = part_size(&whole, &parts[i]);
        entry_put32(at, (uint32_t)i + 1);
        entry_put64(at + 8, length);
        if (length)
            memcpy(at + FIELD_HEAD_BYTES, part_data(&whole, &parts[i]), length);
        at += FIELD_HEAD_BYTES + padded(length);
    }
    hash_xxh3_128(bytes, (size_t)(at - bytes), at);
    *image = bytes;
    *size = total;
    return GRS_OK;
}

static enum entry_state damaged(grs_error *why, const char *text) {
    error_set(why, GRS_ERR_IO, "%s", text);
    return ENTRY_DAMAGED;
}

/* Read one field at *at, which moves past it. NULL, or what is wrong with it. */
static const char *decode_part(size_t index, const uint8_t **at, const uint8_t *end, struct cache_entry *out) {
    const struct part *part = &parts[index];
    const uint8_t *head = *at;
    size_t room = (size_t)(end - head);
    if (room < FIELD_HEAD_BYTES || entry_get32(head) != index + 1 || entry_get32(head + 4) != 0)
        return "is not where it should be";
    uint64_t size = entry_get64(head + 8);
    room -= FIELD_HEAD_BYTES;
    if (size >= room || padded((size_t)size) > room)
        return "reaches beyond the end";
    const char *data = (const char *)head + FIELD_HEAD_BYTES;
    for (size_t i = (size_t)size; i < padded((size_t)size); i++)
        if (data[i])
            return "is not terminated";
    if (!part->size && memchr(data, 0, (size_t)size))
        return "holds a NUL";
    if (part->required && size == 0)
        return "is empty";
    part_set(out, part, data, (size_t)size);
    *at = head + FIELD_HEAD_BYTES + padded((size_t)size);
    return NULL;
}

size_t entry_claimed_size(const void *head) {
    const uint8_t *bytes = head;
    uint64_t size = entry_get64(bytes + 16);
    if (memcmp(bytes, ENTRY_MAGIC, 8) || size < ENTRY_HEAD_BYTES + ENTRY_TAIL_BYTES || size > ENTRY_MAX_BYTES)
        return 0;
    return (size_t)size;
}

enum entry_state entry_decode(const void *image, size_t size, struct cache_entry *out, grs_error *why) {
    const uint8_t *bytes = image, *at = bytes + ENTRY_HEAD_BYTES;
    if (size < ENTRY_HEAD_BYTES + ENTRY_TAIL_BYTES)
        return damaged(why, "too short for an entry");
    if (memcmp(bytes, ENTRY_MAGIC, 8))
        return damaged(why, "does not start like an entry");
    if (entry_claimed_size(bytes) != size)
        return damaged(why, "its size is not the one written in it");
    const uint8_t *end = bytes + size - ENTRY_TAIL_BYTES;
    uint8_t digest[16];
    hash_xxh3_128(bytes, (size_t)(end - bytes), digest);
    if (memcmp(digest, end, sizeof digest))
        return damaged(why, "checksum mismatch");
    if (entry_get32(bytes + 8) != ENTRY_FORMAT) {
        error_set(why, GRS_ERR_UNSUPPORTED, "entry format %u, this grs reads format %d", entry_get32(bytes + 8),
                  ENTRY_FORMAT);
        return ENTRY_OTHER_FORMAT;
    }
    if (entry_get32(bytes + 12) != PART_COUNT)
        return damaged(why, "wrong number of fields");

    struct cache_entry entry = {0};
    for (size_t i = 0; i < PART_COUNT; i++) {
        const char *problem = decode_part(i, &at, end, &entry);
        if (problem) {
            error_set(why, GRS_ERR_IO, "field %s %s", parts[i].label, problem);
            return ENTRY_DAMAGED;
        }
    }
    if (at != end)
        return damaged(why, "bytes after the last field");
    if (!key_text_is_for(entry.key_text, entry.arch))
        return damaged(why, "its arch is not that of its key");
    key_name(entry.key_text, entry.compiler_id, entry.key);
    *out = entry;
    return ENTRY_INTACT;
}

void entry_free_parts(struct cache_entry *entry) {
    if (entry->image)
        free(entry->image);
    else
        for (size_t i = 0; i < PART_COUNT; i++)
            free((void *)part_data(entry, &parts[i]));
    *entry = (struct cache_entry){0};
}

void cache_entry_free(struct cache_entry *entry) {
    if (!entry)
        return;
    entry_free_parts(entry);
    free(entry);
}
