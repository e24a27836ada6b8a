#include "generator/tileorder.h"

static int64_t minimum(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Tiles of `turn` whose waves come before wave `waves` of it (negative: none). */
static int64_t before_wave(const struct tileorder *order, int turn, int64_t waves) {
    return waves <= 0 ? 0 : minimum(tileorder_tiles(order, turn), waves * order->wave);
}

void tileorder_init(const struct plan *plan, int64_t M, int rank, int64_t wave, struct tileorder *out) {
    struct plan_tiles tiles;
    int64_t cluster = plan->value[FIELD_CLUSTER];
    plan_tiles_of(plan, M, &tiles);
    *out = (struct tileorder){
        .plan = plan,
        .M = M,
        .rank = rank,
        .wave = wave / cluster * cluster,
        .lag = plan->value[FIELD_ORDER] == ORDER_INTERLEAVE ? plan->value[FIELD_LAG] : 0,
        .per_rank = plan->segments / plan->shape.tp,
        .stride = tiles.max_tiles,
        .total = tiles.total,
    };
}

int tileorder_owner(const struct tileorder *order, int turn) {
    int ranks = order->plan->shape.tp;
    return (order->rank + 1 + turn / order->per_rank) % ranks + turn % order->per_rank * ranks;
}

int64_t tileorder_tiles(const struct tileorder *order, int turn) {
    return plan_segment_tiles_of(order->plan, order->M, tileorder_owner(order, turn));
}

void tileorder_raster(const struct tileorder *order, int owner, int64_t tile, int64_t *tile_m, int64_t *tile_n) {
    struct plan_tiles tiles;
    plan_tiles_of(order->plan, order->M, &tiles);
    int64_t cluster = order->plan->value[FIELD_CLUSTER], place = tile / cluster;
    int64_t places_m = plan_segment_tiles_of(order->plan, order->M, owner) / tiles.tiles_n / cluster;
    int64_t raster = order->plan->raster, panel = place / (raster * tiles.tiles_n),
            within = place % (raster * tiles.tiles_n);
    int64_t height = minimum(raster, places_m - panel * raster);
    *tile_m = (panel * raster + within % height) * cluster + tile % cluster;
    *tile_n = within / height;
}

int64_t tileorder_position(const struct tileorder *order, int turn, int64_t tile) {
    int64_t position = tile;
    if (order->lag == 0) {
        for (int t = 0; t < turn; t++)
            position += tileorder_tiles(order, t);
        return position;
    }
    int64_t key = tile / order->wave + turn * order->lag;
    for (int t = 0; t < order->plan->segments; t++)
        if (t != turn) /* with the same key, earlier turns come first */
            position += before_wave(order, t, key - t * order->lag + (t < turn));
    return position;
}

void tileorder_at(const struct tileorder *order, int64_t position, int *turn, int64_t *tile) {
    int segments = order->plan->segments, t = 0;
    if (order->lag == 0) {
        for (int64_t tiles; position >= (tiles = tileorder_tiles(order, t)); position -= tiles)
            t++;
        *turn = t;
        *tile = position;
        return;
    }
    /* The largest key with at most `position` tiles of smaller keys, by bisection. */
    int64_t low = 0, high = order->stride / order->wave + segments * order->lag + 1;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2, before = 0;
        for (t = 0; t < segments; t++)
            before += before_wave(order, t, middle - t * order->lag);
        if (before <= position)
            low = middle;
        else
            high = middle;
    }
    for (t = 0; t < segments; t++)
        position -= before_wave(order, t, low - t * order->lag);
    for (t = 0;; t++) {
        int64_t wave = low - t * order->lag, first = before_wave(order, t, wave);
        int64_t here = before_wave(order, t, wave + 1) - first;
        if (position < here) {
            *turn = t;
            *tile = first + position;
            return;
        }
        position -= here;
    }
}

int64_t tileorder_slot(const struct tileorder *order, int turn, int64_t tile) {
    return (turn - order->per_rank) * order->stride + tile;
}

/* Moves a cursor that stands at the end of a group, or in an empty one, to the next group with a tile. */
static void settle(const struct tileorder *order, struct tileorder_cursor *cursor) {
    if (order->lag == 0) {
        while (cursor->tile >= tileorder_tiles(order, cursor->turn)) {
            cursor->turn++;
            cursor->tile = 0;
        }
        return;
    }
    for (;;) {
        int64_t wave = cursor->key - cursor->turn * order->lag;
        if (wave >= 0 && cursor->tile < minimum(tileorder_tiles(order, cursor->turn), (wave + 1) * order->wave))
            return;
        if (++cursor->turn == order->plan->segments) {
            cursor->turn = 0;
            cursor->key++;
        }
        wave = cursor->key - cursor->turn * order->lag;
        cursor->tile = wave < 0 ? 0 : wave * order->wave;
    }
}

void tileorder_begin(const struct tileorder *order, struct tileorder_cursor *cursor) {
    *cursor = (struct tileorder_cursor){0};
    settle(order, cursor);
}

void tileorder_next(const struct tileorder *order, struct tileorder_cursor *cursor) {
    cursor->tile++;
    int64_t end = tileorder_tiles(order, cursor->turn); /* of the group, or of the segment */
    if (order->lag)
        end = minimum(end, (cursor->key - cursor->turn * order->lag + 1) * order->wave);
    if (cursor->tile >= end)
        settle(order, cursor);
}
