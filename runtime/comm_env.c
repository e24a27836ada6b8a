/* A communicator from what a launcher says: environment, rendezvous, then as with any bootstrap. */
#include "common/error.h"
#include "runtime/environment.h"
#include "runtime/peers.h"
#include "runtime/rendezvous.h"

grs_status grs_comm_create_env(grs_ctx *ctx, const grs_comm_options *options, grs_comm **out, grs_error *err) {
    struct environment environment;
    struct rendezvous rendezvous;
    double seconds;
    int visible = 0;
    grs_error own;
    err = err == NULL ? &own : err;
    if (ctx == NULL || out == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_comm_create_env: %s is NULL", ctx == NULL ? "ctx" : "out");
    }
    *out = NULL;
    grs_status status = environment_read(&environment, err);
    if (status != GRS_OK || (status = peers_setup_seconds(options, &seconds, err)) != GRS_OK) {
        return status;
    }
    status = rendezvous_open(&rendezvous, environment.address, environment.port, environment.token, environment.rank,
                             environment.size, seconds, err);
    if (status == GRS_OK) {
        const struct driver *drv =
            driver_get(NULL); /* a rank without one says so to the others, as peers_create does */
        if (drv != NULL) {
            drv->cuDeviceGetCount(&visible);
        }
        const grs_bootstrap bootstrap = {.size = sizeof(bootstrap),
                                         .arg = &rendezvous,
                                         .all_gather = rendezvous_all_gather,
                                         .barrier = rendezvous_barrier,
                                         .abort = rendezvous_abort};
        log_write(&ctx->log, GRS_LOG_DEBUG, "rank %d of %d by the variables of %s, rank 0 at %s", environment.rank,
                  environment.size, environment.launcher, rendezvous.place);
        status = peers_create(ctx, environment.rank, environment.size, environment_device(&environment, visible),
                              &bootstrap, &rendezvous.error, options, out, err);
    }
    rendezvous_close(&rendezvous);
    return status;
}
