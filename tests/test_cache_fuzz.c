/* A short run of the entry parser's fuzz target wherever the tests run: the corpus, and some ten thousand changed copies of
 * it, the same ones every time. `make fuzz` looks further. A finding aborts the program. */
#include "tests/cache_fixture.h"

#include "tests/fuzz_cache_entry.c"

#define CORPUS "tests/corpus/fuzz_cache_entry"
#define ROUNDS 2000

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Flip, overwrite with something that matters, cut, or repeat a piece. */
static size_t change(uint8_t *data, size_t size, size_t capacity) {
    static const uint64_t numbers[] = {
        0, 1, 7, 8, 16, 255, 65535, UINT32_MAX, (uint64_t)1 << 63, UINT64_MAX - 7, UINT64_MAX};
    size_t at = size ? next_random() % size : 0;
    switch (next_random() % 5) {
    case 0:
        if (size)
            data[at] ^= (uint8_t)(1 << next_random() % 8);
        return size;
    case 1:
        if (size >= 8)
            entry_put64(data + at / 8 * 8 % (size - 7), numbers[next_random() % (sizeof numbers / sizeof numbers[0])]);
        return size;
    case 2: return at;
    case 3:
        if (size + 8 <= capacity)
            memmove(data + at + 8, data + at, size - at);
        return size + 8 <= capacity ? size + 8 : size;
    default:
        if (size - at > 8)
            memmove(data + at, data + at + 8, size - at - 8);
        return size - at > 8 ? size - 8 : size;
    }
}

static void test_corpus_and_changes(void **state) {
    (void)state;
    DIR *corpus = opendir(CORPUS);
    int files = 0;
    assert_non_null(corpus); /* the tests run from the root of the repository */
    for (struct dirent *at; (at = readdir(corpus));) {
        size_t size;
        char *seed = at->d_name[0] == '.' ? NULL : read_file(text_of(CORPUS "/%s", at->d_name), &size);
        if (!seed)
            continue;
        files++;
        LLVMFuzzerTestOneInput((const uint8_t *)seed, size);
        for (int round = 0; round < ROUNDS; round++) {
            size_t capacity = size + 64, length = size;
            uint8_t *work_copy = calloc(1, capacity);
            memcpy(work_copy, seed, size);
            for (uint64_t changes = 1 + next_random() % 4; changes; changes--)
                length = change(work_copy, length, capacity);
            uint8_t *exact = malloc(length ? length : 1); /* so that a sanitizer sees a read beyond it */
            memcpy(exact, work_copy, length);
            LLVMFuzzerTestOneInput(exact, length);
            free(exact);
            free(work_copy);
        }
        free(seed);
    }
    closedir(corpus);
    assert_true(files >= 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_corpus_and_changes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
