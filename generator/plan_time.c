#include "generator/plan_time.h"

#include <stdlib.h>

#include "generator/machine.h"
#include "generator/tileorder.h"

/* Fitted by bench/fit_times.c to what bench/measured_times.h holds: rows back to back of two H200 SXM, commit 4c2b7a63b831. The
 * hop is held. */
static const struct plan_times h200 = {
    .tensor_tflops = 875,
    .operand_tbps = 11.7,
    .beside_ns_kib = 25.5,
    .copy_ns_kib = 49.6,
    .launch_us = 2.86,
    .hop_us = 3.0,
    .throttle = 0.131,
};

const struct plan_times *plan_times_of(enum arch arch) {
    return config_arch_family(arch) == ARCH_SM90A ? &h200 : NULL;
}

const char *plan_time_unknown(const struct plan *plan) {
    if (!plan_times_of(plan->arch))
        return "nothing was measured on this arch";
    if (plan->value[FIELD_SCHEDULE] != SCHEDULE_COOPERATIVE && plan->shape.tp > 1)
        return "too little was measured with tile.schedule: pingpong in a ring";
    return NULL;
}

/* The power limit is averaged over a while: short products never feel it, long ones wholly. Of the product alone, in
 * microseconds at the machine's rate. */
#define THROTTLE_FROM 200
#define THROTTLE_FULL 600

#define MOST_DEPTH  8  /* of ring.depth */
#define FULL_WAVES  32 /* that are played through; beyond, every wave takes as long as those did */
#define FEWER_WAVES 16

static double larger(double a, double b) {
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* When the parts of a CTA are free again, in microseconds since the first products of the launch. */
struct cta {
    double math, buffer, sender;
    double places[MOST_DEPTH]; /* of the outbox; ring.place: shared: tile buffers */
    int64_t used;
};

struct player {
    const struct plan *plan;
    const struct plan_times *times;
    struct tileorder order;
    bool shared;
    int grid, depth;
    double product;              /* of a tile, in microseconds                    */
    double link_ns_byte;         /* of the whole link                             */
    double pace_ns_byte;         /* of one CTA's sends, when it keeps to its pace */
    double link_free;            /* the moment at which all that was sent is over */
    struct cta *ctas;            /* [grid]                                        */
    double *landed;              /* [turn][group of tiles]: when downstream may load the last of them */
    int64_t groups, group_tiles; /* of a turn, of a group                    */
};

/* Bytes of a tile that the segment and N reach. */
static int64_t bytes_of(const struct tileorder *order, int turn, int64_t tile) {
    const int64_t *v = order->plan->value;
    int64_t down, across;
    int owner = tileorder_owner(order, turn);
    tileorder_raster(order, owner, tile, &down, &across);
    int64_t rows =
        smaller(v[FIELD_TILE_M], plan_segment_rows_of(order->plan, order->M, owner) - down * v[FIELD_TILE_M]);
    int64_t columns = smaller(v[FIELD_TILE_N], order->plan->shape.n - across * v[FIELD_TILE_N]);
    return rows > 0 ? rows * columns * 2 : 0;
}

/* A block of K takes as long as its products or as its operands, whichever is longer; a CTA pair or a cluster shares B. */
static double product_us(const struct plan *plan, const struct plan_times *times, double throttle) {
    const int64_t *v = plan->value;
    int sms = machine_of(plan->arch)->sms;
    double blocks = (double)((plan->shape.k + v[FIELD_TILE_K] - 1) / v[FIELD_TILE_K]);
    double flops = 2.0 * (double)(v[FIELD_TILE_M] * v[FIELD_TILE_N] * v[FIELD_TILE_K]);
    double bytes = 2.0 * (double)((v[FIELD_TILE_M] + v[FIELD_TILE_N] / v[FIELD_CLUSTER]) * v[FIELD_TILE_K]);
    return blocks * throttle *
           larger(flops / (times->tensor_tflops * 1e6 / sms), bytes / (times->operand_tbps * 1e6 / sms));
}

/* Bytes in or out of a tile buffer while somebody waits for them. */
static double copy_us(const struct player *player, int64_t bytes) {
    return player->times->copy_ns_kib * 1e-3 / 1024 * (double)bytes;
}

/* Over the link from this moment on, at the CTA's pace and the link's: when the last byte has left. */
static double push(struct player *player, struct cta *cta, double from, int64_t bytes) {
    player->link_free = larger(player->link_free, from) + player->link_ns_byte * 1e-3 * (double)bytes;
    double paced = larger(cta->sender, from) + player->pace_ns_byte * 1e-3 * (double)bytes;
    return cta->sender = larger(paced, player->link_free);
}

/* A tile's way to the peer from the moment at which its sum is in the tile buffer: into the outbox and from there, or, with
 * ring.place: shared, from where it is. Returns when it has landed. */
static double send(struct player *player, struct cta *cta, int64_t bytes) {
    if (player->shared)
        return (cta->buffer = push(player, cta, cta->math, bytes)) + player->times->hop_us;
    double *place = &cta->places[cta->used++ % player->depth];
    cta->buffer = larger(cta->math, *place) + copy_us(player, bytes);
    return *place = push(player, cta, cta->buffer, bytes) + player->times->hop_us;
}

/* One tile of one CTA. All ranks do the same at the same time: what this rank sends in one turn is what it receives in the
 * next. */
static void play(struct player *player, struct cta *cta, int turn, int64_t tile) {
    int per_rank = player->order.per_rank;
    int64_t bytes = bytes_of(&player->order, turn, tile);
    bool keeps = turn >= player->plan->segments - per_rank, adds = turn >= per_rank;
    double *landed = &player->landed[turn * player->groups + tile / player->group_tiles];
    double *buffer = player->shared ? &cta->places[cta->used++ % player->depth] : &cta->buffer, ready = *buffer;
    /* Beside the products: D, or the tile to the peer, by way of the outbox if there is one; and the partial. */
    int copies = (keeps || player->shared ? 1 : 3) + adds;
    double beside = player->times->beside_ns_kib * 1e-3 / 1024 * (double)(bytes * copies);
    if (adds)
        ready = larger(ready, landed[-per_rank * player->groups]) + copy_us(player, bytes);
    cta->math = larger(cta->math + player->product + beside, ready);
    if (keeps)
        cta->buffer = cta->math + copy_us(player, bytes);
    else
        *landed = larger(*landed, send(player, cta, bytes));
    *buffer = cta->buffer;
}

static bool set_up(struct player *player, int64_t M, int sms) {
    const struct plan *plan = player->plan;
    tileorder_init(plan, M, 0, sms, &player->order);
    player->grid = (int)smaller(sms, player->order.total);
    player->group_tiles = plan->group_tiles ? plan->group_tiles : player->order.stride;
    player->groups = player->order.stride / player->group_tiles + 1;
    player->shared = plan->value[FIELD_RING_PLACE] == PLACE_SHARED;
    player->depth = player->shared ? plan->tile_buffers : plan->outbox_depth;
    if (plan->value[FIELD_DRAIN_POLICY] == DRAIN_PER_TILE || plan->value[FIELD_DRAIN_FLUSH] == FLUSH_PER_TILE)
        player->depth = 1;
    player->link_ns_byte = 1.0 / (double)plan->value[FIELD_LINK_GBPS];
    player->pace_ns_byte = plan_send_pace(plan, M, player->grid) * 1e-3;
    player->ctas = calloc((size_t)player->grid, sizeof *player->ctas);
    player->landed = calloc((size_t)(player->groups * plan->segments), sizeof *player->landed);
    return player->ctas && player->landed;
}

static double play_all(const struct plan *plan, int64_t M, int sms, const struct plan_times *times, double throttle) {
    struct player player = {.plan = plan, .times = times, .product = product_us(plan, times, throttle)};
    struct tileorder_cursor at;
    double end = 0;
    if (set_up(&player, M, sms)) {
        tileorder_begin(&player.order, &at);
        for (int64_t position = 0; position < player.order.total; position++) {
            struct cta *cta = &player.ctas[position % player.grid];
            play(&player, cta, at.turn, at.tile);
            end = larger(end, cta->buffer); /* after the last tiles nothing but their copies is left */
            if (position + 1 < player.order.total)
                tileorder_next(&player.order, &at);
        }
        if (plan->shape.tp > 1) /* launches of one rank start early: the next one is ready when this one ends */
            end += times->launch_us;
    }
    free(player.ctas);
    free(player.landed);
    return end;
}

static double flops_of(const struct plan *plan, int64_t M) {
    return 2.0 * (double)M * (double)plan->shape.n * (double)plan->shape.k;
}

static int sms_of(const struct plan *plan) {
    return plan->value[FIELD_SMS] ? (int)plan->value[FIELD_SMS] : machine_of(plan->arch)->sms;
}

/* Of the product alone, on this rank's SMs. */
static double gemm_us(const struct plan *plan, int64_t M) {
    return flops_of(plan, M) / (machine_tflops(machine_of(plan->arch), plan->value[FIELD_SMS]) * 1e6);
}

double plan_time(const struct plan *plan, int64_t M, const struct plan_times *times) {
    int sms = sms_of(plan);
    struct plan_tiles tiles, full, fewer;
    double part = (gemm_us(plan, M) - THROTTLE_FROM) / (THROTTLE_FULL - THROTTLE_FROM);
    double throttle = 1 + times->throttle * (part < 0 ? 0 : part > 1 ? 1 : part);
    plan_tiles_of(plan, M, &tiles);
    double waves = (double)tiles.total / sms;
    if (waves <= FULL_WAVES)
        return play_all(plan, M, sms, times, throttle);
    int64_t row = plan->segments * plan->value[FIELD_TILE_M] * plan->value[FIELD_CLUSTER];
    int64_t most = (int64_t)((double)M * FULL_WAVES / waves) / row * row,
            least = most * FEWER_WAVES / FULL_WAVES / row * row;
    if (least < row) /* a row of tiles in each segment is more: N is large */
        most = (least = row) * 2;
    plan_tiles_of(plan, most, &full);
    plan_tiles_of(plan, least, &fewer);
    double longer = play_all(plan, most, sms, times, throttle), shorter = play_all(plan, least, sms, times, throttle);
    return longer > 0 && shorter > 0
               ? longer + (longer - shorter) * (double)(tiles.total - full.total) / (double)(full.total - fewer.total)
               : 0;
}

void plan_estimate(const struct plan *plan, int64_t M, struct plan_estimate *out) {
    out->flops = flops_of(plan, M);
    out->gemm_us = gemm_us(plan, M);
    out->link_us = (double)plan_link_bytes(plan, M) / ((double)plan->value[FIELD_LINK_GBPS] * 1e3);
    out->limit_us = larger(out->gemm_us, out->link_us);
    out->expected_us = plan_time_unknown(plan) ? 0 : plan_time(plan, M, plan_times_of(plan->arch));
}
