/* Keys and the names of their entries. The text of a key is canonical: equal keys have equal bytes, and the length before
 * each value keeps one field from running into the next. */
#ifndef GRS_CACHE_KEY_H
#define GRS_CACHE_KEY_H

#include "cache/cache.h"
#include "common/buf.h"

/* Digits of a name that come from everything but the compiler: entries that share them differ in the compiler alone. */
#define KEY_BASE_DIGITS 40

/* Every field but the compiler, one `name length:value` a line; the arch comes last. */
void key_text(const struct cache_key *key, struct buf *out);

/* The name of the entry with this key text, made by this compiler (NULL or "": none known). */
void key_name(const char *text, const char *compiler_id, char hex[HASH_HEX_LENGTH + 1]);

/* True when the text is that of a key for exactly this arch. */
bool key_text_is_for(const char *text, const char *arch);

#endif
