// Kernels for checking the tools of compute-sanitizer: what they must report, and what they report by mistake. planted.c
// compiles one of them and launches one block of 192 threads; `memory` is 4 MB of zeros, of which the last half is allocated
// and not written.

typedef unsigned uint32_t;
typedef unsigned long long uint64_t;

// ------------------------------------------------------------------ mistakes, one for each tool

// Writes behind what was allocated.
extern "C" __global__ void memcheck(uint32_t *memory) {
    memory[(1 << 20) + threadIdx.x] = 1;
}

// A warp reads what another has written, without a barrier.
extern "C" __global__ void racecheck(uint32_t *memory) {
    __shared__ uint32_t shared[192];
    shared[threadIdx.x] = threadIdx.x;
    memory[threadIdx.x] = shared[191 - threadIdx.x];
}

// Several phases of a barrier in shared memory, and nobody has waited for the first.
extern "C" __global__ void synccheck(uint32_t *memory) {
    __shared__ uint64_t barrier;
    uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address) : "memory");
        for (int i = 0; i < 3; i++)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
    }
    __syncthreads();
    memory[threadIdx.x] = 1;
}

// Reads what nobody has written.
extern "C" __global__ void initcheck(uint32_t *memory) {
    memory[threadIdx.x] = memory[(1 << 19) + threadIdx.x] + 1;
}

// ------------------------------------------------------------------ right, and reported by tools that do not know better

// Barriers in shared memory, as templates/ptx.cuh uses them.
struct Barrier {
    uint64_t opaque;
    __device__ uint32_t address() const { return static_cast<uint32_t>(__cvta_generic_to_shared(this)); }
    __device__ void init(uint32_t arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals) : "memory");
    }
    __device__ void arrive() {
        asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
    }
    __device__ void arrive_expect(uint32_t bytes) {
        asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes)
                     : "memory");
    }
    __device__ void wait(uint32_t parity) {
        uint32_t done = 0;
        while (!done)
            asm volatile("{\n"
                         ".reg .pred p;\n"
                         "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
                         "selp.u32 %0, 1, 0, p;\n"
                         "}"
                         : "=r"(done)
                         : "r"(address()), "r"(parity)
                         : "memory");
    }
};

// A buffer that goes round: a writer makes it ready, four warps use it, a fifth is told when they are done and tells the writer
// that it is free. Each wait acquires what the arrival before it released, so every access of a round is ordered before the
// writer's of the next one.
struct Round {
    Barrier ready, full, free;
    __device__ void set_up() {
        if (threadIdx.x == 0) {
            ready.init(1);
            full.init(4);
            free.init(1);
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
        __syncthreads();
    }
    __device__ static bool uses() { return threadIdx.x < 128; }
    __device__ static bool tells() { return threadIdx.x == 128; }
    __device__ static bool writes() { return threadIdx.x == 160; }
    __device__ void tell(uint32_t round) {
        full.wait(round & 1);
        free.arrive();
    }
    __device__ void done() {
        asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
        if (threadIdx.x % 32 == 0)
            full.arrive();
    }
};

// The buffer is a word. racecheck reports the write against the reads of the round before.
extern "C" __global__ void racecheck_word(uint32_t *memory) {
    __shared__ Round turn;
    __shared__ uint32_t word;
    uint32_t sum = 0;
    turn.set_up();
#pragma unroll 1
    for (uint32_t round = 0; round < 8; round++) {
        if (Round::writes()) {
            turn.free.wait(round & 1 ^ 1);
            asm volatile("st.relaxed.cta.shared::cta.b32 [%0], %1;" ::"r"(
                             static_cast<uint32_t>(__cvta_generic_to_shared(&word))),
                         "r"(round)
                         : "memory");
            turn.ready.arrive();
        } else if (Round::tells()) {
            turn.tell(round);
        } else if (Round::uses()) {
            uint32_t value;
            turn.ready.wait(round & 1);
            asm volatile("ld.relaxed.cta.shared::cta.b32 %0, [%1];"
                         : "=r"(value)
                         : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(&word)))
                         : "memory");
            sum += value;
            turn.done();
        }
    }
    memory[threadIdx.x] = sum;
}

// The buffer is filled by the copy engine, whose bytes the barrier counts. racecheck reports the reads against the copy.
extern "C" __global__ void racecheck_copy(uint32_t *memory) {
    __shared__ Round turn;
    __shared__ __align__(128) uint4 tile[512];
    uint32_t sum = 0;
    turn.set_up();
#pragma unroll 1
    for (uint32_t round = 0; round < 8; round++) {
        if (Round::writes()) {
            turn.free.wait(round & 1 ^ 1);
            turn.ready.arrive_expect(sizeof(tile));
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                    static_cast<uint32_t>(__cvta_generic_to_shared(tile))),
                "l"(memory + 4096), "r"(static_cast<uint32_t>(sizeof(tile))), "r"(turn.ready.address())
                : "memory");
        } else if (Round::tells()) {
            turn.tell(round);
        } else if (Round::uses()) {
            turn.ready.wait(round & 1);
            for (int i = 0; i < 4; i++)
                sum += tile[i * 128 + threadIdx.x].x;
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); // the next access is the copy engine's
            turn.done();
        }
    }
    memory[threadIdx.x] = sum;
}

// A word that one warp sets and another polls, both by relaxed accesses of the CTA's scope: what PTX has for that, and no race
// (they are morally strong). racecheck takes them for plain ones.
extern "C" __global__ void racecheck_flag(uint32_t *memory) {
    __shared__ uint32_t flag;
    uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(&flag)), seen = 0;
    if (threadIdx.x == 0)
        flag = 0;
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("st.relaxed.cta.shared::cta.b32 [%0], %1;" ::"r"(address), "r"(1) : "memory");
    if (threadIdx.x == 32)
        while (!seen)
            asm volatile("ld.relaxed.cta.shared::cta.b32 %0, [%1];" : "=r"(seen) : "r"(address) : "memory");
    memory[threadIdx.x] = seen;
}

// The copy engine writes global memory, and the block reads it when it has landed. initcheck before 2025.4 does not know such
// writes.
extern "C" __global__ void initcheck_copy(uint32_t *memory) {
    __shared__ __align__(128) uint32_t out[192];
    uint32_t *place = memory + (1 << 19) + 4096;
    out[threadIdx.x] = threadIdx.x;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                     "cp.async.bulk.commit_group;\n"
                     "cp.async.bulk.wait_group 0;" ::"l"(place),
                     "r"(static_cast<uint32_t>(__cvta_generic_to_shared(out))), "r"(static_cast<uint32_t>(sizeof(out)))
                     : "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
    }
    __syncthreads();
    memory[threadIdx.x] = place[191 - threadIdx.x];
}
