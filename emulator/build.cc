#include "emulator/build.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "emulator/machine.h"

extern "C" {
#include "common/error.h"
#include "common/hash.h"
#include "generator/emit.h"
}

extern char **environ;

namespace {

const char *const flags[] = {"-x",
                             "c++",
                             "-std=c++17",
                             "-O1",
                             "-w",
                             "-Wno-psabi",
                             "-fPIC",
                             "-shared",
                             "-fvisibility=hidden",
                             "-fno-exceptions",
                             "-fno-rtti"};

struct source {
    std::string name, text;
};

// The compiler by its full path; "" when there is none.
std::string find_compiler() {
    const char *chosen = getenv("CXX");
    std::vector<std::string> names = {"c++", "g++", "clang++"};
    if (chosen && *chosen)
        names.insert(names.begin(), chosen);
    const char *path = getenv("PATH");
    std::string directories = path && *path ? path : "/usr/local/bin:/usr/bin:/bin";
    for (const std::string &name : names) {
        if (name.find('/') != std::string::npos) {
            if (access(name.c_str(), X_OK) == 0)
                return name;
            continue;
        }
        for (size_t begin = 0; begin <= directories.size();) {
            size_t end = std::min(directories.find(':', begin), directories.size());
            std::string candidate = directories.substr(begin, end - begin) + "/" + name;
            if (access(candidate.c_str(), X_OK) == 0)
                return candidate;
            begin = end + 1;
        }
    }
    return "";
}

grs_status write_file(const std::string &path, const std::string &text, grs_error *err) {
    int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return error_set(err, GRS_ERR_IO, "%s: %s", path.c_str(), strerror(errno));
    grs_status status = GRS_OK;
    for (size_t done = 0; done < text.size() && status == GRS_OK;) {
        ssize_t n = write(file, text.data() + done, text.size() - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            status = error_set(err, GRS_ERR_IO, "%s: %s", path.c_str(), strerror(errno));
        else
            done += static_cast<size_t>(n);
    }
    if (close(file) != 0 && status == GRS_OK)
        status = error_set(err, GRS_ERR_IO, "%s: %s", path.c_str(), strerror(errno));
    return status;
}

std::string read_file(const std::string &path, size_t most) {
    std::string text;
    int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    char buffer[4096];
    for (ssize_t n; file >= 0 && text.size() < most && (n = read(file, buffer, sizeof(buffer))) > 0;)
        text.append(buffer, static_cast<size_t>(n));
    if (file >= 0)
        close(file);
    return text;
}

// What the compiler is: its path, and its file's size and date, which change with an update.
std::string identity(const std::string &compiler) {
    struct stat s;
    if (stat(compiler.c_str(), &s) != 0)
        return compiler;
    return compiler + " " + std::to_string(s.st_size) + " " + std::to_string(s.st_mtime);
}

std::vector<std::string> split(const char *names) {
    std::vector<std::string> list;
    std::string all = names;
    for (size_t begin = 0; begin < all.size();) {
        size_t end = std::min(all.find(' ', begin), all.size());
        list.push_back(all.substr(begin, end - begin));
        begin = end + 1;
    }
    return list;
}

// Entries take their arguments by value. What crosses the border of the shared object is a pointer: compilers differ in how they
// pass an aligned struct.
std::string with_wrappers(const char *text, const char *names) {
    std::string all = text;
    for (const std::string &name : split(names))
        all += "extern \"C\" __attribute__((visibility(\"default\"))) void grs_emu_" + name +
               "(const grs_args *args) { " + name + "(*args); }\n";
    return all;
}

std::vector<source> sources(const std::string &text, const struct emu_header *changed) {
    std::vector<source> list;
    auto add = [&](const char *name, const char *content) {
        for (const source &s : list)
            if (s.name == name)
                return;
        list.push_back(source{name, content});
    };
    list.push_back(source{"kernel.cu", text});
    for (const struct emu_header *h = changed; h && h->name; ++h)
        add(h->name, h->text);
    for (const struct emu_header *h = emu_replacements; h->name; ++h)
        add(h->name, h->text);
    for (int i = 0; emit_headers[i].name; ++i)
        add(emit_headers[i].name, emit_headers[i].text);
    return list;
}

std::string digest(const std::vector<source> &list, const std::string &compiler) {
    std::string all = "grs emulated kernel 1\n" + identity(compiler) + "\n";
    for (const char *flag : flags)
        all += std::string(flag) + "\n";
    for (const source &s : list)
        all += s.name + " " + std::to_string(s.text.size()) + "\n" + s.text;
    char hex[HASH_HEX_LENGTH + 1];
    hash_sha256_hex(all.data(), all.size(), hex);
    return hex;
}

void remove_tree(const std::string &directory, const std::vector<source> &list) {
    for (const source &s : list)
        unlink((directory + "/" + s.name).c_str());
    unlink((directory + "/output").c_str());
    unlink((directory + "/kernel.so").c_str());
    rmdir((directory + "/grs").c_str());
    rmdir(directory.c_str());
}

// Runs the compiler in `directory`, its output going to a file there.
grs_status compile(const std::string &compiler, const std::string &directory, grs_error *err) {
    std::string include = "-I" + directory, input = directory + "/kernel.cu", output = directory + "/kernel.so",
                log = directory + "/output";
    std::vector<const char *> arguments = {compiler.c_str()};
    arguments.insert(arguments.end(), flags, flags + sizeof(flags) / sizeof(*flags));
    for (const char *a : {include.c_str(), "-o", output.c_str(), input.c_str(), static_cast<const char *>(nullptr)})
        arguments.push_back(a);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child;
    int failed =
        posix_spawn(&child, compiler.c_str(), &actions, nullptr, const_cast<char *const *>(arguments.data()), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed)
        return error_set(err, GRS_ERR_COMPILER, "%s: %s", compiler.c_str(), strerror(failed));
    int result;
    while (waitpid(child, &result, 0) < 0)
        if (errno != EINTR)
            return error_set(err, GRS_ERR_COMPILER, "%s: %s", compiler.c_str(), strerror(errno));
    if (WIFEXITED(result) && WEXITSTATUS(result) == 0)
        return GRS_OK;
    return error_set(err, GRS_ERR_COMPILER, "%s failed:\n%s", compiler.c_str(), read_file(log, 7000).c_str());
}

grs_status load(const std::string &path, const char *names, struct emu_kernel *kernel, grs_error *err) {
    kernel->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!kernel->library)
        return error_set(err, GRS_ERR_IO, "%s", dlerror());
    void *bind = dlsym(kernel->library, "grs_emu_bind");
    kernel->entry = emu_kernel_entry(kernel, split(names)[0].c_str());
    if (!bind || !kernel->entry)
        return error_set(err, GRS_ERR_COMPILER, "%s has no entry %s", path.c_str(), bind ? names : "grs_emu_bind");
    reinterpret_cast<void (*)(const emu_device *)>(bind)(&emu::device_table);
    return GRS_OK;
}

// True when nobody but this user (or root) can have written it.
bool is_ours(const std::string &path) {
    struct stat s;
    return lstat(path.c_str(), &s) == 0 && !S_ISLNK(s.st_mode) && (s.st_uid == geteuid() || s.st_uid == 0) &&
           (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

grs_status make_directory(const std::string &path, grs_error *err) {
    for (size_t i = 1; i <= path.size(); ++i)
        if ((i == path.size() || path[i] == '/') && mkdir(path.substr(0, i).c_str(), 0700) != 0 && errno != EEXIST)
            return error_set(err, GRS_ERR_IO, "%s: %s", path.substr(0, i).c_str(), strerror(errno));
    if (!is_ours(path))
        return error_set(err, GRS_ERR_IO, "%s: others may write it, so no code is loaded from it", path.c_str());
    return GRS_OK;
}

// Keeps the shared objects used last, so that the directory does not grow without end.
void forget_old_ones(const std::string &directory) {
    constexpr size_t most = 400, left = 300;
    struct entry {
        std::string name;
        struct timespec used;
    };
    std::vector<entry> entries;
    DIR *stream = opendir(directory.c_str());
    for (struct dirent *e; stream && (e = readdir(stream));) {
        std::string name = directory + "/" + e->d_name;
        struct stat s;
        if (name.size() > 3 && name.compare(name.size() - 3, 3, ".so") == 0 && lstat(name.c_str(), &s) == 0)
            entries.push_back(entry{name, s.st_mtim});
    }
    if (stream)
        closedir(stream);
    if (entries.size() <= most)
        return;
    std::sort(entries.begin(), entries.end(), [](const entry &a, const entry &b) {
        return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec > b.used.tv_sec : a.used.tv_nsec > b.used.tv_nsec;
    });
    for (size_t i = left; i < entries.size(); ++i)
        unlink(entries[i].name.c_str());
}

} // namespace

extern "C" grs_status emu_kernel_build(const char *text, const char *names, const struct emu_header *changed,
                                       const char *directory, struct emu_kernel **out, grs_error *err) {
    *out = nullptr;
    std::string compiler = find_compiler();
    if (compiler.empty())
        return error_set(err, GRS_ERR_COMPILER,
                         "emulated ranks need a C++17 compiler: set CXX, or install c++, g++ or clang++ into PATH");
    std::vector<source> list = sources(with_wrappers(text, names), changed);
    std::string kept;
    grs_status status = GRS_OK;
    if (directory) {
        if ((status = make_directory(directory, err)) != GRS_OK)
            return status;
        kept = std::string(directory) + "/" + digest(list, compiler) + ".so";
    }
    struct emu_kernel *kernel = new (std::nothrow) emu_kernel();
    if (!kernel)
        return error_set(err, GRS_ERR_MEMORY, "emulator: out of memory");
    if (directory && is_ours(kept) && load(kept, names, kernel, nullptr) == GRS_OK) {
        utimensat(AT_FDCWD, kept.c_str(), nullptr, 0); // used now
        *out = kernel;
        return GRS_OK;
    }

    const char *temporary = getenv("TMPDIR");
    std::string work = directory ? std::string(directory) : temporary && *temporary ? temporary : "/tmp";
    work += "/grs-emu-XXXXXX";
    if (!mkdtemp(&work[0])) {
        delete kernel;
        return error_set(err, GRS_ERR_IO, "%s: %s", work.c_str(), strerror(errno));
    }
    if (mkdir((work + "/grs").c_str(), 0700) != 0)
        status = error_set(err, GRS_ERR_IO, "%s/grs: %s", work.c_str(), strerror(errno));
    for (size_t i = 0; i < list.size() && status == GRS_OK; ++i)
        status = write_file(work + "/" + list[i].name, list[i].text, err);
    if (status == GRS_OK)
        status = compile(compiler, work, err);
    std::string built = work + "/kernel.so";
    if (status == GRS_OK && directory) {
        if (rename(built.c_str(), kept.c_str()) != 0)
            status = error_set(err, GRS_ERR_IO, "%s: %s", kept.c_str(), strerror(errno));
        built = kept;
        forget_old_ones(directory);
    }
    if (status == GRS_OK)
        status = load(built, names, kernel, err);
    remove_tree(work, list); // a shared object that is loaded needs no name
    if (status != GRS_OK) {
        emu_kernel_free(kernel);
        return status;
    }
    *out = kernel;
    return GRS_OK;
}

extern "C" emu_entry emu_kernel_entry(const struct emu_kernel *kernel, const char *name) {
    return reinterpret_cast<emu_entry>(dlsym(kernel->library, (std::string("grs_emu_") + name).c_str()));
}

extern "C" void emu_kernel_free(struct emu_kernel *kernel) {
    if (!kernel)
        return;
    if (kernel->library)
        dlclose(kernel->library);
    delete kernel;
}
