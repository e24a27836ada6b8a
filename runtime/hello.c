#include "runtime/hello.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "runtime/told.h"

static const char magic[8] = {'g', 'r', 's', '-', 'r', 'i', 'n', 'g'};

/* ---------------------------------------------------------------- agreement ------------------------------------- */

grs_status agree_errors(int size, grs_status (*get)(const void *arg, int rank, const char **text),
                        const char *(*name)(const void *arg, int rank), const void *arg, grs_error *err) {
    grs_status first = GRS_OK;
    struct buf all = {0};
    for (int rank = 0; rank < size; rank++) {
        const char *text = "";
        grs_status status = get(arg, rank, &text);
        if (status != GRS_OK) {
            first = first == GRS_OK ? status : first;
            buf_printf(&all, "%s%s: %s", all.length > 0 ? "\n" : "", name(arg, rank), text);
        }
    }
    if (first != GRS_OK) {
        error_set(err, first, "%s", all.data == NULL ? "out of memory" : all.data);
    }
    buf_free(&all);
    return first;
}

static void list_ranks(const bool *member, int size, struct buf *out) {
    int count = 0, done = 0;
    for (int rank = 0; rank < size; rank++) {
        count += member[rank];
    }
    buf_puts(out, count == 1 ? "rank " : "ranks ");
    for (int rank = 0; rank < size; rank++) {
        if (member[rank]) {
            buf_printf(out, "%s%d", done == 0 ? "" : (done == count - 1 ? " and " : ", "), rank);
            done++;
        }
    }
}

#define VALUE_BYTES 128

bool agree_differ(const char *what, int size, void (*get)(const void *arg, int rank, char *out, size_t size),
                  const void *arg, struct buf *out) {
    char value[GRS_MAX_TP][VALUE_BYTES];
    bool told[GRS_MAX_TP] = {false}, differ = false;
    for (int rank = 0; rank < size; rank++) {
        get(arg, rank, value[rank], VALUE_BYTES);
        differ |= strcmp(value[rank], value[0]) != 0;
    }
    if (!differ) {
        return false;
    }
    buf_printf(out, "%s%s: ", out->length > 0 ? "\n" : "", what);
    for (int rank = 0; rank < size; rank++) {
        bool member[GRS_MAX_TP] = {false};
        if (told[rank]) {
            continue;
        }
        for (int other = rank; other < size; other++) {
            member[other] = strcmp(value[other], value[rank]) == 0;
            told[other] |= member[other];
        }
        buf_printf(out, "%s%s on ", rank > 0 ? "; " : "", value[rank]);
        list_ranks(member, size, out);
    }
    return true;
}

/* ---------------------------------------------------------------- hello ----------------------------------------- */

static void read_line(const char *path, char *out, size_t size) {
    FILE *file = fopen(path, "re");
    out[0] = '\0';
    if (file != NULL) {
        if (fgets(out, (int)size, file) != NULL) {
            out[strcspn(out, "\n")] = '\0';
        }
        fclose(file);
    }
}

void hello_init(struct hello *out, int rank, int size) {
    struct utsname host;
    struct stat network;
    memset(out, 0, sizeof(*out));
    memcpy(out->magic, magic, sizeof(magic));
    out->bytes = sizeof(*out);
    out->rank = rank;
    out->size = size;
    out->process = (int32_t)getpid();
    out->user = (uint32_t)geteuid();
    snprintf(out->version, sizeof(out->version), "%s", grs_version());
    if (uname(&host) == 0) {
        snprintf(out->host, sizeof(out->host), "%.63s", host.nodename);
    }
    read_line("/proc/sys/kernel/random/boot_id", out->boot, sizeof(out->boot));
    if (stat("/proc/self/ns/net", &network) == 0) {
        out->network[0] = (uint64_t)network.st_dev;
        out->network[1] = (uint64_t)network.st_ino;
    }
    snprintf(out->device, sizeof(out->device), "no GPU");
}

static void end_text(char *text, size_t size) {
    told_text(text, strnlen(text, size - 1));
}

static bool is_hello(struct hello *hello, int rank) {
    if (memcmp(hello->magic, magic, sizeof(magic)) != 0 || hello->bytes != sizeof(*hello)) {
        return false;
    }
    end_text(hello->version, sizeof(hello->version));
    end_text(hello->host, sizeof(hello->host));
    end_text(hello->boot, sizeof(hello->boot));
    end_text(hello->device, sizeof(hello->device));
    end_text(hello->text, sizeof(hello->text));
    hello->address.path[sizeof(hello->address.path) - 1] = '\0';
    return hello->rank == rank;
}

void hello_name(const struct hello *hello, char *out, size_t size) {
    snprintf(out, size, "rank %d (process %d on %s)", hello->rank, hello->process, hello->device);
}

int hello_sharers(const struct hello *all, int size, int rank) {
    int sharers = 0;
    for (int other = 0; other < size; other++) {
        sharers += memcmp(all[other].gpu, all[rank].gpu, sizeof(all[rank].gpu)) == 0;
    }
    return sharers;
}

static void get_version(const void *arg, int rank, char *out, size_t size) {
    snprintf(out, size, "%s", ((const struct hello *)arg)[rank].version);
}
static void get_size(const void *arg, int rank, char *out, size_t size) {
    snprintf(out, size, "%d", ((const struct hello *)arg)[rank].size);
}
static void get_host(const void *arg, int rank, char *out, size_t size) {
    const struct hello *hello = &((const struct hello *)arg)[rank];
    snprintf(out, size, "%s (boot id %s)", hello->host, hello->boot);
}
/* Containers have host names of their own; what is the same kernel is the same host. */
static void get_boot(const void *arg, int rank, char *out, size_t size) {
    const struct hello *hello = &((const struct hello *)arg)[rank];
    snprintf(out, size, "%s", hello->boot[0] == '\0' ? hello->host : hello->boot);
}
static void get_user(const void *arg, int rank, char *out, size_t size) {
    snprintf(out, size, "%u", ((const struct hello *)arg)[rank].user);
}
static void get_network(const void *arg, int rank, char *out, size_t size) {
    const struct hello *hello = &((const struct hello *)arg)[rank];
    snprintf(out, size, "%llu", hello->address.in_directory ? 0ull : (unsigned long long)hello->network[1]);
}

static grs_status hello_status(const void *arg, int rank, const char **text) {
    const struct hello *hello = &((const struct hello *)arg)[rank];
    *text = hello->text;
    return told_status(hello->status);
}
static const char *hello_who(const void *arg, int rank) {
    static _Thread_local char name[160];
    hello_name(&((const struct hello *)arg)[rank], name, sizeof(name));
    return name;
}

grs_status hello_check(struct hello *all, int size, grs_error *err) {
    struct buf text = {0}, hosts = {0};
    for (int rank = 0; rank < size; rank++) {
        if (!is_hello(&all[rank], rank)) {
            return error_set(err, GRS_ERR_PEER,
                             "what the bootstrap's all-gather gave for rank %d is not what that rank of this version "
                             "of the library (%s) sends: another version, another number, or a broken all-gather",
                             rank, grs_version());
        }
    }
    grs_status status = agree_errors(size, hello_status, hello_who, all, err);
    if (status != GRS_OK) {
        return status;
    }
    agree_differ("library version", size, get_version, all, &text);
    agree_differ("number of ranks", size, get_size, all, &text);
    if (agree_differ("", size, get_boot, all, &hosts)) {
        if (!agree_differ("host", size, get_host, all, &text)) {
            buf_puts(&text, "host: the ranks are on several");
        }
        buf_puts(&text, " (memory can be shared within one host)");
    }
    agree_differ("user", size, get_user, all, &text);
    if (agree_differ("network namespace", size, get_network, all, &text)) {
        buf_puts(&text, " (containers need a common one, or GRS_SOCKET_DIR in a common directory)");
    }
    if (text.length > 0) {
        status = error_set(err, GRS_ERR_PEER, "the ranks differ: %s", text.data == NULL ? "out of memory" : text.data);
    }
    buf_free(&text);
    buf_free(&hosts);
    return status;
}
