#include "runtime/environment.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/error.h"
#include "common/hash.h"

/* The first whose rank or size is there is the launcher: torchrun under Slurm sets both kinds. */
static const struct {
    const char *name, *rank, *size, *local_rank, *local_size;
} launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"Hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL},
};
#define LAUNCHER_COUNT (sizeof(launchers) / sizeof(launchers[0]))

static const char *variable(const char *name) {
    const char *text = name == NULL ? NULL : getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* A decimal number of at most nine digits in [min, max]. */
static grs_status number(const char *name, int min, int max, int *out, grs_error *err) {
    const char *text = variable(name);
    size_t digits = strspn(text, "0123456789");
    int value = digits < 10 ? atoi(text) : -1;
    if (digits == 0 || text[digits] != '\0' || value < min || value > max) {
        return error_set(err, GRS_ERR_ARGUMENT, "%s=%.64s; allowed: a number from %d to %d", name, text, min, max);
    }
    *out = value;
    return GRS_OK;
}

static grs_status read_ranks(size_t which, struct environment *out, grs_error *err) {
    const char *rank = launchers[which].rank, *size = launchers[which].size;
    if (variable(rank) == NULL || variable(size) == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "%s is set and %s is not: both are needed",
                         variable(rank) == NULL ? size : rank, variable(rank) == NULL ? rank : size);
    }
    grs_status status = number(size, 1, GRS_MAX_TP, &out->size, err);
    if (status != GRS_OK || (status = number(rank, 0, out->size - 1, &out->rank, err)) != GRS_OK) {
        return status;
    }
    out->launcher = launchers[which].name;
    out->local_rank = out->rank;
    out->local_size = out->size;
    if (variable(launchers[which].local_size) != NULL) {
        status = number(launchers[which].local_size, 1, out->size, &out->local_size, err);
    }
    if (status == GRS_OK && variable(launchers[which].local_rank) != NULL) {
        status = number(launchers[which].local_rank, 0, out->local_size - 1, &out->local_rank, err);
    }
    return status;
}

/* What only this job's processes have in common. Empty: nothing says. */
static void identify_job(struct buf *out) {
    static const char *const names[] = {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
                                        "PMIX_NAMESPACE",      "PMI_JOBID",
                                        "SLURM_JOB_ID",        "SLURM_STEP_ID"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (variable(names[i]) != NULL) {
            buf_printf(out, "%s=%s\n", names[i], variable(names[i]));
        }
    }
}

/* torchrun's own store listens on MASTER_PORT, so ours is the next one. */
static grs_status read_place(struct environment *out, grs_error *err) {
    const char *address = variable("GRS_MASTER_ADDR");
    struct buf job = {0};
    grs_status status = GRS_OK;
    address = address != NULL ? address : variable("MASTER_ADDR");
    if (snprintf(out->address, sizeof(out->address), "%s", address == NULL ? "127.0.0.1" : address) >=
        (int)sizeof(out->address)) {
        return error_set(err, GRS_ERR_ARGUMENT, "MASTER_ADDR is longer than %zu bytes", sizeof(out->address) - 1);
    }
    identify_job(&job);
    if (variable("GRS_MASTER_PORT") != NULL) {
        status = number("GRS_MASTER_PORT", 1, 65535, &out->port, err);
    } else if (variable("MASTER_PORT") != NULL) {
        status = number("MASTER_PORT", 1, 65535, &out->port, err);
        out->port += out->port < 65535 ? 1 : -1;
    } else if (job.length > 0) {
        uint8_t digest[32];
        buf_printf(&job, "user=%u\n", (unsigned)geteuid());
        hash_sha256(job.data, job.length, digest);
        out->port = 20000 + (digest[0] * 256 + digest[1]) % 12000; /* below the ports that systems hand out */
    } else {
        status = error_set(err, GRS_ERR_ARGUMENT,
                           "neither GRS_MASTER_PORT nor MASTER_PORT is set, and nothing of %s names the job: set "
                           "GRS_MASTER_PORT to a free port, the same on all ranks",
                           out->launcher);
    }
    buf_free(&job);
    return status;
}

static grs_status make_token(struct environment *out, grs_error *err) {
    const char *given = getenv("GRS_TOKEN");
    struct buf job = {0};
    if (given != NULL && given[0] != '\0') {
        return snprintf(out->token, sizeof(out->token), "%s", given) < (int)sizeof(out->token)
                   ? GRS_OK
                   : error_set(err, GRS_ERR_ARGUMENT, "GRS_TOKEN is longer than %zu bytes", sizeof(out->token) - 1);
    }
    identify_job(&job);
    buf_printf(&job, "%s:%d size=%d user=%u", out->address, out->port, out->size, (unsigned)geteuid());
    if (job.data != NULL) {
        hash_sha256_hex(job.data, job.length, out->token);
    }
    buf_free(&job);
    return GRS_OK;
}

grs_status environment_read(struct environment *out, grs_error *err) {
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < LAUNCHER_COUNT; i++) {
        /* Slurm's two names of the size: the second row decides what is missing. */
        bool has_rank = variable(launchers[i].rank) != NULL, has_size = variable(launchers[i].size) != NULL;
        bool shares_rank = i + 1 < LAUNCHER_COUNT && strcmp(launchers[i].rank, launchers[i + 1].rank) == 0;
        /* Slurm's batch scripts set SLURM_NTASKS, and that is no launch. */
        if (has_rank || (has_size && i == 0)) {
            if (!has_size && shares_rank) {
                continue;
            }
            grs_status status = read_ranks(i, out, err);
            status = status == GRS_OK ? read_place(out, err) : status;
            return status == GRS_OK ? make_token(out, err) : status;
        }
    }
    return error_set(err, GRS_ERR_ARGUMENT,
                     "no launcher's variables are set: RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK (mpirun), "
                     "PMI_RANK (Hydra) or SLURM_PROCID (srun)");
}

int environment_device(const struct environment *environment, int visible) {
    if (visible < 1) {
        return 0;
    }
    int block = (environment->local_size + visible - 1) / visible;
    return environment->local_rank / block;
}
