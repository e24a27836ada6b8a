/* grsrun --procs: forks a process a rank, passes signals on to them, and shows what they write, line by line. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "common/error.h"
#include "tools/grsrun_rank.h"

struct child {
    pid_t process;
    int pipes[2];       /* its standard output and error; -1: closed */
    struct buf text[2]; /* a line that has not ended yet */
};

static volatile sig_atomic_t children_count;
static struct child children[GRS_MAX_TP];

static void pass_on(int signal) {
    for (int rank = 0; rank < children_count; rank++) {
        kill(children[rank].process, signal);
    }
}

/* ---------------------------------------------------------------- meeting place --------------------------------- */

/* A port of this host that is free now. */
static grs_status choose_port(int *out, grs_error *err) {
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(where);
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = file >= 0 && bind(file, (struct sockaddr *)&where, sizeof(where)) == 0 &&
                 getsockname(file, (struct sockaddr *)&where, &length) == 0;
    grs_status status =
        bound ? GRS_OK : error_set(err, GRS_ERR_IO, "a port for the ranks to meet at: %s", strerror(errno));
    *out = ntohs(where.sin_port);
    if (file >= 0) {
        close(file);
    }
    return status;
}

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

static grs_status set_place(int tp, grs_error *err) {
    unsigned char secret[16];
    char token[2 * sizeof(secret) + 1];
    int port = 0;
    grs_status status = choose_port(&port, err);
    if (!status && getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret)) {
        status = error_set(err, GRS_ERR_IO, "getrandom: %s", strerror(errno));
    }
    if (status) {
        return status;
    }
    for (size_t i = 0; i < sizeof(secret); i++) {
        snprintf(token + 2 * i, 3, "%02x", secret[i]);
    }
    setenv("GRS_TOKEN", token, 1);
    setenv("GRS_MASTER_ADDR", "127.0.0.1", 1);
    set_number("GRS_MASTER_PORT", port);
    set_number("WORLD_SIZE", tp);
    set_number("LOCAL_WORLD_SIZE", tp);
    return GRS_OK;
}

/* ---------------------------------------------------------------- children -------------------------------------- */

static void be_a_rank(const struct grsrun_options *options, int rank, const int *pipes, pid_t parent) {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* no rank outlives grsrun */
    if (getppid() != parent) {
        _exit(GRSRUN_FAILED);
    }
    for (int i = 0; i < 2; i++) {
        dup2(pipes[i], 1 + i);
        close(pipes[i]);
    }
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank);
    int code = rank_main(options, false);
    fflush(NULL);
    _exit(code);
}

static grs_status start(const struct grsrun_options *options, int rank, grs_error *err) {
    struct child *child = &children[rank];
    int ends[2][2] = {{-1, -1}, {-1, -1}};
    pid_t parent = getpid();
    fflush(NULL);
    *child = (struct child){.process = -1, .pipes = {-1, -1}};
    if (pipe2(ends[0], O_CLOEXEC) == 0 && pipe2(ends[1], O_CLOEXEC) == 0) {
        child->process = fork();
    }
    if (child->process == 0) {
        be_a_rank(options, rank, (const int[]){ends[0][1], ends[1][1]}, parent);
    }
    for (int i = 0; i < 2; i++) {
        child->pipes[i] = ends[i][0];
        if (ends[i][1] >= 0) {
            close(ends[i][1]);
        }
    }
    if (child->process < 0) {
        return error_set(err, GRS_ERR_MEMORY, "no process for rank %d: %s", rank, strerror(errno));
    }
    children_count = rank + 1;
    return GRS_OK;
}

/* Whole lines, each with its rank, so that ranks do not write into each other's. */
static void show(int rank, int which, const char *data, size_t length) {
    struct buf *text = &children[rank].text[which];
    FILE *to = which == 0 ? stdout : stderr;
    buf_append(text, data, length);
    char *line = text->data;
    for (char *end; line && (end = strchr(line, '\n')); line = end + 1) {
        fprintf(to, "rank %d | %.*s\n", rank, (int)(end - line), line);
    }
    size_t left = line ? strlen(line) : 0;
    if (left) {
        memmove(text->data, line, left + 1);
    }
    text->length = left;
    fflush(to);
}

static void read_pipe(int rank, int which) {
    char data[4096];
    ssize_t got = read(children[rank].pipes[which], data, sizeof(data));
    for (ssize_t i = 0; i < got; i++) {
        data[i] = data[i] ? data[i] : '?';
    }
    if (got > 0) {
        show(rank, which, data, (size_t)got);
    } else if (got == 0 || errno != EINTR) {
        if (children[rank].text[which].length) {
            show(rank, which, "\n", 1);
        }
        buf_free(&children[rank].text[which]);
        close(children[rank].pipes[which]);
        children[rank].pipes[which] = -1;
    }
}

/* Ranks of other nodes do not hear of one that has failed, and would wait for it inside NCCL: they are given so many seconds. */
#define PATIENCE_SECONDS 10

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Whether a rank has ended and not well; it is not collected yet. */
static bool has_failed(int tp) {
    for (int rank = 0; rank < tp; rank++) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)children[rank].process, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid &&
            (info.si_code != CLD_EXITED || info.si_status)) {
            return true;
        }
    }
    return false;
}

/* `failed_at`: 0 until a rank has failed; below 0 when the others have been ended. */
static void lose_patience(int tp, double *failed_at) {
    if (*failed_at == 0 && has_failed(tp)) {
        *failed_at = seconds_now();
    } else if (*failed_at > 0 && seconds_now() - *failed_at > PATIENCE_SECONDS) {
        fprintf(stderr, "grsrun: a rank has failed, and %d s later others still wait: they are ended\n",
                PATIENCE_SECONDS);
        pass_on(SIGTERM);
        *failed_at = -1;
    }
}

static void show_all(int tp, bool over_nodes) {
    double failed_at = 0;
    for (;;) {
        struct pollfd polled[2 * GRS_MAX_TP];
        int open = 0;
        for (int i = 0; i < 2 * tp; i++) {
            polled[i] = (struct pollfd){.fd = children[i / 2].pipes[i % 2], .events = POLLIN};
            open += polled[i].fd >= 0;
        }
        if (open == 0) {
            return;
        }
        int ready = poll(polled, (nfds_t)(2 * tp), over_nodes ? 200 : -1);
        if (over_nodes) {
            lose_patience(tp, &failed_at);
        }
        for (int i = 0; ready > 0 && i < 2 * tp; i++) {
            if (polled[i].revents) {
                read_pipe(i / 2, i % 2);
            }
        }
    }
}

/* The first code that is not 0, in the order of ranks; a signal counts as a failure and is told. */
static int collect(int tp) {
    int code = GRSRUN_OK;
    for (int rank = 0; rank < tp; rank++) {
        int ended = 0;
        pid_t got;
        do {
            got = waitpid(children[rank].process, &ended, 0);
        } while (got < 0 && errno == EINTR);
        int mine = WIFEXITED(ended) ? WEXITSTATUS(ended) : GRSRUN_FAILED;
        if (WIFSIGNALED(ended)) {
            fprintf(stderr, "grsrun: rank %d was ended by signal %d (%s)\n", rank, WTERMSIG(ended),
                    strsignal(WTERMSIG(ended)));
        }
        code = code ? code : mine;
    }
    children_count = 0;
    return code;
}

static int start_ranks(const struct grsrun_options *options) {
    int tp = options->shapes[0].tp, started = 0;
    struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    grs_error err;
    grs_status status = set_place(tp, &err);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    for (; started < tp && !status; started += !status) {
        status = start(options, started, &err);
    }
    if (status) {
        pass_on(SIGTERM);
        fprintf(stderr, "grsrun: %s\n", err.text);
    }
    show_all(started, options->nodes > 0);
    int code = collect(started);
    return status ? grsrun_exit_code(status) : code;
}

/* Whether torchrun, mpirun or srun started this process. What they set and is wrong is an error of theirs. */
int grsrun_procs_main(const struct grsrun_options *options) {
    static const char *const ranks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        if (getenv(ranks[i])) {
            return rank_main(options, true);
        }
    }
    return start_ranks(options);
}
