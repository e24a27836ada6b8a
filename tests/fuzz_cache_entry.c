/* Any bytes given to the entry parser: refused, or an entry whose every part lies inside them. The checksum keeps nearly
 * every input out, so each is tried a second time with size, format and checksum put right. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cache/entry.h"
#include "cache/key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
    if (!condition)
        abort();
}

static void check_text(const char *text, size_t size, const uint8_t *image, size_t image_size) {
    const uint8_t *at = (const uint8_t *)text;
    require(at >= image && size < image_size && at + size < image + image_size && text[size] == 0);
}

static void check(const uint8_t *image, size_t size) {
    struct cache_entry entry;
    grs_error why = {0};
    char name[HASH_HEX_LENGTH + 1];
    void *again = NULL;
    size_t again_size = 0;
    enum entry_state state = entry_decode(image, size, &entry, &why);
    if (state != ENTRY_INTACT) {
        require(why.status != GRS_OK && why.text[0]);
        return;
    }
    const char *texts[] = {entry.key_text, entry.compiler_id, entry.arch,  entry.name,
                           entry.compiler, entry.shape,       entry.config};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        check_text(texts[i], strlen(texts[i]), image, size);
    check_text(entry.meta, entry.meta_size, image, size);
    check_text(entry.cubin, entry.cubin_size, image, size);
    check_text(entry.ptx, entry.ptx_size, image, size);
    check_text(entry.source, entry.source_size, image, size);
    check_text(entry.log, entry.log_size, image, size);
    require(*entry.name && entry.cubin_size && key_text_is_for(entry.key_text, entry.arch));
    key_name(entry.key_text, entry.compiler_id, name);
    require(!strcmp(name, entry.key) && entry_claimed_size(image) == size);
    /* One content has one encoding. */
    require(entry_encode(&entry, entry.key_text, entry.compiler_id, &again, &again_size, NULL) == GRS_OK);
    require(again_size == size && !memcmp(again, image, size));
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check(data, size);
    if (size < ENTRY_HEAD_BYTES + ENTRY_TAIL_BYTES)
        return 0;
    uint8_t *image = malloc(size); /* exactly, so that a read beyond it is seen */
    require(image != NULL);
    memcpy(image, data, size);
    memcpy(image, ENTRY_MAGIC, 8);
    entry_put32(image + 8, ENTRY_FORMAT);
    entry_put64(image + 16, size);
    hash_xxh3_128(image, size - ENTRY_TAIL_BYTES, image + size - ENTRY_TAIL_BYTES);
    check(image, size);
    free(image);
    return 0;
}
