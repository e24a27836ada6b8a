// The order of tiles as the kernel computes it (templates/schedule.cuh, the numbering of bits in templates/bits.cuh),
// compiled for the host, against its twin in C (generator/tileorder.c) and against what the planner reserves: every tile of
// every CTA of every rank, over rings, segments, Ms, grids, waves and lags.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include <cmocka.h>

#include "generator/tileorder.h"
}

#include "templates/bits.cuh"
#include "templates/schedule.cuh"

template <int ring_, int per_rank, int n_, int block_m_, int block_n_, int raster_, int lag_, int group, int cluster_>
struct Config {
    static constexpr int ring = ring_, segments = ring_ * per_rank, n = n_;
    static constexpr int block_m = block_m_, block_n = block_n_, raster = raster_, cluster = cluster_;
    static constexpr bool interleave = lag_ != 0;
    static constexpr int lag = lag_ ? lag_ : 1, group_tiles = group;
    static constexpr bool halve_first = ring > 1 && block_n == 256 && cluster == 1;
};

template <class C> static struct plan plan_for() {
    struct plan plan;
    memset(&plan, 0, sizeof plan);
    plan.shape.n = C::n;
    plan.shape.k = 64;
    plan.shape.tp = C::ring;
    plan.segments = C::segments;
    plan.raster = C::raster;
    plan.group_tiles = C::group_tiles;
    plan.tile_bytes = 1;
    plan.value[FIELD_TILE_M] = C::block_m;
    plan.value[FIELD_TILE_N] = C::block_n;
    plan.value[FIELD_CLUSTER] = C::cluster;
    plan.value[FIELD_ORDER] = C::interleave ? ORDER_INTERLEAVE : ORDER_SEGMENT;
    plan.value[FIELD_LAG] = C::lag;
    return plan;
}

static int64_t minimum(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// One tile of the kernel's against the host's (turn, j).
template <class C>
static void check_tile(const grs::Geometry<C> &geometry, const struct tileorder *order, const grs::Tile &tile, int turn,
                       int64_t j, int64_t M) {
    int owner = tileorder_owner(order, turn);
    int64_t tile_m, tile_n, rows = plan_segment_rows_of(order->plan, M, owner);
    tileorder_raster(order, owner, j, &tile_m, &tile_n);
    assert_int_equal(tile.turn, turn);
    assert_int_equal(tile.owner, owner);
    assert_int_equal(tile.distance, C::ring - 1 - turn / (C::segments / C::ring));
    assert_int_equal(tile.index, j);
    assert_int_equal(tile.row, owner * geometry.segment_rows + tile_m * C::block_m);
    assert_int_equal(tile.kept_row, owner / C::ring * geometry.segment_rows + tile_m * C::block_m);
    assert_int_equal(tile.column, tile_n * C::block_n);
    assert_int_equal(tile.rows, minimum(C::block_m, rows - tile_m * C::block_m));
    assert_int_equal(tile.columns, minimum(C::block_n, C::n - tile.column));
    assert_true(C::cluster > 1 || tile.rows >= 1);
    assert_true(tile.columns >= 1);
    assert_true(tile.first_column == 0 && tile.complete);
}

// The tile that the order stands at; where it comes in halves, what they make together. `first`: of its CTA.
template <class C> static grs::Tile whole_tile(grs::TileOrder<C> &order, bool first) {
    grs::Tile left = order.tile();
    assert_int_equal(order.halved(), C::halve_first && first && left.distance == C::ring - 1);
    if (!order.halved())
        return left;
    int position = order.position();
    order.next();
    grs::Tile right = order.tile();
    assert_true(order.more() && order.halved());
    assert_int_equal(order.position(), position);
    assert_true(!left.complete && left.first_column == 0 && right.complete && right.first_column == C::block_n / 2);
    assert_true(right.index == left.index && right.row == left.row && right.rows == left.rows);
    assert_int_equal(right.column, left.column + C::block_n / 2);
    assert_true(left.columns <= C::block_n / 2 && right.columns >= 0);
    assert_true(right.columns == 0 || left.columns == C::block_n / 2);
    left.columns += right.columns;
    left.complete = true;
    return left;
}

template <class C> static void check_launch(int M, int grid, int wave) {
    struct plan plan = plan_for<C>();
    const grs::Geometry<C> geometry(M);
    grs_args args;
    memset(&args, 0, sizeof args);
    args.m = M;
    args.grid = grid;
    args.wave = wave;
    for (int rank = 0; rank < C::ring; rank++) {
        struct tileorder order;
        tileorder_init(&plan, M, rank, wave, &order);
        int64_t seen = 0;
        for (int cta = 0; cta < grid; cta++) {
            int64_t position = cta;
            for (grs::TileOrder<C> kernel(geometry, args, rank, cta); kernel.more(); kernel.next(), position += grid) {
                int turn;
                int64_t j;
                assert_true(position < order.total);
                tileorder_at(&order, position, &turn, &j);
                assert_int_equal(kernel.position(), position / C::cluster);
                check_tile<C>(geometry, &order, whole_tile<C>(kernel, position == cta), turn, j, M);
                seen++;
            }
        }
        assert_int_equal(seen, order.total);
    }
}

// Bits and slots: as many as the planner reserves, none shared but by the tiles of one group, and their number known.
template <class C> static void check_bits(int M) {
    struct plan plan = plan_for<C>();
    const grs::Geometry<C> geometry(M);
    struct plan_tiles tiles;
    struct plan_memory memory;
    struct tileorder order;
    plan_tiles_of(&plan, M, &tiles);
    plan_memory_of(&plan, M, 1, &memory);
    tileorder_init(&plan, M, 0, 1, &order);
    assert_int_equal(geometry.segment_rows, tiles.segment_rows);
    assert_int_equal(geometry.max_tiles(), tiles.max_tiles);
    if (C::ring == 1)
        return;
    int64_t bits = plan_bits_of(&plan, M);
    assert_int_equal(grs::Bits<C>::words(geometry) * 8, memory.mask);
    assert_true(bits <= memory.mask * 8);
    int *tiles_of_bit = static_cast<int *>(calloc(static_cast<size_t>(bits), sizeof(int)));
    int *wanted_of_bit = static_cast<int *>(calloc(static_cast<size_t>(bits), sizeof(int)));
    assert_non_null(tiles_of_bit);
    assert_non_null(wanted_of_bit);
    for (int turn = grs::Bits<C>::first_turn; turn < C::segments; turn++)
        for (int j = 0; j < tileorder_tiles(&order, turn); j++) {
            int owner = geometry.owner_of_turn(0, turn), bit = grs::Bits<C>::index(geometry, turn, j);
            assert_true(bit >= 0 && bit < bits);
            int wanted = grs::Bits<C>::tiles(geometry, owner, j);
            assert_true(tiles_of_bit[bit] == 0 || wanted_of_bit[bit] == wanted);
            wanted_of_bit[bit] = wanted;
            tiles_of_bit[bit]++;
            if (C::group_tiles == 1)
                assert_int_equal(bit, tileorder_slot(&order, turn, j));
        }
    for (int64_t bit = 0; bit < bits; bit++)
        assert_int_equal(tiles_of_bit[bit], wanted_of_bit[bit]);
    free(tiles_of_bit);
    free(wanted_of_bit);
}

template <class C> static void check_config() {
    static const int Ms[] = {1, 5, 63, 64, 65, 300, 1023, 1024, 1500};
    static const int grids[] = {1, 2, 7, 16, 132};
    for (int M : Ms) {
        check_bits<C>(M);
        for (int grid : grids) {
            if (grid % C::cluster)
                continue;
            check_launch<C>(M, grid, grid);
            if (C::interleave) { // the smallest grid of the ranks may be another's
                check_launch<C>(M, grid, C::cluster);
                check_launch<C>(M, grid, 3 * C::cluster);
            }
        }
    }
}

template <int ring, int per_rank> static void check_orders() {
    check_config<Config<ring, per_rank, 264, 64, 128, 8, 0, 1, 1>>();
    check_config<Config<ring, per_rank, 264, 64, 128, 3, 1, 1, 1>>();
    check_config<Config<ring, per_rank, 264, 64, 64, 2, 2, 4, 1>>();
    check_config<Config<ring, per_rank, 648, 128, 256, 8, 3, 7, 1>>();
    check_config<Config<ring, per_rank, 8, 128, 64, 1, 5, 0, 1>>();
    check_config<Config<ring, per_rank, 264, 64, 128, 3, 0, 1, 2>>();
    check_config<Config<ring, per_rank, 392, 64, 64, 2, 2, 4, 2>>();
}

static void one_rank(void **) {
    check_orders<1, 1>();
}
static void two_ranks(void **) {
    check_orders<2, 1>();
}
static void three_ranks(void **) {
    check_orders<3, 1>();
}
static void four_ranks(void **) {
    check_orders<4, 1>();
}
static void eight_ranks(void **) {
    check_orders<8, 1>();
}
static void several_segments_a_rank(void **) {
    check_orders<1, 3>();
    check_orders<2, 2>();
    check_orders<3, 3>();
}

// Numbers near the largest that a plan allows stay within 32 bits.
static void largest_launch(void **) {
    using C = Config<64, 1, 8, 64, 64, 8, 64, 1, 1>;
    struct plan plan = plan_for<C>();
    int64_t M = plan_max_m(&plan);
    const grs::Geometry<C> geometry(static_cast<int32_t>(M));
    grs_args args;
    memset(&args, 0, sizeof args);
    args.m = static_cast<int32_t>(M);
    args.grid = args.wave = 1024;
    struct tileorder order;
    tileorder_init(&plan, M, 5, args.wave, &order);
    for (int cta = 0; cta < 1024; cta += 341) {
        grs::TileOrder<C> kernel(geometry, args, 5, cta);
        int64_t position = cta;
        for (; kernel.more(); kernel.next(), position += args.grid) {
            if (position % 1013 != 0 && position + args.grid < order.total)
                continue;
            int turn;
            int64_t j;
            tileorder_at(&order, position, &turn, &j);
            check_tile<C>(geometry, &order, kernel.tile(), turn, j, M);
            assert_true(kernel.tile().row >= 0);
        }
        assert_true(position >= order.total && position - args.grid < order.total);
    }
}

int main() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank),       cmocka_unit_test(two_ranks),   cmocka_unit_test(three_ranks),
        cmocka_unit_test(four_ranks),     cmocka_unit_test(eight_ranks), cmocka_unit_test(several_segments_a_rank),
        cmocka_unit_test(largest_launch),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
