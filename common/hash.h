/* Digests: SHA-256 names cache entries (collision-resistant), XXH3-128 checks their bytes. */
#ifndef GRS_COMMON_HASH_H
#define GRS_COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_HEX_LENGTH 64

void hash_sha256(const void *data, size_t length, uint8_t digest[32]);
void hash_sha256_hex(const void *data, size_t length, char hex[HASH_HEX_LENGTH + 1]);
void hash_xxh3_128(const void *data, size_t length, uint8_t digest[16]);

#endif
