/* The entry format and the names of entries (docs/cache.md). */
#include "tests/cache_fixture.h"

static const char key_text_sm90[] = "entry 1\ngrs 5:0.1.0\narch 6:sm_90a\n";

/* An encoded entry; the caller frees. */
static uint8_t *encoded(size_t *size) {
    struct cache_entry entry = {0};
    struct job job = {0};
    void *image = NULL;
    assert_int_equal(make_entry(&job, &entry, NULL), GRS_OK);
    assert_int_equal(entry_encode(&entry, key_text_sm90, "id", &image, size, NULL), GRS_OK);
    entry_free_parts(&entry);
    return image;
}

static void reseal(uint8_t *image, size_t size) {
    hash_xxh3_128(image, size - ENTRY_TAIL_BYTES, image + size - ENTRY_TAIL_BYTES);
}

static void test_round_trip(void **state) {
    (void)state;
    struct cache_entry entry;
    struct job job = {0};
    char name[HASH_HEX_LENGTH + 1];
    size_t size, again_size;
    void *again;
    uint8_t *image = encoded(&size);
    assert_int_equal(entry_decode(image, size, &entry, NULL), ENTRY_INTACT);
    assert_true(entry_is_right(&entry, &job));
    assert_string_equal(entry.key_text, key_text_sm90);
    assert_string_equal(entry.compiler_id, "id");
    assert_string_equal(entry.compiler, "NVRTC 13.0");
    assert_string_equal(entry.shape, "m 1..512 n 4096 k 2048 tp 4");
    assert_string_equal(entry.config, "tile.m: 128\ntile.n: 256\n");
    assert_int_equal((uintptr_t)entry.meta % 8, (uintptr_t)image % 8);
    key_name(key_text_sm90, "id", name);
    assert_string_equal(entry.key, name);
    assert_int_equal(entry_claimed_size(image), size);
    /* The format is canonical: the same content gives the same bytes. */
    assert_int_equal(entry_encode(&entry, entry.key_text, entry.compiler_id, &again, &again_size, NULL), GRS_OK);
    assert_int_equal(again_size, size);
    assert_memory_equal(again, image, size);
    free(again);
    free(image);
}

/* The layout that docs/cache.md promises, byte by byte where it matters. */
static void test_layout(void **state) {
    (void)state;
    size_t size;
    uint8_t *image = encoded(&size), digest[16];
    assert_memory_equal(image, "GRSENTRY", 8);
    assert_int_equal(entry_get32(image + 8), 1);
    assert_int_equal(entry_get32(image + 12), 12);
    assert_int_equal(entry_get64(image + 16), size);
    assert_int_equal(entry_get32(image + 24), 1); /* the first field is the text of the key */
    assert_int_equal(entry_get32(image + 28), 0);
    assert_int_equal(entry_get64(image + 32), strlen(key_text_sm90));
    assert_memory_equal(image + 40, key_text_sm90, sizeof key_text_sm90);
    hash_xxh3_128(image, size - 16, digest);
    assert_memory_equal(image + size - 16, digest, 16);
    assert_int_equal(size % 8, 0);
    free(image);
}

static void test_every_cut_and_flip_is_seen(void **state) {
    (void)state;
    size_t size;
    uint8_t *image = encoded(&size);
    struct cache_entry entry;
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *exact = malloc(cut ? cut : 1); /* so that a sanitizer sees a read beyond it */
        memcpy(exact, image, cut);
        assert_int_equal(entry_decode(exact, cut, &entry, NULL), ENTRY_DAMAGED);
        free(exact);
    }
    for (size_t at = 0; at < size; at++)
        for (int bit = 0; bit < 8; bit++) {
            image[at] ^= (uint8_t)(1 << bit);
            assert_int_equal(entry_decode(image, size, &entry, NULL), ENTRY_DAMAGED);
            image[at] ^= (uint8_t)(1 << bit);
        }
    assert_int_equal(entry_decode(image, size, &entry, NULL), ENTRY_INTACT);
    free(image);
}

/* The same with a right checksum: the structure is checked for itself. A change may only be let through where it gives
 * another well-formed entry, and then encoding it must give exactly these bytes. */
static void test_structure_is_checked_without_the_checksum(void **state) {
    (void)state;
    size_t size;
    uint8_t *image = encoded(&size);
    int intact = 0, damaged = 0, other = 0;
    for (size_t at = 0; at < size - ENTRY_TAIL_BYTES; at++) {
        uint8_t old = image[at];
        for (int value = 0; value < 256; value += value < 8 ? 1 : 31) {
            struct cache_entry entry;
            grs_error why;
            image[at] = (uint8_t)value;
            reseal(image, size);
            enum entry_state state = entry_decode(image, size, &entry, &why);
            damaged += state == ENTRY_DAMAGED;
            other += state == ENTRY_OTHER_FORMAT;
            if (state != ENTRY_INTACT)
                continue;
            void *again;
            size_t again_size;
            intact++;
            assert_int_equal(entry_encode(&entry, entry.key_text, entry.compiler_id, &again, &again_size, NULL),
                             GRS_OK);
            assert_int_equal(again_size, size);
            assert_memory_equal(again, image, size);
            free(again);
        }
        image[at] = old;
    }
    assert_true(intact > 0);
    assert_true(damaged > 0);
    assert_true(other > 0);
    free(image);
}

static void test_sizes_that_wrap_around(void **state) {
    (void)state;
    size_t size;
    uint8_t *image = encoded(&size);
    const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 15, (uint64_t)1 << 63,
                              size,       size - 40,      size - 56};
    struct cache_entry entry;
    grs_error why;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        entry_put64(image + 32, sizes[i]);
        reseal(image, size);
        assert_int_equal(entry_decode(image, size, &entry, &why), ENTRY_DAMAGED);
        assert_non_null(strstr(why.text, "key_text"));
    }
    free(image);
}

/* Bytes taken from before the checksum, or put there, with size and checksum put right. */
static void test_wrong_lengths_with_a_right_checksum(void **state) {
    (void)state;
    size_t size;
    uint8_t *image = encoded(&size);
    for (size_t wrong = size - 24; wrong <= size + 24; wrong++) {
        struct cache_entry entry;
        uint8_t *other = calloc(1, wrong); /* exactly, so that a sanitizer sees a read beyond it */
        memcpy(other, image, (wrong < size ? wrong : size) - ENTRY_TAIL_BYTES);
        entry_put64(other + 16, wrong);
        reseal(other, wrong);
        assert_int_equal(entry_decode(other, wrong, &entry, NULL), wrong == size ? ENTRY_INTACT : ENTRY_DAMAGED);
        free(other);
    }
    free(image);
}

static void test_other_formats_are_told_from_damage(void **state) {
    (void)state;
    size_t size;
    uint8_t *image = encoded(&size);
    struct cache_entry entry;
    grs_error why;
    const uint32_t formats[] = {0, 2, 77, UINT32_MAX};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        entry_put32(image + 8, formats[i]);
        reseal(image, size);
        assert_int_equal(entry_decode(image, size, &entry, &why), ENTRY_OTHER_FORMAT);
        image[size / 2] ^= 1;
        assert_int_equal(entry_decode(image, size, &entry, &why), ENTRY_DAMAGED);
        image[size / 2] ^= 1;
    }
    free(image);
}

static void test_what_cannot_be_an_entry(void **state) {
    (void)state;
    void *image;
    size_t size;
    grs_error err;
    struct job job = {0};
    struct cache_entry entry = {0};
    assert_int_equal(make_entry(&job, &entry, NULL), GRS_OK);

    struct cache_entry bad = entry;
    bad.cubin_size = 0;
    assert_int_equal(entry_encode(&bad, key_text_sm90, NULL, &image, &size, &err), GRS_ERR_STATE);
    assert_non_null(strstr(err.text, "cubin"));
    assert_null(image);
    bad = entry;
    bad.name = NULL;
    assert_int_equal(entry_encode(&bad, key_text_sm90, NULL, &image, &size, &err), GRS_ERR_STATE);
    bad = entry;
    bad.cubin_size = ENTRY_MAX_BYTES;
    assert_int_equal(entry_encode(&bad, key_text_sm90, NULL, &image, &size, &err), GRS_ERR_STATE);
    assert_non_null(strstr(err.text, "too large"));
    bad.cubin_size = SIZE_MAX;
    assert_int_equal(entry_encode(&bad, key_text_sm90, NULL, &image, &size, &err), GRS_ERR_STATE);
    /* An arch without its suffix is another arch. */
    const char *others[] = {"sm_90", "sm_100a", "sm_90ab", "m_90a", ""};
    for (int i = 0; i < 5; i++) {
        bad = entry;
        bad.arch = others[i];
        assert_int_equal(entry_encode(&bad, key_text_sm90, NULL, &image, &size, &err), GRS_ERR_STATE);
    }
    entry_free_parts(&entry);
}

static void names_differ(const struct cache_key *a, const struct cache_key *b, bool base_too) {
    char left[HASH_HEX_LENGTH + 1], right[HASH_HEX_LENGTH + 1];
    cache_key_digest(a, left);
    cache_key_digest(b, right);
    assert_string_not_equal(left, right);
    assert_int_equal(strncmp(left, right, KEY_BASE_DIGITS) != 0, base_too);
}

static void test_every_field_of_the_key_counts(void **state) {
    (void)state;
    struct cache_key key = key_of("-O3"), other;
    char name[HASH_HEX_LENGTH + 1], again[HASH_HEX_LENGTH + 1];
    other = key, other.grs_version = "0.1.1";
    names_differ(&key, &other, true);
    other = key, other.text_digest = "ff";
    names_differ(&key, &other, true);
    other = key, other.options = "-O2";
    names_differ(&key, &other, true);
    other = key, other.arch = "sm_90";
    names_differ(&key, &other, true);
    other = key, other.compiler_id = "build-id-2";
    names_differ(&key, &other, false);
    other = key, other.compiler_id = NULL;
    names_differ(&key, &other, false);
    cache_key_digest(&other, name);
    assert_string_equal(name + KEY_BASE_DIGITS, "000000000000000000000000");
    /* A value that looks like the end of its field and the start of the next. */
    other = key, other.options = "-O3\narch 6:sm_90a", other.arch = "";
    names_differ(&key, &other, true);
    /* Fixed for good: a change of these digits orphans every cache. */
    cache_key_digest(&key, name);
    cache_key_digest(&key, again);
    assert_string_equal(name, again);
    assert_int_equal(strlen(name), HASH_HEX_LENGTH);
    assert_string_equal(name, "f24d7ba48b8547b6474c6856579239bf14326528be6caf2e5ed9606b8612a811");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_round_trip),
        TEST(test_layout),
        TEST(test_every_cut_and_flip_is_seen),
        TEST(test_structure_is_checked_without_the_checksum),
        TEST(test_sizes_that_wrap_around),
        TEST(test_wrong_lengths_with_a_right_checksum),
        TEST(test_other_formats_are_told_from_damage),
        TEST(test_what_cannot_be_an_entry),
        TEST(test_every_field_of_the_key_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
