// Launch arguments and the memory that ranks share: the one header that host (C11) and device (CUDA C++) both include.
// Sizes and offsets are asserted on both sides, so that a disagreement is a compile error and never a wrong address.
#ifndef GRS_ARGS_H
#define GRS_ARGS_H

#if defined(__CUDACC_RTC__)
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
typedef unsigned long size_t;
#else
#include <stddef.h>
#include <stdint.h>
#endif

#if defined(__cplusplus)
#define GRS_ARGS_ALIGN(n)                alignas(n)
#define GRS_ARGS_ASSERT(condition, text) static_assert(condition, text)
#else
#define GRS_ARGS_ALIGN(n)                _Alignas(n)
#define GRS_ARGS_ASSERT(condition, text) _Static_assert(condition, text)
#endif

#define GRS_MAX_SHARED_RANKS 8  // ranks of one grid: those that share a GPU
#define GRS_MAX_RING         64 // ranks of one ring

// A CUtensorMap, opaque: made by the driver on the host, read by the copy engine.
typedef struct grs_tensor_map {
    GRS_ARGS_ALIGN(64) uint64_t opaque[16];
} grs_tensor_map;

// Who waits: the roles of a CTA, in the order of their warps.
enum grs_role {
    GRS_ROLE_LOADER = 0,
    GRS_ROLE_PREFETCHER,
    GRS_ROLE_STORER,
    GRS_ROLE_SENDER,
    GRS_ROLE_MATH,
    GRS_ROLE_ISSUER, // sm_100a: issues the products whose accumulators the math warps read
    GRS_ROLE_COUNT
};

// What is waited for.
enum grs_wait {
    GRS_WAIT_NONE = 0,
    GRS_WAIT_STAGE_FREE,  // loader: the math warps still read the stage
    GRS_WAIT_STAGE_FULL,  // math: A and B have not arrived
    GRS_WAIT_TILE_FREE,   // prefetcher: the tile buffer is still being stored
    GRS_WAIT_TILE_READY,  // math: the partial has not arrived (or the buffer is not free)
    GRS_WAIT_TILE_FULL,   // storer: the math warps are not done
    GRS_WAIT_UPSTREAM,    // prefetcher: upstream's bit is not set
    GRS_WAIT_OUTBOX_FREE, // storer: the sender still holds every outbox tile
    GRS_WAIT_OUTBOX_FULL, // sender: nothing to send
    GRS_WAIT_CREDIT,      // sender: downstream has not left the launch before
    GRS_WAIT_CHUNK,       // sender: a chunk has not arrived from the outbox
    GRS_WAIT_LINK,        // sender, storer: the CTA's turn on the link
    GRS_WAIT_ACCUM_FREE,  // issuer: the math warps still read every accumulator
    GRS_WAIT_ACCUM_FULL,  // math: the products are not complete
    GRS_WAIT_COUNT
};

// The record of a wait whose deadline expired; lies in host-visible memory, one a rank. The first waiter of a rank (decided
// by its abort word) writes it; it is valid once `complete` is 1. Math warps do not know their tile: owner and tile are -1
// and follow from the position.
typedef struct grs_wait_record {
    uint32_t complete, unused;
    uint32_t role, wait; // grs_role, grs_wait
    int32_t rank, cta;
    int32_t owner, tile; // of the tile in hand; -1: none
    int64_t position;    // in this rank's tile order
    uint64_t epoch;
    uint64_t word, expected; // word seen (mask, credit, or parity), and what was wanted
    uint64_t waited_ns;
} grs_wait_record;
GRS_ARGS_ASSERT(sizeof(grs_wait_record) == 72, "grs_wait_record: host and device disagree");

// The control words of a rank: a block of device memory that its neighbours may write. One cache line a word, so that a
// poll and a peer's store do not share one. All zero when a communicator is made.
typedef struct grs_control {
    GRS_ARGS_ALIGN(128) uint64_t epoch;    // finished launches of this rank
    GRS_ARGS_ALIGN(128) uint32_t departed; // CTAs that have left this launch
    GRS_ARGS_ALIGN(128) uint64_t credit;   // written by downstream: it has left this many launches
    GRS_ARGS_ALIGN(128) uint32_t abort;    // not 0: leave; written by any rank
    GRS_ARGS_ALIGN(128) uint64_t pace;     // the link model's clock, ns
    GRS_ARGS_ALIGN(128) uint64_t spare;
} grs_control;
GRS_ARGS_ASSERT(sizeof(grs_control) == 768, "grs_control: host and device disagree");

// When a rank began and ended one launch, in nanoseconds of its GPU's %globaltimer: its first CTA began, its last one left. Kernels
// with wait counters keep the last GRS_STAMPS launches of a rank, that of an epoch at epoch % GRS_STAMPS.
typedef struct grs_stamp {
    uint64_t begin, end;
} grs_stamp;
#define GRS_STAMPS 1024

// One rank's view of a launch.
typedef struct grs_rank_args {
    grs_tensor_map a, b, d; // A [M, K], B [N, K], D [rows kept, N]
    grs_tensor_map d_tiles; // D as [N / tile.n, rows kept, tile.n], where tile.n is no multiple of a panel
    char *slots;            // receive slots of this rank: its upstream writes partials here
    uint64_t *mask;         // a bit a slot, set by upstream
    char *peer_slots;       // downstream's slots, mask and control
    uint64_t *peer_mask;
    grs_control *control;         // this rank's
    grs_control *upstream;        // upstream's: the credit goes there
    char *outbox;                 // ring.depth tiles a CTA, in local global memory
    grs_control *const *everyone; // device array of ring_size pointers: where an abort is raised
    grs_wait_record *record;      // host-visible
    uint32_t *groups;             // counters of tiles landed a signal group; NULL unless granularity needs them
    uint64_t *counters; // wait counters [cta][role][wait], cycles, of GRS_WAIT_NONE those that the role was there;
                        // added to by every launch; NULL unless compiled in
    int32_t rank;
    int32_t has_d;     // 0: this rank keeps no row, d is not a valid map
    grs_stamp *stamps; // GRS_STAMPS of them; NULL unless wait counters are compiled in
} grs_rank_args;

typedef struct grs_args {
    int32_t m;                 // rows of A
    int32_t grid;              // CTAs a rank; rank index in the grid = blockIdx.x / grid
    int32_t wave;              // tiles of one wave, the same on all ranks
    int32_t ranks;             // ranks in this grid
    int32_t ring;              // ranks of the ring: length of `everyone`
    uint32_t send_ps_per_byte; // a CTA's share of the link: picoseconds a byte between its sends; 0: no limit
    uint64_t deadline_ns;      // of every wait; 0: none
    uint64_t pace_ps_per_kib;  // link model: picoseconds for 1024 bytes; 0: none
    uint64_t stall;            // test hook: (rank + 1) << 32 | position + 1 at which the sender stalls; 0: none
    uint32_t pace_signal_ns;   // link model: what a bit takes longer than within a GPU
    grs_rank_args rank[GRS_MAX_SHARED_RANKS];
} grs_args;
GRS_ARGS_ASSERT(sizeof(grs_rank_args) == 640, "grs_rank_args: host and device disagree");
GRS_ARGS_ASSERT(sizeof(grs_args) == 64 + 8 * 640, "grs_args: host and device disagree");

#endif
