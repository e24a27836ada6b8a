/* What grsrun found, as text for people and as JSON for scripts. A time or rate that was not measured is NAN here, `-` in
 * the text and null in JSON. */
#ifndef GRS_TOOLS_GRSRUN_REPORT_H
#define GRS_TOOLS_GRSRUN_REPORT_H

#include <jansson.h>

#include "common/buf.h"
#include "tools/grsrun.h"
#include "tools/grsrun_skew.h"
#include "tools/grsrun_waits.h"

/* Where the figures come from. NULL: not known. */
struct report_head {
    const char *kind;   /* "bench", "verify", "ablation"           */
    const char *gpu;    /* "NVIDIA H200"                           */
    const char *driver; /* "580.95.05"                             */
    const char *cuda;   /* newest CUDA that the driver knows: "13.0" */
};

/* One line of the table of --bench. */
struct bench_row {
    struct grsrun_shape shape;
    int ranks_per_gpu, sms;
    double pace_gbps; /* of a rank's link under the link model                                              */
    char config[65];  /* the kernel's key                                                                  */
    double ours_us, ours_spread; /* median of the samples; (largest − smallest) / median                         */
    double cublas_us, cublas_spread; /* GEMM alone: the ranks of a GPU one after another, slowest GPU            */
    double cublas_default_us; /* the same with the algorithm that cuBLAS takes by itself; cublas_us: with its fastest */
    double cublas_nccl_us;    /* GEMM, then ncclReduceScatter                                                      */
    double registered_us;     /* the same between buffers that NCCL uses in place (symmetric windows)             */
    double async_tp_us;       /* PyTorch's fused operator; grsrun does not measure it                              */
    double link_gbps;         /* bytes that one rank sends / ours_us; NAN at tp 1                                  */
    double link_peak_gbps;    /* plain stores to the peer, all ranks at once; NAN where ranks share a GPU         */
    double limit_us;          /* max(cublas_us, bytes that one rank sends / the link's rate)                       */
    double metric, rel_err;   /* of the timed kernel, on random operands                                           */
    int iters;
    bool isolated; /* each launch alone; else back to back                                              */
    enum grsrun_l2 l2;
    struct waits waits; /* of launches back to back, with a kernel that counts them: --waits                     */
    struct skew skew;   /* of the ranks, in launches back to back of the same kernel: --skew                     */
};

/* Multiplications and additions of one GPU in `us`, in TFLOP/s. */
double report_tflops(const struct bench_row *row, double us);
/* ours / limit; NAN where there is no limit. */
double report_ratio(const struct bench_row *row);

json_t *report_bench_json(const struct bench_row *rows, size_t count);
void report_bench_head(struct buf *out);
void report_bench_text(const struct bench_row *row, struct buf *out);

/* One line of the table of --verify: every launch of one shape with one kind of operands. */
struct verify_row {
    struct grsrun_shape shape;
    int ranks_per_gpu, sms;
    char config[65];
    const char *mode;              /* "exact", "random"                                                  */
    int data_sets, launches;       /* different operands; launches altogether                           */
    uint64_t elements, mismatches; /* compared, over all data sets and ranks; wrong among them    */
    double rel_err, metric;        /* largest of the data sets                                           */
    double worst;                  /* random: largest error / bound                                      */
    double pace_gbps;              /* of a rank's link under the link model                              */
    bool repeats_equal, surroundings_intact, passed;
};

json_t *report_verify_json(const struct verify_row *rows, size_t count);
void report_verify_head(struct buf *out);
void report_verify_text(const struct verify_row *row, struct buf *out);

/* {"kind", "gpu", "driver", "cuda", "date", "commit", "dirty", "rows"}; steals `rows`. NULL without memory. */
json_t *report_object(const struct report_head *head, json_t *rows);
/* The object as text, with a newline at the end. GRS_ERR_MEMORY also for `object` NULL. */
grs_status report_dump(const json_t *object, struct buf *out, grs_error *err);
/* A number, or null where it is not finite; in a table, right-aligned after a blank, or `-`. */
json_t *report_number(double x);
void report_cell(struct buf *out, int width, int decimals, double x);
/* To a file; replaces what is there only when all of it could be written. */
grs_status report_save(const char *path, const struct buf *text, grs_error *err);
/* "# NVIDIA H200, driver 580.95.05, CUDA 13.0, grs 0.1.0 (commit …)". */
void report_origin(const struct report_head *head, struct buf *out);

/* Commit and dirty flag out of grs_version()'s text; false where the text has none. */
bool report_commit(const char *version, char commit[64], bool *dirty);

#endif
