/* grs: fused BF16 GEMM + push-ring reduce-scatter kernels, generated and compiled at run time.
 *
 * D = sum over ranks r of A_r [M, K] * B_r [N, K]^T, all BF16, both operands K-major. Rank r keeps rows
 * [r*c, min(M, (r+1)*c)) of D with c = ceil(M / tp). Products are accumulated in FP32; the running sum is rounded to
 * BF16 once for each rank that it passes (over several nodes: docs/nodes.md).
 *
 * Conventions
 *   - Every call that can fail returns grs_status and takes the error slot last; the slot may be NULL.
 *   - On failure `*out` is NULL (or untouched for structs that the caller owns) and nothing is printed.
 *   - Option and information structs carry their own size as the first field: set it with GRS_INIT(type).
 *   - Device pointers are plain `void *`; a stream is a CUstream or cudaStream_t passed as `void *` (NULL: default).
 *   - The CUDA context is the device's primary one.
 *   - Sizes are in elements unless a name ends in _bytes; matrices are row-major with leading dimensions in elements.
 */
#ifndef GRS_H
#define GRS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GRS_API __attribute__((visibility("default")))
#else
#define GRS_API
#endif

#define GRS_VERSION_MAJOR 0
#define GRS_VERSION_MINOR 1
#define GRS_VERSION_PATCH 0

/* ---------------------------------------------------------------- status and errors ---------------------------- */

typedef enum grs_status {
    GRS_OK = 0,
    GRS_ERR_ARGUMENT,    /* a caller's argument is outside what is allowed                                   */
    GRS_ERR_CONFIG,      /* a config file is malformed: line and column are set                              */
    GRS_ERR_PLAN,        /* config and shape cannot work together (memory, registers, cycle in the wait graph) */
    GRS_ERR_UNSUPPORTED, /* legal, but not built yet or not known to the NVRTC at hand                       */
    GRS_ERR_COMPILER,    /* NVRTC missing, too old, or the compile failed (the whole log is in the text)     */
    GRS_ERR_DRIVER,      /* libcuda missing or a driver call failed                                          */
    GRS_ERR_PEER,        /* a rank's GPU cannot reach its peer, or ranks do not agree                        */
    GRS_ERR_IO,          /* file system                                                                      */
    GRS_ERR_MEMORY,      /* host or device memory exhausted                                                  */
    GRS_ERR_STATE,       /* call out of order: not prepared, aborted communicator, wrong process after fork   */
    GRS_ERR_TIMEOUT,     /* a deadline expired: the text names rank, role, CTA, owner, tile and epoch        */
    GRS_ERR_CANCELLED    /* a progress callback asked to stop                                                */
} grs_status;

/* Caller-owned. `line` and `column` count from 1 and are 0 where no file is concerned. `text` holds no trailing newline;
 * a config with several mistakes lists each on a line of its own (up to 20). */
typedef struct grs_error {
    grs_status status;
    int line, column;
    char text[8192];
} grs_error;

GRS_API
const char *grs_status_name(grs_status status); /* static text, "GRS_OK" … */
GRS_API
const char *grs_version(void); /* "0.1.0 (commit abcdef0, dirty)" */

/* The calling thread's last error of grs_jit_get or grs_ctx_get; never NULL, valid until the thread's next failing call. */
GRS_API
const grs_error *grs_last_error(void);

#define GRS_INIT(type) ((type){.size = sizeof(type)}) /* C only; in C++ value-initialise and set .size */

/* ---------------------------------------------------------------- context -------------------------------------- */

typedef struct grs_ctx grs_ctx;       /* config, cache and compiled kernels; safe from any thread */
typedef struct grs_kernel grs_kernel; /* one compiled kernel; owned by its context, immutable     */
typedef struct grs_comm grs_comm;     /* one rank of a tensor-parallel group                      */

typedef enum grs_log_level { GRS_LOG_ERROR = 1, GRS_LOG_WARN, GRS_LOG_INFO, GRS_LOG_DEBUG } grs_log_level;

typedef struct grs_ctx_options {
    size_t size;
    const char *config_path;          /* YAML file; NULL: $GRS_CONFIG, else the planner chooses everything      */
    const char *cache_dir;            /* NULL: $GRS_CACHE_DIR, $XDG_CACHE_HOME/grs, $HOME/.cache/grs, else none */
    const char *const *cache_ro_dirs; /* NULL-terminated, searched after cache_dir; NULL: $GRS_CACHE_RO_DIRS  */
    int64_t cache_max_bytes;          /* 0: $GRS_CACHE_MAX, else 2 GiB                                          */
    int memory_only;                  /* not 0: never touch the disk                                            */
    const char *arch;                 /* "sm_90a", …; NULL: $GRS_ARCH, else that of device 0, else sm_90a       */
    const char *nvrtc_path;           /* NULL: $GRS_NVRTC, else searched (docs/nvrtc.md)                        */
    int sms;                          /* SMs a rank may use; 0: the config's, else all of them                  */
    void (*log)(void *arg, grs_log_level level, const char *text); /* NULL: warnings and worse to stderr      */
    void *log_arg;
    grs_log_level log_level; /* 0: $GRS_LOG (error|warn|info|debug), else warn                         */
} grs_ctx_options;

/* `options` may be NULL: all defaults. */
GRS_API
grs_status grs_ctx_open(const grs_ctx_options *options, grs_ctx **out, grs_error *err);
/* Frees the kernels too; communicators of this context must be gone. NULL is fine. */
GRS_API
void grs_ctx_close(grs_ctx *ctx);

/* ---------------------------------------------------------------- kernels -------------------------------------- */

/* The kernel for this shape from the process's default context (made on first use from the environment: GRS_CACHE_DIR,
 * GRS_CACHE_RO_DIRS, GRS_CACHE_MAX, GRS_CONFIG, GRS_ARCH, GRS_NVRTC, GRS_LOG). M is a run-time argument of the kernel, so
 * every M of one size class returns the same pointer. 1 <= M, N and K multiples of 8, 1 <= tp <= GRS_MAX_TP. Compiles at
 * most once a key and process. NULL: see grs_last_error(). Never freed. */
GRS_API
const grs_kernel *grs_jit_get(int64_t M, int64_t N, int64_t K, int tp);
/* The default context itself (for communicators); NULL: see grs_last_error(). */
GRS_API
grs_ctx *grs_default_ctx(void);
/* The same from a context of one's own. */
GRS_API
grs_status grs_ctx_get(grs_ctx *ctx, int64_t M, int64_t N, int64_t K, int tp, const grs_kernel **out, grs_error *err);

#define GRS_MAX_TP 64

typedef struct grs_progress {
    int done, total, hits, failed;
    const char *name; /* of the kernel just finished, e.g. "grs_gemm_rs_n4096_k2048_tp4_…" */
    double seconds;   /* since the start */
} grs_progress;

/* Compiles every kernel that the shapes of a config need into the cache, `jobs` at a time (0: cores). The callback may be
 * NULL; a non-zero return of it cancels. Returns the first failure after trying all. */
GRS_API
grs_status grs_precompile(grs_ctx *ctx, const char *config_path, int jobs,
                          int (*progress)(void *arg, const grs_progress *), void *arg, grs_error *err);

typedef enum grs_source { GRS_FROM_MEMORY = 1, GRS_FROM_DISK, GRS_FROM_COMPILER } grs_source;

typedef struct grs_kernel_info {
    size_t size;
    const char *name;           /* of the entry, carries the shape                                              */
    const char *arch;           /* "sm_90a"                                                                     */
    const char *key;            /* cache key digest, hexadecimal                                                */
    grs_source source;          /* where it came from when it entered this context                             */
    int64_t m_min, m_max, n, k; /* the class of M that it serves, and the shape compiled in           */
    int tp;
    int tile_m, tile_n, tile_k, stages, ring_depth;
    int threads, registers, spill_bytes, shared_bytes;
    int max_sms;                  /* largest grid a rank that the plan was proved for                   */
    double expected_us, limit_us; /* grs_kernel_times for times_m                                       */
    int64_t times_m;              /* m_max; in the last class, which is open, 16384 or m_min if larger  */
    size_t memory_bytes;          /* grs_kernel_memory for times_m, on as many SMs as the times are for */
} grs_kernel_info;

GRS_API
grs_status grs_kernel_get_info(const grs_kernel *kernel, grs_kernel_info *info, grs_error *err);

/* Device bytes that grs_comm_prepare reserves on each rank for launches with M <= max_M: slots, mask, outbox, control words.
 * max_M beyond the kernel's class counts as its largest. `sms` 0: the context's, else those of GPU 0. */
GRS_API
grs_status grs_kernel_memory(const grs_kernel *kernel, int64_t max_M, int sms, size_t *bytes, grs_error *err);

/* What the planner expects of a launch with this M, in microseconds: of one launch after another on ranks that have a GPU
 * each, with the config's `sms` and `link_gbps`, else those of the arch's usual GPU. `limit_us` is the longer of the product
 * alone and of what a rank sends; `expected_us` is 0 where nothing like it was measured (another arch;
 * tile.schedule: pingpong in a ring). Either may be NULL. How far off they were: docs/times.md. M within the kernel's class. */
GRS_API
grs_status grs_kernel_times(const grs_kernel *kernel, int64_t M, double *expected_us, double *limit_us, grs_error *err);

typedef enum grs_image { GRS_IMAGE_SOURCE = 1, GRS_IMAGE_PTX, GRS_IMAGE_CUBIN, GRS_IMAGE_LOG } grs_image;
/* Owned by the kernel, lives as long as it does. Texts are NUL-terminated beyond `length`. */
GRS_API
grs_status grs_kernel_image(const grs_kernel *kernel, grs_image what, const void **data, size_t *length,
                            grs_error *err);

/* ---------------------------------------------------------------- ranks ---------------------------------------- */

typedef struct grs_comm_options {
    size_t size;
    double deadline_seconds; /* of every wait inside a kernel; 0: $GRS_DEADLINE, else 30; negative: none      */
    int sms;                 /* SMs a rank may use; 0: the context's, else its share of the device            */
    double setup_seconds;    /* for the others to come to a collective call; 0: $GRS_SETUP_DEADLINE, else 120 */
} grs_comm_options;

/* All ranks of a group in this process: rank i on devices[i] (ordinals; NULL: ranks dealt in blocks over the visible
 * devices). Several ranks may share a GPU (at most 8). `comms` receives `tp` handles. Peer access and native peer
 * atomics are checked here. $GRS_PACE_GBPS (a number): kernels model a link of that rate, for ranks that share a GPU. */
GRS_API
grs_status grs_comm_create_local(grs_ctx *ctx, int tp, const int *devices, const grs_comm_options *options,
                                 grs_comm **comms, grs_error *err);

/* How ranks in several processes find one another: what MPI, a TCP store or any launcher can do. Each call is collective
 * and returns 0 when it went well. Used by grs_comm_create alone, from the calling thread. */
typedef struct grs_bootstrap {
    size_t size;
    void *arg;
    /* `bytes` from every rank, in the order of ranks, into `all` (size * bytes). */
    int (*all_gather)(void *arg, const void *mine, size_t bytes, void *all);
    /* May be NULL. The last call of a creation that went well: what carried the others may be closed after it. */
    int (*barrier)(void *arg);
    /* May be NULL. This rank has given up; others may still wait in a call above. */
    void (*abort)(void *arg, const char *why);
} grs_bootstrap;

/* One rank of `size` in this process, on GPU `device`; the others in other processes of the same host and user (or other
 * threads of this one). Collective. Everything about processes, containers and errors: docs/processes.md.
 *   Memory of all ranks is shared by file descriptors sent over Unix sockets: GRS_ERR_PEER says what the platform refuses.
 *   When one rank fails, every rank returns its error, naming it. A rank that does not come within `setup_seconds` gives
 *   GRS_ERR_TIMEOUT, naming it. `bootstrap` is copied and not used after the call; what it returns other than 0 gives
 *   GRS_ERR_PEER. Two processes on one GPU take turns (or need MPS): right, and slow.
 * Launch with grs_launch; the caller destroys its one handle, whenever the others do. */
GRS_API
grs_status grs_comm_create(grs_ctx *ctx, int rank, int size, int device, const grs_bootstrap *bootstrap,
                           const grs_comm_options *options, grs_comm **out, grs_error *err);

/* The same with rank and size from the environment of torchrun, mpirun or srun, over a TCP rendezvous of its own: rank 0
 * listens. Rank on its host and GPUs visible give the device. Variables: docs/processes.md. */
GRS_API
grs_status grs_comm_create_env(grs_ctx *ctx, const grs_comm_options *options, grs_comm **out, grs_error *err);

/* The same among the ranks of an ncclComm_t (passed as void *), on its device; they may be on several hosts, and their GPUs need
 * not reach each other: grs_comm_get_path says what came of it, docs/nodes.md everything else. NCCL's communicator is used
 * during the call and stays the caller's; no other NCCL call of the process may be in flight. $GRS_NODE (a text): the node
 * that this rank counts as, instead of its host. GRS_ERR_UNSUPPORTED: NCCL is not found ($GRS_NCCL). */
GRS_API
grs_status grs_comm_create_nccl(grs_ctx *ctx, void *nccl_comm, const grs_comm_options *options, grs_comm **out,
                                grs_error *err);

/* How the ranks' products are summed. */
typedef enum grs_path {
    GRS_PATH_FUSED = 1, /* in one kernel, over all ranks                                                          */
    GRS_PATH_STAGED,    /* in a kernel over the ranks of a node, then by ncclReduceScatter between the nodes       */
    GRS_PATH_UNFUSED    /* every rank's product by itself, then ncclReduceScatter over all: nothing is hidden      */
} grs_path;

typedef struct grs_path_info {
    size_t size;
    grs_path path;
    int nodes,
        node_ranks; /* tp = nodes * node_ranks, rank = node * node_ranks + index; fused: one node; unfused: tp nodes of 1 */
    const char *why; /* unfused: why, as a text that lives as long as the communicator; else empty */
} grs_path_info;

GRS_API
grs_status grs_comm_get_path(const grs_comm *comm, grs_path_info *info, grs_error *err);

/* Collective: every rank calls it with the same arguments and no launch in flight. Loads the module, agrees on the
 * kernel and reserves memory for launches with M <= max_M (beyond the kernel's class: its largest). May be called for
 * several kernels; memory only grows, and what a larger request replaces stays until the end, since captured graphs may
 * point to it: prepare the largest first. For a local group, one call on any rank does it for all.
 * Ranks in several processes: what kernel, class, version and max_M each has is compared. Ranks that differ, or of which
 * one failed, all get the same error, naming who, and nothing is prepared anywhere. A rank that could not get its kernel
 * calls with NULL, and tells the others why with the thread's grs_last_error().
 * Over several nodes `kernel` says shape and class, and the kernels that a node needs are taken from the communicator's context
 * (compiled where they are missing); it also reserves nodes * c * N and c * N elements, c = ceil(max_M / tp). */
GRS_API
grs_status grs_comm_prepare(grs_comm *comm, const grs_kernel *kernel, int64_t max_M, grs_error *err);

GRS_API
int grs_comm_rank(const grs_comm *comm);
GRS_API
int grs_comm_size(const grs_comm *comm);
GRS_API
int grs_comm_device(const grs_comm *comm);

/* What went wrong, asynchronously and without synchronising: GRS_OK, or GRS_ERR_TIMEOUT with the wait record as text
 * (rank, role, CTA, owner, tile, epoch, word seen; a line a rank, this one's first), or GRS_ERR_STATE after an abort, or
 * GRS_ERR_PEER when another rank's process has ended without destroying its communicator (kernels in flight are aborted).
 * Over several nodes: what happened on this rank's node; GRS_ERR_PEER, naming the node, once an exchange has brought the word that
 * another one left a launch early (a wait of its own expired, say: D of that launch and of later ones is not valid), or with
 * what NCCL says. When the stream is past a launch and this says GRS_OK, D of this rank is right (docs/nodes.md). */
GRS_API
grs_status grs_comm_check(grs_comm *comm, grs_error *err);
/* Raises the abort words: kernels in flight leave on every rank, in whichever process; later launches are refused. Over several
 * nodes it reaches the ranks of this one, and ends what NCCL does on this rank (ncclCommAbort of the library's own
 * communicator, never of the caller's): every rank should call it. Another thread may be inside a call of this communicator,
 * which then ends with an error. */
GRS_API
grs_status grs_comm_abort(grs_comm *comm, grs_error *err);
/* Waits for the device of this rank (and so for launches whose other ranks have been launched). For a local group, destroy
 * every handle; the memory goes with the last. Over several nodes all ranks call it at about the same time, as NCCL's end of a
 * communicator is a meeting of its ranks. NULL is fine. */
GRS_API
void grs_comm_destroy(grs_comm *comm);

/* ---------------------------------------------------------------- work ----------------------------------------- */

typedef struct grs_operands {
    const void *A; /* [M, K], leading dimension lda >= K                                         */
    int64_t lda;
    const void *B; /* [N, K], leading dimension ldb >= K                                         */
    int64_t ldb;
    void *D; /* [rows kept by this rank, N], ldd >= N; NULL allowed where no row is kept   */
    int64_t ldd;
    int64_t M;  /* the same on all ranks, within the kernel's class and the prepared maximum  */
} grs_operands; /* bases 16-byte aligned, leading dimensions multiples of 8                   */

/* One rank, asynchronous on `stream`; capturable. Launches of one communicator must be ordered on each rank, and all
 * ranks launch the same sequence. Ranks that share a GPU need streams of their own here, since they wait for one another
 * (grs_launch_local needs none). No allocation, no synchronisation, no exchange between hosts. */
GRS_API
grs_status grs_launch(grs_comm *comm, const grs_kernel *kernel, const grs_operands *operands, void *stream,
                      grs_error *err);

/* All ranks of a local group at once: operands[i] and streams[i] belong to rank i. Ranks that share a GPU go out as one
 * grid on the stream of the lowest of them. */
GRS_API
grs_status grs_launch_local(grs_comm *const *comms, const grs_kernel *kernel, const grs_operands *operands,
                            void *const *streams, grs_error *err);

/* Rows of D that rank `rank` keeps: first row in the M of A (may be >= M), and count (0 .. ceil(M/tp)). */
GRS_API
void grs_rows(int64_t M, int tp, int rank, int64_t *first, int64_t *count);

#ifdef __cplusplus
}
#endif
#endif
