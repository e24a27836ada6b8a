/* One entry as bytes. docs/cache.md specifies the format; the order of its fields is that of the table in entry.c. */
#ifndef GRS_CACHE_ENTRY_H
#define GRS_CACHE_ENTRY_H

#include "cache/cache.h"

#define ENTRY_MAGIC      "GRSENTRY"
#define ENTRY_FORMAT     1
#define ENTRY_HEAD_BYTES 24 /* magic, format, field count, file size: the same in every format        */
#define ENTRY_TAIL_BYTES 16 /* XXH3-128 of everything before it: the same in every format              */
#define ENTRY_MAX_BYTES  ((size_t)256 << 20)
#define ENTRY_MAX_ARCH   32

enum entry_state {
    ENTRY_INTACT = 0,
    ENTRY_DAMAGED,      /* cut, changed, or never an entry                            */
    ENTRY_OTHER_FORMAT, /* whole, but written by an older or newer grs: not for us    */
};

/* Encode what a maker filled in, for the key of that text and compiler (NULL: none). The caller frees *image. Fails when
 * something required is missing or too large, when the arch is not that of the key, or without memory. */
grs_status entry_encode(const struct cache_entry *entry, const char *key_text, const char *compiler_id, void **image,
                        size_t *size, grs_error *err);

/* Check `size` bytes and point `out` into them (out->image stays NULL: the caller says who owns the bytes). Nothing of
 * `out` is set unless the result is ENTRY_INTACT; then `why` is untouched, else it says what is wrong. */
enum entry_state entry_decode(const void *image, size_t size, struct cache_entry *out, grs_error *why);

/* Free what an entry holds, but not the struct itself. */
void entry_free_parts(struct cache_entry *entry);

/* The file size that an entry's first ENTRY_HEAD_BYTES claim; 0 when they are not the head of an entry. */
size_t entry_claimed_size(const void *head);

/* Little-endian numbers, for the format and for containers of entries. */
void entry_put32(uint8_t *at, uint32_t value);
void entry_put64(uint8_t *at, uint64_t value);
uint32_t entry_get32(const uint8_t *at);
uint64_t entry_get64(const uint8_t *at);

#endif
