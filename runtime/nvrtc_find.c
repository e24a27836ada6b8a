/* Finding NVRTC without opening it: a list of places in order, ELF notes, and the loader's cache read as a file. */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/hash.h"
#include "runtime/nvrtc.h"

static const char *const sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
#define SONAME_COUNT (sizeof(sonames) / sizeof(sonames[0]))

/* ---------------------------------------------------------------- ELF ------------------------------------------- */

static bool read_at(int fd, void *data, size_t size, uint64_t offset) {
    return pread(fd, data, size, (off_t)offset) == (ssize_t)size;
}

static void to_hex(const uint8_t *bytes, size_t count, char *out) {
    for (size_t i = 0; i < count; i++) {
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
}

/* The GNU build id among the notes of one segment; false: not there. */
static bool find_note(const uint8_t *notes, size_t size, char *out, size_t out_size) {
    size_t at = 0;
    while (size - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr head;
        memcpy(&head, notes + at, sizeof(head));
        at += sizeof(head);
        size_t name = ((size_t)head.n_namesz + 3) & ~(size_t)3, value = ((size_t)head.n_descsz + 3) & ~(size_t)3;
        if (name > size - at || value > size - at - name) {
            return false;
        }
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && memcmp(notes + at, "GNU", 4) == 0 &&
            head.n_descsz > 0 && 2 * (size_t)head.n_descsz < out_size) {
            to_hex(notes + at + name, head.n_descsz, out);
            return true;
        }
        at += name + value;
    }
    return false;
}

/* Stands for a build id that the linker did not write. Reading all of the file would cost half a second. */
static bool digest_ends(int fd, char *out, size_t out_size) {
    enum { END = 1 << 16 };
    struct stat info;
    char hex[HASH_HEX_LENGTH + 1];
    if (fstat(fd, &info) != 0) {
        return false;
    }
    uint8_t *data = calloc(1, 8 + 2 * END);
    if (data == NULL) {
        return false;
    }
    uint64_t size = (uint64_t)info.st_size;
    memcpy(data, &size, sizeof(size));
    ssize_t head = pread(fd, data + 8, END, 0);
    ssize_t tail = pread(fd, data + 8 + END, END, info.st_size > END ? info.st_size - END : 0);
    if (head > 0 && tail > 0) {
        hash_sha256_hex(data, 8 + 2 * END, hex);
        snprintf(out, out_size, "file-%.40s", hex);
    }
    free(data);
    return head > 0 && tail > 0;
}

bool nvrtc_read_build_id(const char *path, char *out, size_t size) {
    Elf64_Ehdr head;
    bool elf = false, found = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    if (!read_at(fd, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_type != ET_DYN ||
        head.e_phentsize != sizeof(Elf64_Phdr)) {
        goto done;
    }
    elf = true;
    for (int i = 0; i < head.e_phnum && !found; i++) {
        Elf64_Phdr segment;
        uint8_t notes[4096]; /* a build id comes first, in a segment of some hundred bytes */
        if (!read_at(fd, &segment, sizeof(segment), head.e_phoff + (uint64_t)i * sizeof(segment))) {
            break;
        }
        if (segment.p_type == PT_NOTE) {
            size_t length = segment.p_filesz < sizeof(notes) ? (size_t)segment.p_filesz : sizeof(notes);
            found = read_at(fd, notes, length, segment.p_offset) && find_note(notes, length, out, size);
        }
    }
    if (!found) {
        found = digest_ends(fd, out, size);
    }
done:
    close(fd);
    return elf && found;
}

/* ---------------------------------------------------------------- one candidate --------------------------------- */

struct search {
    struct nvrtc_location *out;
    bool found;
    struct buf tried; /* ", "-separated places, for the error */
    char too_old[PATH_MAX];
    int too_old_version;
};

/* "libnvrtc-builtins.so.12.8" or "….so.12.8.93" → 12080; 0: another name. */
static int builtins_version(const char *name) {
    int major = 0, minor = 0;
    if (sscanf(name, "libnvrtc-builtins.so.%d.%d", &major, &minor) != 2 || major < 1 || major > 99 || minor < 0 ||
        minor > 99) {
        return 0;
    }
    return 1000 * major + 10 * minor;
}

/* The builtins that belong to the library: of its major version, and where there are several, of the minor version in
 * the library's resolved name ("libnvrtc.so.12.8.93"), else the newest. */
static void find_builtins(struct nvrtc_location *where) {
    char directory[PATH_MAX], best[256] = "";
    int major = 0, minor = -1, best_version = 0;
    const char *file = strrchr(where->path, '/') + 1;
    snprintf(directory, sizeof(directory), "%.*s", (int)(file - where->path), where->path);
    if (sscanf(file, "libnvrtc.so.%d.%d", &major, &minor) < 1) {
        major = 0;
    }
    DIR *listing = opendir(directory);
    if (listing == NULL) {
        return;
    }
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        int version = builtins_version(entry->d_name);
        if (version == 0 || (major != 0 && version / 1000 != major) || (minor >= 0 && version % 1000 / 10 != minor) ||
            version < best_version) {
            continue;
        }
        /* Of "….so.12.8" and "….so.12.8.93" the shorter is the name that the library asks for. */
        if (version == best_version && strlen(entry->d_name) >= strlen(best)) {
            continue;
        }
        best_version = version;
        snprintf(best, sizeof(best), "%s", entry->d_name);
    }
    closedir(listing);
    if (best_version != 0 &&
        (size_t)snprintf(where->builtins, sizeof(where->builtins), "%s%s", directory, best) < sizeof(where->builtins)) {
        where->version = best_version;
    } else {
        where->builtins[0] = '\0';
    }
}

/* Takes the file if it is a library that is new enough, as far as that can be seen. */
static bool try_file(struct search *search, const char *path, const char *origin) {
    struct nvrtc_location where = {0};
    if (realpath(path, where.path) == NULL ||
        !nvrtc_read_build_id(where.path, where.build_id, sizeof(where.build_id))) {
        return false;
    }
    snprintf(where.origin, sizeof(where.origin), "%s", origin);
    find_builtins(&where);
    if (where.version != 0 && where.version < NVRTC_MIN_VERSION) {
        if (search->too_old[0] == '\0') {
            snprintf(search->too_old, sizeof(search->too_old), "%s", where.path);
            search->too_old_version = where.version;
        }
        return false;
    }
    *search->out = where;
    search->found = true;
    return true;
}

static void note_tried(struct search *search, const char *place) {
    buf_printf(&search->tried, "%s%s", search->tried.length == 0 ? "" : ", ", place);
}

static bool try_directory(struct search *search, const char *directory, const char *origin) {
    char path[PATH_MAX];
    for (size_t i = 0; i < SONAME_COUNT; i++) {
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, sonames[i]) < sizeof(path) &&
            try_file(search, path, origin)) {
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- the steps of the search ----------------------- */

static bool is_nvrtc_name(const char *name) {
    return strncmp(name, "libnvrtc.so", 11) == 0 && (name[11] == '\0' || name[11] == '.');
}

static int visit_loaded(struct dl_phdr_info *info, size_t size, void *arg) {
    const char *slash = info->dlpi_name == NULL ? NULL : strrchr(info->dlpi_name, '/');
    (void)size;
    if (slash != NULL && is_nvrtc_name(slash + 1)) {
        snprintf(arg, PATH_MAX, "%s", info->dlpi_name);
        return 1;
    }
    return 0;
}

static bool try_loaded(struct search *search) {
    char path[PATH_MAX] = "";
    dl_iterate_phdr(visit_loaded, path);
    return path[0] != '\0' && try_file(search, path, "already loaded");
}

static bool try_path_list(struct search *search, const char *variable) {
    const char *list = secure_getenv(variable);
    while (list != NULL && *list != '\0') {
        char directory[PATH_MAX];
        size_t length = strcspn(list, ":;");
        if (length > 0 && length < sizeof(directory)) {
            memcpy(directory, list, length);
            directory[length] = '\0';
            if (try_directory(search, directory, variable)) {
                return true;
            }
        }
        list += length + (list[length] != '\0');
    }
    return false;
}

/* /etc/ld.so.cache in the format of glibc 2.2 and newer (glibc's dl-cache.h): a header, `count` entries, then the strings,
 * whose offsets count from the header. */
struct cache_header {
    char magic[20]; /* "glibc-ld.so.cache1.1", no NUL */
    uint32_t count, string_bytes;
    uint8_t flags, padding[3];
    uint32_t extension_offset, unused[3];
};
struct cache_entry_text {
    int32_t flags;
    uint32_t key, value; /* offsets of soname and path */
    uint32_t os_version;
    uint64_t hwcap;
};

static const char *cache_text(const uint8_t *data, size_t size, uint32_t offset) {
    return offset < size && memchr(data + offset, '\0', size - offset) != NULL ? (const char *)data + offset : NULL;
}

static bool try_loader_cache(struct search *search) {
    bool found = false;
    struct stat info;
    uint8_t *data = NULL;
    size_t size = 0;
    struct cache_header head;
    int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0 || info.st_size > 64 << 20) {
        goto done;
    }
    size = (size_t)info.st_size;
    data = malloc(size + 1);
    if (data == NULL || !read_at(fd, data, size, 0) || size < sizeof(head)) {
        goto done;
    }
    memcpy(&head, data, sizeof(head));
    if (memcmp(head.magic, "glibc-ld.so.cache1.1", sizeof(head.magic)) != 0 ||
        head.count > (size - sizeof(head)) / sizeof(struct cache_entry_text)) {
        goto done;
    }
    for (size_t name = 0; name < SONAME_COUNT && !found; name++) {
        for (uint32_t i = 0; i < head.count && !found; i++) {
            struct cache_entry_text entry;
            memcpy(&entry, data + sizeof(head) + i * sizeof(entry), sizeof(entry));
            const char *key = cache_text(data, size, entry.key), *path = cache_text(data, size, entry.value);
            found =
                key != NULL && path != NULL && strcmp(key, sonames[name]) == 0 && try_file(search, path, "ld.so.cache");
        }
    }
done:
    free(data);
    if (fd >= 0) {
        close(fd);
    }
    return found;
}

static bool try_toolkit(struct search *search, const char *variable) {
    static const char *const folders[] = {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"};
    const char *root = secure_getenv(variable);
    char directory[PATH_MAX];
    for (size_t i = 0; root != NULL && root[0] != '\0' && i < sizeof(folders) / sizeof(folders[0]); i++) {
        if ((size_t)snprintf(directory, sizeof(directory), "%s/%s", root, folders[i]) < sizeof(directory) &&
            try_directory(search, directory, variable)) {
            return true;
        }
    }
    return false;
}

/* Directories that match a pattern, the last in alphabetical order (the newest Python) first. */
static bool try_pattern(struct search *search, const char *root, const char *pattern, const char *origin) {
    char full[PATH_MAX];
    glob_t matches;
    bool found = false;
    if ((size_t)snprintf(full, sizeof(full), "%s%s", root, pattern) >= sizeof(full) ||
        glob(full, 0, NULL, &matches) != 0) {
        return false;
    }
    for (size_t i = matches.gl_pathc; i-- > 0 && !found;) {
        found = try_directory(search, matches.gl_pathv[i], origin);
    }
    globfree(&matches);
    return found;
}

static bool try_python(struct search *search) {
    static const char *const wheels[] = {"/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib"};
    static const struct {
        const char *variable; /* NULL: the pattern is absolute */
        const char *packages;
    } places[] = {
        {"VIRTUAL_ENV", "/lib/python3*/site-packages"},  {"CONDA_PREFIX", "/lib/python3*/site-packages"},
        {"HOME", "/.local/lib/python3*/site-packages"},  {NULL, "/usr/local/lib/python3*/dist-packages"},
        {NULL, "/usr/local/lib/python3*/site-packages"}, {NULL, "/usr/lib/python3*/dist-packages"},
        {NULL, "/usr/lib/python3*/site-packages"},       {NULL, "/opt/conda/lib/python3*/site-packages"},
        {NULL, "/opt/venv/lib/python3*/site-packages"},
    };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const char *root = places[i].variable == NULL ? "" : secure_getenv(places[i].variable);
        for (size_t w = 0; root != NULL && w < sizeof(wheels) / sizeof(wheels[0]); w++) {
            char pattern[256];
            snprintf(pattern, sizeof(pattern), "%s%s", places[i].packages, wheels[w]);
            if (try_pattern(search, root, pattern, "Python package")) {
                return true;
            }
        }
    }
    return false;
}

static bool try_everything(struct search *search) {
    note_tried(search, "libraries already loaded");
    note_tried(search, "LD_LIBRARY_PATH");
    note_tried(search, "/etc/ld.so.cache");
    note_tried(search, "CUDA_HOME, CUDA_PATH, CONDA_PREFIX");
    note_tried(search, "/usr/local/cuda/lib64");
    note_tried(search, "Python packages (nvidia-cuda-nvrtc)");
    return try_loaded(search) || try_path_list(search, "LD_LIBRARY_PATH") || try_loader_cache(search) ||
           try_toolkit(search, "CUDA_HOME") || try_toolkit(search, "CUDA_PATH") ||
           try_toolkit(search, "CONDA_PREFIX") || try_directory(search, "/usr/local/cuda/lib64", "/usr/local/cuda") ||
           try_directory(search, "/usr/local/cuda/lib", "/usr/local/cuda") || try_python(search);
}

/* A file or a directory that somebody named: nothing else is tried. */
static void try_named(struct search *search, const char *path, const char *origin) {
    struct stat info;
    note_tried(search, path);
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        if (!try_directory(search, path, origin) && !search->too_old[0]) {
            buf_puts(&search->tried, ": no libnvrtc.so.13, libnvrtc.so.12 or libnvrtc.so in this directory");
        }
    } else if (!try_file(search, path, origin) && !search->too_old[0]) {
        buf_printf(&search->tried, ": %s", access(path, R_OK) != 0 ? strerror(errno) : "not a 64-bit ELF library");
    }
}

grs_status nvrtc_locate(const char *path, struct nvrtc_location *out, grs_error *err) {
    struct search search = {.out = out};
    grs_status status = GRS_OK;
    const char *named = path, *origin = "nvrtc_path";
    memset(out, 0, sizeof(*out));
    if (named == NULL) {
        named = secure_getenv("GRS_NVRTC");
        origin = "GRS_NVRTC";
    }
    if (named != NULL && named[0] != '\0') {
        try_named(&search, named, origin);
    } else {
        try_everything(&search);
    }
    if (!search.found && search.too_old[0] != '\0') {
        status = error_set(err, GRS_ERR_COMPILER,
                           "%s is NVRTC %d.%d; %d.%d or newer is needed (pip install nvidia-cuda-nvrtc-cu12, or name "
                           "another in GRS_NVRTC)",
                           search.too_old, search.too_old_version / 1000, search.too_old_version % 1000 / 10,
                           NVRTC_MIN_VERSION / 1000, NVRTC_MIN_VERSION % 1000 / 10);
    } else if (!search.found) {
        status = error_set(err, GRS_ERR_COMPILER,
                           "NVRTC was not found (tried: %s); install it (pip install nvidia-cuda-nvrtc-cu12, or a CUDA "
                           "toolkit of %d.%d or newer) or name the library in GRS_NVRTC",
                           search.tried.data == NULL ? "" : search.tried.data, NVRTC_MIN_VERSION / 1000,
                           NVRTC_MIN_VERSION % 1000 / 10);
    }
    buf_free(&search.tried);
    return status;
}
