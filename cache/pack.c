#include "cache/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/entry.h"
#include "cache/lock.h"
#include "cache/store.h"
#include "common/buf.h"
#include "common/error.h"

#define PACK_MAGIC      "GRS-PACK"
#define PACK_FORMAT     1
#define PACK_HEAD_BYTES 24 /* magic, format, number of entries, file size                      */
#define PACK_TAIL_BYTES 16 /* XXH3-128 of the head and of every entry's own checksum, in order */

static void put_head(uint8_t head[PACK_HEAD_BYTES], size_t count, uint64_t size) {
    memcpy(head, PACK_MAGIC, 8);
    entry_put32(head + 8, PACK_FORMAT);
    entry_put32(head + 12, (uint32_t)count);
    entry_put64(head + 16, size);
}

static const uint8_t *seal_of(const void *image, size_t size) {
    return (const uint8_t *)image + size - ENTRY_TAIL_BYTES;
}

/* The entry called `name` from the first directory that has it, checked; the caller frees *image. */
static grs_status load(const char *const *dirs, const char *name, void **image, size_t *size, grs_error *err) {
    for (size_t i = 0; dirs[i]; i++) {
        struct trust_dir root;
        struct cache_entry entry;
        enum found found = trust_open_root(dirs[i], i > 0, false, &root, err);
        if (found == FOUND) {
            found = store_read(&root, name, name, image, size, err);
            trust_close(&root);
        }
        if (found == FOUND_NOTHING)
            continue;
        if (found == FOUND_REFUSED)
            return GRS_ERR_IO;
        enum entry_state state = entry_decode(*image, *size, &entry, err);
        if (state == ENTRY_INTACT && !strcmp(entry.key, name))
            return GRS_OK;
        if (state == ENTRY_INTACT)
            error_set(err, GRS_ERR_IO, "it is the entry of another kernel, %s for %s", entry.name, entry.arch);
        free(*image);
        *image = NULL;
        return error_prepend(err, "entry %s cannot be packed", name);
    }
    return error_set(err, GRS_ERR_IO, "there is no entry %s", name);
}

static grs_status write_all(FILE *out, const char *file, const void *data, size_t size, grs_error *err) {
    return fwrite(data, 1, size, out) == size ? GRS_OK
                                              : error_set(err, GRS_ERR_IO, "\"%s\": %s", file, strerror(errno));
}

grs_status pack_write(const char *file, const char *const *dirs, const char *const *names, size_t count,
                      struct pack_report *report, grs_error *err) {
    uint8_t head[PACK_HEAD_BYTES], digest[16];
    struct buf sealed = {0}, temporary = {0};
    grs_status status = GRS_OK;
    FILE *out = NULL;
    void *image = NULL;
    *report = (struct pack_report){.bytes = PACK_HEAD_BYTES + PACK_TAIL_BYTES};
    buf_printf(&temporary, "%s.XXXXXX", file);
    int fd = temporary.failed ? -1 : mkstemp(temporary.data);
    if (fd < 0 || !(out = fdopen(fd, "wb"))) {
        status = error_set(err, GRS_ERR_IO, "\"%s\" cannot be made: %s", file, strerror(errno));
        goto done;
    }
    /* The head is written last, when the size is known: until then the file is no pack. */
    memset(head, 0, sizeof head);
    status = write_all(out, file, head, sizeof head, err);
    buf_append(&sealed, head, sizeof head);
    for (size_t i = 0; i < count && status == GRS_OK; i++) {
        size_t size;
        status = load(dirs, names[i], &image, &size, err);
        if (status != GRS_OK)
            break;
        status = write_all(out, file, image, size, err);
        buf_append(&sealed, seal_of(image, size), ENTRY_TAIL_BYTES);
        report->bytes += (int64_t)size;
        report->entries++;
        free(image);
        image = NULL;
    }
    if (status == GRS_OK && sealed.failed)
        status = error_set(err, GRS_ERR_MEMORY, "out of memory for a pack of %zu entries", count);
    if (status != GRS_OK)
        goto done;
    put_head(head, count, (uint64_t)report->bytes);
    memcpy(sealed.data, head, sizeof head);
    hash_xxh3_128(sealed.data, sealed.length, digest);
    status = write_all(out, file, digest, sizeof digest, err);
    mode_t mask = umask(0);
    umask(mask);
    if (status == GRS_OK && (fflush(out) || pwrite(fd, head, sizeof head, 0) != sizeof head ||
                             fchmod(fd, 0666 & ~mask) || fsync(fd) || rename(temporary.data, file)))
        status = error_set(err, GRS_ERR_IO, "\"%s\": %s", file, strerror(errno));
done:
    if (status != GRS_OK && fd >= 0)
        unlink(temporary.data);
    if (out)
        fclose(out);
    else if (fd >= 0)
        close(fd);
    free(image);
    buf_free(&sealed);
    buf_free(&temporary);
    return status;
}

/* ---------------------------------------------------------------- reading ---------------------------------------- */

struct reader {
    FILE *in;
    const char *file;
    uint32_t count;
    uint64_t size, at;
    struct buf sealed;
};

static grs_status bad(const struct reader *reader, grs_error *err, const char *problem) {
    return error_set(err, GRS_ERR_IO, "\"%s\" is damaged at byte %llu: %s", reader->file,
                     (unsigned long long)reader->at, problem);
}

/* Also when the file is shorter than it says. */
static grs_status read_all(struct reader *reader, void *data, size_t size, grs_error *err) {
    if (fread(data, 1, size, reader->in) != size) {
        if (ferror(reader->in))
            return error_set(err, GRS_ERR_IO, "\"%s\": %s", reader->file, strerror(errno));
        return bad(reader, err, "it ends too early");
    }
    reader->at += size;
    return GRS_OK;
}

static grs_status read_head(struct reader *reader, grs_error *err) {
    uint8_t head[PACK_HEAD_BYTES];
    struct stat st;
    if (fstat(fileno(reader->in), &st))
        return error_set(err, GRS_ERR_IO, "\"%s\": %s", reader->file, strerror(errno));
    grs_status status = read_all(reader, head, sizeof head, err);
    if (status != GRS_OK)
        return status;
    if (memcmp(head, PACK_MAGIC, 8))
        return error_set(err, GRS_ERR_IO, "\"%s\" is not a file made by `grsgen cache pack`", reader->file);
    if (entry_get32(head + 8) != PACK_FORMAT)
        return error_set(err, GRS_ERR_UNSUPPORTED, "\"%s\" has pack format %u, this grs reads format %d", reader->file,
                         entry_get32(head + 8), PACK_FORMAT);
    reader->count = entry_get32(head + 12);
    reader->size = entry_get64(head + 16);
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != reader->size)
        return bad(reader, err, "its size is not the one written in it");
    buf_append(&reader->sealed, head, sizeof head);
    return GRS_OK;
}

/* The next entry, checked; *image is the caller's to free. */
static grs_status read_entry(struct reader *reader, void **image, size_t *size, struct cache_entry *entry,
                             grs_error *err) {
    uint8_t head[ENTRY_HEAD_BYTES];
    grs_error why;
    uint64_t start = reader->at;
    *image = NULL;
    grs_status status = read_all(reader, head, sizeof head, err);
    if (status != GRS_OK)
        return status;
    *size = entry_claimed_size(head);
    if (!*size || *size > reader->size - start)
        return bad(reader, err, "no entry starts here");
    uint8_t *bytes = malloc(*size);
    if (!bytes)
        return error_set(err, GRS_ERR_MEMORY, "out of memory for an entry of %zu bytes", *size);
    memcpy(bytes, head, sizeof head);
    *image = bytes;
    status = read_all(reader, bytes + sizeof head, *size - sizeof head, err);
    if (status != GRS_OK)
        return status;
    enum entry_state state = entry_decode(bytes, *size, entry, &why);
    if (state == ENTRY_OTHER_FORMAT)
        return error_set(err, GRS_ERR_UNSUPPORTED, "\"%s\", entry at byte %llu: %s", reader->file,
                         (unsigned long long)start, why.text);
    if (state != ENTRY_INTACT)
        return bad(reader, err, why.text);
    buf_append(&reader->sealed, seal_of(bytes, *size), ENTRY_TAIL_BYTES);
    return GRS_OK;
}

static grs_status read_tail(struct reader *reader, grs_error *err) {
    uint8_t tail[PACK_TAIL_BYTES], digest[16];
    grs_status status = read_all(reader, tail, sizeof tail, err);
    if (status != GRS_OK)
        return status;
    if (reader->sealed.failed)
        return error_set(err, GRS_ERR_MEMORY, "out of memory for a pack of %u entries", reader->count);
    hash_xxh3_128(reader->sealed.data, reader->sealed.length, digest);
    if (memcmp(digest, tail, sizeof tail))
        return bad(reader, err, "checksum mismatch");
    if (reader->at != reader->size)
        return bad(reader, err, "bytes after the end");
    return GRS_OK;
}

/* Where entries go; NULL in a first pass, which only checks. */
struct target {
    struct trust_dir root;
    int lock_fd; /* holds the entries in use, so that unpacking does not evict what it has just unpacked */
    int64_t max_bytes;
};

static grs_status publish(struct target *target, const struct cache_entry *entry, const void *image, size_t size,
                          struct pack_report *report, grs_error *err) {
    struct cache_entry there;
    void *old = NULL;
    size_t old_size;
    lock_wait(target->lock_fd, lock_byte_use(entry->key), false, 1.0);
    bool present = store_read(&target->root, entry->key, entry->key, &old, &old_size, err) == FOUND &&
                   entry_decode(old, old_size, &there, err) == ENTRY_INTACT && !strcmp(there.key, entry->key);
    free(old);
    report->present += present;
    return present ? GRS_OK : store_publish(&target->root, entry->key, image, size, target->max_bytes, err);
}

static grs_status read_pack(const char *file, struct target *target, struct pack_report *report, grs_error *err) {
    struct reader reader = {.in = fopen(file, "rbe"), .file = file};
    if (!reader.in)
        return error_set(err, GRS_ERR_IO, "\"%s\": %s", file, strerror(errno));
    grs_status status = read_head(&reader, err);
    for (uint32_t i = 0; i < reader.count && status == GRS_OK; i++) {
        struct cache_entry entry;
        void *image = NULL;
        size_t size;
        status = read_entry(&reader, &image, &size, &entry, err);
        if (status == GRS_OK && target)
            status = publish(target, &entry, image, size, report, err);
        free(image);
    }
    if (status == GRS_OK)
        status = read_tail(&reader, err);
    report->entries = (int)reader.count;
    report->bytes = (int64_t)reader.size;
    buf_free(&reader.sealed);
    fclose(reader.in);
    return status;
}

grs_status pack_read(const char *file, const char *dir, int64_t max_bytes, struct pack_report *report, grs_error *err) {
    struct target target = {.max_bytes = max_bytes};
    *report = (struct pack_report){0};
    grs_status status = read_pack(file, NULL, report, err);
    if (status != GRS_OK)
        return status;
    if (trust_open_root(dir, false, true, &target.root, err) != FOUND)
        return GRS_ERR_IO;
    target.lock_fd = lock_open(&target.root, NULL);
    status = read_pack(file, &target, report, err);
    if (status != GRS_OK)
        error_prepend(err, "\"%s\"", dir);
    lock_close(target.lock_fd);
    trust_close(&target.root);
    return status;
}
