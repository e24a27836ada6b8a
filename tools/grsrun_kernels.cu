// Helper kernels of grsrun: they make operands, compute a reference without tensor cores, and judge what the ranks wrote.
// Compiled by NVRTC at run time; they share values.h with the host and nothing with the kernels that they judge.
#include "grsrun_values.h"

// Every word of a buffer: elements where there are any, poison elsewhere.
extern "C" __global__ void grsrun_fill(values_matrix matrix, uint16_t *buffer) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t w = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; w < matrix.total; w += step) {
        buffer[w] = values_word(&matrix, w);
    }
}

// Counts words that are not what grsrun_fill left: all of an operand's, of a D those outside its elements.
extern "C" __global__ void grsrun_check(values_matrix matrix, const uint16_t *buffer, values_damage *damage) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t w = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; w < matrix.total; w += step) {
        if (matrix.operand == VALUES_D && values_place(&matrix, w) >= 0) {
            continue;
        }
        if (buffer[w] != values_word(&matrix, w)) {
            atomicAdd(&damage->words, 1ull);
            atomicMin(&damage->first, (uint64_t)w);
        }
    }
}

// Counts words that are not what their span says.
extern "C" __global__ void grsrun_spans(const values_span *spans, int32_t count, values_damage *damage) {
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (int32_t s = 0; s < count; s++) {
        const values_span span = spans[s];
        const uint32_t *words = reinterpret_cast<const uint32_t *>(span.address);
        for (uint64_t w = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; w < span.words; w += step) {
            if (words[w] != span.value) {
                atomicAdd(&damage->words, 1ull);
                atomicMin(&damage->first, (uint64_t)s << VALUES_SPAN_SHIFT | w);
            }
        }
    }
}

// D's elements as one number that depends on every bit and on its place (a sum, so that the order does not matter).
extern "C" __global__ void grsrun_checksum(values_matrix matrix, const uint16_t *buffer, uint64_t *sum) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x, count = matrix.rows * matrix.columns;
    uint64_t mine = 0;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        int64_t row = i / matrix.columns, column = i - row * matrix.columns;
        mine += values_mix((uint64_t)i << 16 ^ buffer[matrix.lead + row * matrix.ld + column]);
    }
    atomicAdd(sum, mine);
}

// The exact sum of an owner's rows over the ranks of a ring, in the order in which it adds (rank owner − 1 first, owner last),
// from the seed alone: no operand is read. Products are added in FP32 over chunks of K, chunks and ranks in FP64. Beside it
// the bound of values.h (mode random), and in *peak the largest partial sum seen (as float bits). A block of 256 threads
// makes tiles of 64 × 64 elements, 4 × 4 a thread; tiles are numbered along N.
static constexpr int tile = 64, chunk = 32, side = 4, threads = 256;

// One chunk of A and of B as floats, transposed ([k][row]), 0 beyond the matrix.
struct chunks {
    float a[chunk][tile + side], b[chunk][tile + side];
};

static __device__ void make_chunk(float (*out)[tile + side], const values_reference &task, uint64_t key, int64_t row0,
                                  int64_t rows, int64_t first, int64_t k0) {
    for (int i = threadIdx.x; i < tile * chunk; i += threads) {
        const int64_t row = row0 + i % tile, k = k0 + i / tile;
        uint16_t word = 0;
        if (row < rows && k < task.k) {
            word = values_element(key, task.mode, task.threshold, (first + row) * task.k + k);
        }
        out[i / tile][i % tile] = values_from_bf16(word);
    }
}

static __device__ void multiply_chunk(const chunks &in, int y, int x, double (&own)[side][side], float &highest) {
    float partial[side][side] = {};
    for (int k = 0; k < chunk; k++) {
        const float4 av = *reinterpret_cast<const float4 *>(&in.a[k][y]);
        const float4 bv = *reinterpret_cast<const float4 *>(&in.b[k][x]);
        const float ar[side] = {av.x, av.y, av.z, av.w}, br[side] = {bv.x, bv.y, bv.z, bv.w};
#pragma unroll
        for (int i = 0; i < side; i++) {
#pragma unroll
            for (int j = 0; j < side; j++) {
                partial[i][j] = fmaf(ar[i], br[j], partial[i][j]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < side; i++) {
#pragma unroll
        for (int j = 0; j < side; j++) {
            own[i][j] += partial[i][j];
            highest = fmaxf(highest, fabsf((float)own[i][j]));
        }
    }
}

extern "C" __global__ void __launch_bounds__(threads, 2)
    grsrun_reference(values_reference task, float *sums, float *bounds, uint32_t *peak) {
    __shared__ __align__(16) chunks shared;
    const int64_t tiles_n = (task.n + tile - 1) / tile, tiles = (task.rows + tile - 1) / tile * tiles_n;
    const int y = threadIdx.x / (tile / side) * side, x = threadIdx.x % (tile / side) * side;
    float largest = 0;

    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        const int64_t row0 = t / tiles_n * tile, column0 = t % tiles_n * tile;
        double total[side][side] = {};
        float bound[side][side] = {};
        for (int hop = 0; hop < task.ring; hop++) {
            const int rank = task.first_rank + (task.owner - 1 - hop + 2 * task.ring) % task.ring;
            const uint64_t key_a = values_key(task.seed, VALUES_A, rank), key_b = values_key(task.seed, VALUES_B, rank);
            double own[side][side] = {};
            float highest = 0; // of the thread's elements: at least each one's own peak
            for (int64_t k0 = 0; k0 < task.k; k0 += chunk) {
                __syncthreads();
                make_chunk(shared.a, task, key_a, row0, task.rows, task.first_row, k0);
                make_chunk(shared.b, task, key_b, column0, task.n, 0, k0);
                __syncthreads();
                multiply_chunk(shared, y, x, own, highest);
            }
#pragma unroll
            for (int i = 0; i < side; i++) {
#pragma unroll
                for (int j = 0; j < side; j++) {
                    total[i][j] += own[i][j];
                    const float prefix = (float)total[i][j];
                    bound[i][j] = values_bound(bound[i][j], prefix, fmaxf(highest, fabsf(prefix)), task.k);
                    largest = fmaxf(largest, fabsf(prefix));
                }
            }
        }
#pragma unroll
        for (int i = 0; i < side; i++) {
#pragma unroll
            for (int j = 0; j < side; j++) {
                const int64_t row = row0 + y + i, column = column0 + x + j;
                if (row < task.rows && column < task.n) {
                    sums[row * task.n + column] = (float)total[i][j];
                    bounds[row * task.n + column] = bound[i][j];
                }
            }
        }
    }
    atomicMax(peak, __float_as_uint(largest)); // bits of floats that are not negative order as the floats do
}

// Sums and bounds of all nodes into those of D, and in *peak the largest that a sum of some nodes can be, whatever the order.
extern "C" __global__ void grsrun_add_nodes(values_nodes task, const float *sums_of, const float *bounds_of,
                                            float *sums, float *bounds, uint32_t *peak) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    float largest = 0;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < task.count; i += step) {
        largest = fmaxf(largest, values_add_nodes(&task, i, sums_of, bounds_of, sums, bounds));
    }
    atomicMax(peak, __float_as_uint(largest));
}

static __device__ double block_sum(double value, double *warps) {
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_down_sync(0xffffffffu, value, distance);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = 0;
    for (int i = 0; i < threads / 32; i++) {
        value += warps[i];
    }
    return value;
}

// D against the reference, element by element: bit for bit (exact), within the bound (random).
extern "C" __global__ void __launch_bounds__(threads)
    grsrun_compare(values_matrix matrix, const uint16_t *buffer, const float *sums, const float *bounds,
                   values_verdict *verdict) {
    __shared__ double warps[threads / 32];
    const int64_t step = (int64_t)gridDim.x * blockDim.x, count = matrix.rows * matrix.columns;
    double error2 = 0, got2 = 0, want2 = 0;
    float worst = 0;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const int64_t row = i / matrix.columns, column = i - row * matrix.columns;
        const int64_t w = matrix.lead + row * matrix.ld + column;
        const uint16_t word = buffer[w];
        const float got = values_from_bf16(word), want = sums[i];
        const float error = fabsf(got - want);
        const bool wrong = matrix.mode == VALUES_EXACT ? word != values_to_bf16(want) : !(error <= bounds[i]);
        if (wrong) {
            atomicAdd(&verdict->mismatches, 1ull);
            atomicMin(&verdict->first, (uint64_t)i);
            atomicMax(&verdict->last, (uint64_t)i);
            if (word == values_poison(w)) {
                atomicAdd(&verdict->unwritten, 1ull);
            }
        } else if (matrix.mode == VALUES_RANDOM && bounds[i] > 0) {
            worst = fmaxf(worst, error / bounds[i]);
        }
        if (error == error) { // poison is a mismatch already
            error2 += (double)error * error;
            got2 += (double)got * got;
            want2 += (double)want * want;
        }
    }
    error2 = block_sum(error2, warps);
    got2 = block_sum(got2, warps);
    want2 = block_sum(want2, warps);
    if (threadIdx.x == 0) {
        atomicAdd(&verdict->error2, error2);
        atomicAdd(&verdict->got2, got2);
        atomicAdd(&verdict->want2, want2);
    }
    atomicMax(reinterpret_cast<uint32_t *>(&verdict->worst), __float_as_uint(worst));
}

static __device__ uint64_t nanoseconds() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// Keeps the stream busy while the host queues what is to be timed.
extern "C" __global__ void grsrun_spin(uint64_t wanted) {
    const uint64_t start = nanoseconds();
    do {
        __nanosleep(200);
    } while (nanoseconds() - start < wanted);
}

// Says what this GPU's clock shows, once for each question of the host. The clock is read when the question has been seen, so
// between the host's question and its sight of the answer.
extern "C" __global__ void grsrun_clock(const volatile uint64_t *asked, volatile uint64_t *answer, int32_t pings,
                                        uint64_t patience) {
    for (int32_t i = 0; i < pings; i++) {
        const uint64_t since = nanoseconds();
        while (*asked <= (uint64_t)i) {
            if (nanoseconds() - since > patience) {
                return;
            }
        }
        answer[i] = nanoseconds();
        __threadfence_system();
    }
}

// Copies to a peer's memory with plain stores: what the link takes.
extern "C" __global__ void grsrun_push(const uint4 *from, uint4 *to, int64_t units) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < units; i += step) {
        to[i] = from[i];
    }
}
