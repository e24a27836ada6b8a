#include "grs/gemm_rs_sm90.cuh"

struct Config {
    static constexpr int n = 8192; // columns of D
    static constexpr int k = 28672; // columns of A and B on one rank
    static constexpr int ring = 1; // ranks
    static constexpr int segments = 1; // owner segments of the rows of A
    static constexpr int block_m = 128; // tile.m
    static constexpr int block_n = 256; // tile.n
    static constexpr int block_k = 64; // tile.k
    static constexpr int cluster = 1; // tile.cluster
    static constexpr int stages = 3; // stages.load
    static constexpr int ring_depth = 1; // ring.depth
    static constexpr int chunk_bytes = 1024; // ring.chunk.bytes
    static constexpr int chunk_count = 1; // ring.chunk.count
    static constexpr int group = 1; // signal.granularity.group
    static constexpr int lag = 2; // order.interleave
    static constexpr int group_tiles = 1; // signal.granularity: tiles a bit, 0 for a whole segment
    static constexpr bool interleave = false; // order
    static constexpr grs::Drain drain = grs::DRAIN_IDLE; // drain
    static constexpr bool place_shared = false; // ring.place
    static constexpr int tile_buffers = 1;
    static constexpr int outbox_depth = 1;
    static constexpr int piece_bytes = 8192; // of a tile that the copy engine moves at a time
    static constexpr int piece_pause = 300; // nanoseconds after each piece
    static constexpr int ship_lanes = 1; // threads that send
    static constexpr int raster = 8; // tiles of M in one raster panel
    static constexpr int k_blocks = 448;
    static constexpr int threads = 384;
    static constexpr int math_warps = 8;
    static constexpr int tile_writers = 8; // warps that finish one tile
    static constexpr int stage_readers = 8; // arrivals that free a stage
    static constexpr bool pingpong = false; // tile.schedule
    static constexpr int accum_stages = 0; // accumulators lie in registers
    static constexpr int cta_group = 1;
    static constexpr int registers_producer = 72;
    static constexpr int registers_consumer = 216;
    static constexpr bool halve_first = false; // the first tile of a CTA in two halves
    static constexpr int shared_bytes = 215040; // the planner's map; the template asserts that it agrees
    static constexpr bool count_waits = false; // cycles that each role waits, into args.counters
    static constexpr bool pace_model = false; // a model of the link between ranks that share a GPU
    static constexpr bool stall_hook = false; // test hook: args.stall makes a sender stand still
};

GRS_KERNEL(Config::threads) grs_gemm_rs_n8192_k28672_tp1_128x256x64_s3(GRS_PARAMETER grs_args args) {
    grs::gemm_rs<Config>(args);
}
