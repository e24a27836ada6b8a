#include "common/hash.h"

#include <nettle/sha2.h>
#include <xxhash.h>

void hash_sha256(const void *data, size_t length, uint8_t digest[32]) {
    struct sha256_ctx ctx;
    sha256_init(&ctx);
    sha256_update(&ctx, length, data);
    sha256_digest(&ctx, SHA256_DIGEST_SIZE, digest);
}

void hash_sha256_hex(const void *data, size_t length, char hex[HASH_HEX_LENGTH + 1]) {
    static const char digit[] = "0123456789abcdef";
    uint8_t digest[32];
    hash_sha256(data, length, digest);
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = digit[digest[i] >> 4];
        hex[2 * i + 1] = digit[digest[i] & 15];
    }
    hex[HASH_HEX_LENGTH] = 0;
}

void hash_xxh3_128(const void *data, size_t length, uint8_t digest[16]) {
    /* The canonical form is big-endian on every machine, so files can be shared between them. */
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, length));
    for (int i = 0; i < 16; i++)
        digest[i] = canonical.digest[i];
}
