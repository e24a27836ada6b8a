#include "tools/grsgen_sass.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"

extern char **environ;

static bool is_program(const char *directory, size_t length, const char *name, char *out, size_t size) {
    int wanted = snprintf(out, size, "%.*s/%s", (int)length, directory, name);
    return length && wanted > 0 && (size_t)wanted < size && access(out, X_OK) == 0;
}

/* In PATH, then in the toolkit that CUDA_HOME or CUDA_PATH names, then in the usual one. */
static bool find_program(const char *name, char *out, size_t size) {
    for (const char *path = getenv("PATH"); path && *path;) {
        size_t length = strcspn(path, ":");
        if (is_program(path, length, name, out, size))
            return true;
        path += length + (path[length] == ':');
    }
    const char *toolkits[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
    for (size_t i = 0; i < sizeof toolkits / sizeof toolkits[0]; i++) {
        char directory[4096];
        if (!toolkits[i] || snprintf(directory, sizeof directory, "%s/bin", toolkits[i]) >= (int)sizeof directory)
            continue;
        if (is_program(directory, strlen(directory), name, out, size))
            return true;
    }
    return false;
}

/* Standard output of a program into `out`; its standard error is left alone. */
static grs_status run(char *const argv[], struct buf *out, grs_error *err) {
    grs_status status = GRS_OK;
    int pipe_fd[2];
    if (pipe(pipe_fd) != 0)
        return error_set(err, GRS_ERR_IO, "%s: %s", argv[0], strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fd[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, pipe_fd[0]);
    posix_spawn_file_actions_addclose(&actions, pipe_fd[1]);
    pid_t child;
    int failure = posix_spawn(&child, argv[0], &actions, NULL, argv, environ), ended = 0;
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fd[1]);
    char piece[65536];
    for (ssize_t got = 1; !failure && got;) {
        got = read(pipe_fd[0], piece, sizeof piece);
        if (got > 0)
            buf_append(out, piece, (size_t)got);
        else if (got < 0 && errno != EINTR)
            break;
    }
    close(pipe_fd[0]);
    if (failure)
        return error_set(err, GRS_ERR_IO, "%s: cannot be started: %s", argv[0], strerror(failure));
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0)
        status =
            error_set(err, GRS_ERR_IO, "%s failed (status %d)", argv[0], WIFEXITED(ended) ? WEXITSTATUS(ended) : -1);
    return status;
}

grs_status sass_disassemble(const void *cubin, size_t size, struct buf *out, grs_error *err) {
    char program[4096], path[] = "/tmp/grsgen-XXXXXX";
    bool nvdisasm = find_program("nvdisasm", program, sizeof program);
    if (!nvdisasm && !find_program("cuobjdump", program, sizeof program))
        return error_set(
            err, GRS_ERR_UNSUPPORTED,
            "SASS needs nvdisasm or cuobjdump, and neither is in PATH or a CUDA toolkit; to install one: "
            "pip install nvidia-cuda-nvdisasm, or apt install cuda-nvdisasm-13-0 from NVIDIA's repository");
    int fd = mkstemp(path);
    if (fd < 0)
        return error_set(err, GRS_ERR_IO, "%s: %s", path, strerror(errno));
    FILE *file = fdopen(fd, "wb");
    bool written = file && fwrite(cubin, 1, size, file) == size;
    if (file ? fclose(file) != 0 : close(fd) != 0)
        written = false;
    grs_status status;
    if (!written) {
        status = error_set(err, GRS_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    } else {
        char *argv[] = {program, nvdisasm ? "-c" : "-sass", path, NULL};
        status = run(argv, out, err);
    }
    unlink(path);
    return status;
}
