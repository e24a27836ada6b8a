#!/usr/bin/env bash
# grsrun from the outside: exit codes, what goes where, and that a wrong result is found and named. The GPU is
# tests/shim_hostgpu.c, a driver that runs on the host and does wrong on demand; the kernels are compiled by NVRTC.
# shellcheck disable=SC2317,SC2016 # functions are called by name, through check; patterns have dollars
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"
grsrun=$BUILD/grsrun
export GRS_CACHE_DIR=$TMP/cache GRS_CUBLASLT=/nonexistent/cublasLt GRS_NCCL=/nonexistent/nccl
unset GRS_CONFIG GRS_ARCH GRS_CACHE_RO_DIRS GRS_LOG HOSTGPU_FAULT HOSTGPU_DEVICES HOSTGPU_LOG

# Unlike the helper of that name it takes a pattern.
says() { grep -qE -e "$2" "$TMP/$1" || { echo "$1 lacks: $2"; cat "$TMP/$1"; return 1; }; }

help() { exits 0 "$grsrun" --help && silent err && says out '^usage: grsrun' && says out '--ranks-per-gpu N'; }
version() { exits 0 "$grsrun" --version && silent err && says out '^grsrun 0\.1\.0 \(commit [0-9a-z]+(, dirty)?\)$'; }
nothing() { exits 2 "$grsrun" && silent out && says err '^grsrun: nothing to run: give --shape'; }
bad_shape() { exits 2 "$grsrun" --shape 8,8 && silent out && says err "^grsrun: --shape: '8,8' is not a shape"; }
bad_config() {
    printf 'version: 1\ntile: {mm: 1}\n' >"$TMP/bad.yaml"
    exits 2 "$grsrun" --config "$TMP/bad.yaml" && silent out && says err 'bad.yaml:2:8: tile.mm: unknown key'
}
no_gpu() {
    exits 1 env GRS_LIBCUDA=/nonexistent/libcuda.so "$grsrun" --shape 8,8,8 --backend gpu && silent out &&
        says err '^grsrun: the CUDA driver cannot be opened: /nonexistent/libcuda.so'
}
bench_without_gpu() {
    exits 1 env GRS_LIBCUDA=/nonexistent/libcuda.so "$grsrun" --shape 8,8,8 --bench && silent out &&
        says err '^grsrun: the CUDA driver cannot be opened'
}

manual() { # every option of --help is in the manual page
    "$grsrun" --help | grep -oE '^  --[a-z-]+' | tr -d ' ' | while read -r option; do
        grep -qF -e "${option//-/\\-}" man/grsrun.1 || { echo "man/grsrun.1 lacks $option"; return 1; }
    done
}

check "--help" help
check "the manual page has every option" manual
check "--version" version
check "no arguments are a mistake" nothing
check "a bad shape is a mistake" bad_shape
check "a bad config is a mistake, with its place" bad_config
check "--backend gpu without a GPU fails" no_gpu
check "--bench without a GPU fails" bench_without_gpu

gpu() { env GRS_LIBCUDA="$BUILD/tests/shim/libhostgpu.so" "$grsrun" --backend gpu "$@"; }
# shellcheck disable=SC2054 # the commas are part of the shape
small=(--shape 129,136,72 --tp 3)
if ! gpu "${small[@]}" >"$TMP/first" 2>&1 && grep -q 'NVRTC' "$TMP/first"; then
    skip "runs on the stand-in for a GPU" "$(head -c 200 "$TMP/first" | tr '\n#' '  ')"
    finish
fi

passes() {
    exits 0 gpu "${small[@]}" && silent err && says out '129 +136 +72 +3 +3 +44 exact +4 +0 .* - +ok$' &&
        says out '129 +136 +72 +3 +3 +44 random +4 +0 .* 0\.[0-9]+ +ok$'
}
options() {
    HOSTGPU_DEVICES=2 HOSTGPU_LOG=$TMP/log exits 0 gpu --shape 5,520,136 --tp 8 --graph --guard --lda +8 --ldb 152 --ldd +16 \
        --repeat 3 --seed 77 && silent err && says out ' 8 +4 +33 random +6 +0 .* ok$' &&
        [[ $(grep -c graph "$TMP/log") -eq 24 ]]
}
list() { exits 0 gpu --shape 1,7:29x2,24,16 --tp 1,2 && [[ $(grep -c ' ok$' "$TMP/out") -eq 16 ]]; }
rounds() { # of two shapes on one communicator; nothing is shown before the last
    exits 0 gpu --shape 9,17,24,16 --tp 2 --rounds 3 --repeat 1 && silent err && [[ $(grep -c ' ok$' "$TMP/out") -eq 4 ]] &&
        says out ' 17 .* random +6 +0 '
}
config_shapes() {
    printf 'version: 1\nshapes:\n  - {m: [3, 40], n: 24, k: 16, tp: [1, 4]}\n' >"$TMP/good.yaml"
    exits 0 gpu --config "$TMP/good.yaml" --tp 4 && [[ $(grep -c ' ok$' "$TMP/out") -eq 4 ]]
}
# wrong FAULT TEXT [ARGUMENTS...]: the fault is found, and said so.
wrong() {
    HOSTGPU_FAULT=$1 exits 1 gpu "${small[@]}" "${@:3}" && says out 'FAILED$' && says err "$2" &&
        says err '^grsrun: FAILED: a result is wrong; see above$'
}
timed_out() {
    HOSTGPU_FAULT=timeout exits 1 gpu "${small[@]}" && says err '^grsrun: 129,136,72 tp 3: rank 0: prefetcher waited 30'
}
too_many() {
    exits 2 gpu --shape 8,8,8 --tp 16 && says err '^grsrun: tp 16 on 1 GPU makes 16 ranks a GPU; at most 8 can share one$'
}
too_few() {
    exits 2 gpu --shape 8,8,8 --tp 2 --ranks-per-gpu 1 &&
        says err '^grsrun: tp 2 with --ranks-per-gpu 1 needs 2 GPUs; 1 visible$'
}
json_verify() {
    exits 0 gpu "${small[@]}" --json && silent err && python3 - "$TMP/out" <<'PY'
import json, sys
object = json.load(open(sys.argv[1]))
assert list(object) == ["kind", "gpu", "driver", "cuda", "date", "commit", "dirty", "rows"], object
assert object["kind"] == "verify" and object["gpu"] == "Host"
assert [row["mode"] for row in object["rows"]] == ["exact", "random"]
assert all(row["passed"] and row["mismatches"] == 0 and row["elements"] == 2 * 129 * 136 for row in object["rows"])
exact, random = object["rows"]
assert exact["rel_err"] == 0 and exact["worst"] is None
assert 1e-3 < random["rel_err"] < 2.2e-3 * 2 ** 0.5 and 0.3 < random["worst"] <= 1
PY
}
json_of_failure() {
    HOSTGPU_FAULT=flip exits 1 gpu "${small[@]}" --json && python3 - "$TMP/out" <<'PY'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
assert [row["passed"] for row in rows] == [False, False] and rows[0]["mismatches"] == 2
PY
}
bench() {
    HOSTGPU_DEVICES=2 exits 0 gpu --shape 16:64,24,16 --tp 1,2 --bench --l2 cold --iters 3 --svg "$TMP/chart.svg" &&
        says err '^# no cuBLAS: \$GRS_CUBLASLT' && says err '^# no NCCL: \$GRS_NCCL' &&
        says err '^# 64,24,16 tp 2: host time of a launch of all ranks: [0-9.]+ us$' &&
        [[ $(grep -c ' b2b ' "$TMP/out") -eq 6 && $(grep -c ' isolated ' "$TMP/out") -eq 6 ]] &&
        grep -q 'nothing to compare with was measured' "$TMP/chart.svg"
}
bench_json() {
    exits 0 gpu --shape 16,24,16 --tp 2 --bench --iters 3 --json --save "$TMP/saved" && cmp "$TMP/out" "$TMP/saved" && python3 - "$TMP/out" <<'PY'
import json, sys
object = json.load(open(sys.argv[1]))
assert object["kind"] == "bench"
keys = ("m n k tp ranks_per_gpu sms pace_gbps config ours_us cublas_us cublas_nccl_us async_tp_us link_gbps limit_us metric "
        "rel_err iters mode l2 cublas_nccl_registered_us link_peak_gbps waits skew cublas_default_us").split()
for row, (mode, iters) in zip(object["rows"], [("back_to_back", 3), ("isolated", 1)], strict=True):
    assert list(row) == keys, row
    assert (row["mode"], row["iters"], row["l2"], row["ranks_per_gpu"], row["sms"]) == (mode, iters, "warm", 2, 66)
    assert row["ours_us"] > 0 and 0 < row["rel_err"] < 0.01 and len(row["config"]) == 64
    assert all(row[key] is None for key in ("pace_gbps", "cublas_us", "cublas_nccl_us", "async_tp_us", "limit_us",
                                            "cublas_nccl_registered_us", "link_peak_gbps", "waits", "skew",
                                            "cublas_default_us"))
PY
}
# The stand-ins let 200 us pass for a product with the best algorithm, number 3 of 5, 600 us with the first, and 500 us for an exchange, 300 us between
# registered buffers.
bench_with_baselines() {
    HOSTGPU_DEVICES=2 GRS_CUBLASLT=$BUILD/tests/shim/libbaselines.so GRS_NCCL=$BUILD/tests/shim/libbaselines.so \
        exits 0 gpu --shape 16,24,16 --tp 2,4 --bench --iters 3 --json --lda +8 && python3 - "$TMP/out" <<'PY' &&
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
assert [(row["tp"], row["ranks_per_gpu"]) for row in rows] == [(2, 1), (2, 1), (4, 2), (4, 2)]
for row in rows:
    assert row["cublas_us"] >= 200 * row["tp"] and row["limit_us"] == row["cublas_us"], row
    assert row["cublas_default_us"] >= 600 * row["tp"], row
    if row["tp"] == 2:
        assert row["cublas_nccl_us"] >= 900 and row["cublas_nccl_registered_us"] >= 700, row
        assert row["cublas_nccl_registered_us"] < row["cublas_nccl_us"] and row["link_peak_gbps"] > 0, row
    else:
        assert row["cublas_nccl_us"] is None and row["cublas_nccl_registered_us"] is None, row
        assert row["link_peak_gbps"] is None, row
PY
        says err '^# link: plain stores reach [0-9.]+ GB/s, all ranks at once$' &&
        says err '^# 16,24,16 tp 2: cuBLAS: algorithm 30, tile 31, stages 36, cluster 38, split-K 32 \(number 3 of 4 that cuBLAS 130001 offers\)$'
}
no_windows() {
    HOSTGPU_DEVICES=2 SHIM_NCCL_WINDOWS=0 GRS_CUBLASLT=$BUILD/tests/shim/libbaselines.so GRS_NCCL=$BUILD/tests/shim/libbaselines.so \
        exits 0 gpu --shape 16,24,16 --tp 2 --bench --iters 1 &&
        says err '^# 16,24,16 tp 2: no registered buffers: NCCL makes no symmetric window on this machine$' &&
        says out ' b2b .* - +[0-9.]+ +[0-9.]+ +[0-9.]+ .*e-03$'
}
bench_of_wrong() {
    HOSTGPU_FAULT=flip exits 1 gpu --shape 16,24,16 --tp 2 --bench --iters 1 --save "$TMP/never" &&
        says err '^# 16,24,16 tp 2: mismatches: 1, ' && [[ ! -e $TMP/never ]]
}

check "a right ring passes" passes
check "graphs, guards, strides, two GPUs, more repeats" options
check "lists and ranges of M, two tp" list
check "rounds" rounds
check "shapes of a config, of one tp" config_shapes
check "one wrong bit" wrong flip \
    'rank 0: 1 of 5848 elements are wrong, 0 of them never written; the first at row 42 \(row 42 of A\), column 135, owner 0, tile [0-9]+ '
check "an element that was never written" wrong unwritten \
    'rank 2: 1 of 5848 elements are wrong, 1 of them never written; the first at row 0 \(row 86 of A\), column 3, .* got NaN \(0xff'
check "a write behind D" wrong behind '1 words in or around D of rank 0 were overwritten, the first 1 elements behind it' --guard
check "a write before D" wrong before '1 words in or around D of rank 0 were overwritten, the first 3 elements before it' --guard
check "a write between the rows of D" wrong rows 'the first at row 0, column 137 \(rows have 136 of 144\)' --ldd +8
check "a write into A" wrong A 'words in or around A of rank 0 were overwritten, the first at row 0, column 5 '
printf 'version: 1\nring: {place: global}\n' >"$TMP/outbox.yaml" # at this M tiles go straight otherwise
check "a write behind the outbox tiles of this launch" wrong outbox 'byte [0-9]+ of the outbox of rank 0 is 0x07' --config "$TMP/outbox.yaml"
check "a write behind the mask" wrong 'behind mask' 'byte 3 behind the mask of rank 0 is 0x07 after the launch, should be 0x5a' --guard
check "a write before the slots" wrong 'before slots' 'byte 5 before the receive slots of rank 0 is 0x07 .*, should be 0x5a' --guard
check "control words that others reach by" wrong control 'byte [0-9]+ of the control words of rank 0 is 0x07'
check "an epoch that is counted twice" wrong epoch 'byte 0 of the control words of rank 0 is 0x02 after the launch, should be 0x01'
check "a credit that is given twice" wrong credit 'byte 256 of the control words of rank 0 is 0x02 .*, should be 0x01'
check "a write behind the slots of this M" wrong slots 'byte [0-9]+ of the receive slots of rank 0 is 0x07 after the launch' --guard
check "a bit that was not cleared" wrong mask 'byte [0-9]+ of the mask of rank 0 is 0x07 after the launch, should be 0x00'
check "another result the second time" wrong drift 'operands 2, launch 2: D is not bitwise that of launch 1'
check "ranks added in another order" wrong order '129,136,72 tp 3 random, operands 1, launch 1: mismatches: [0-9]+$'
check "a deadline that expired" timed_out
check "too many ranks for one GPU" too_many
check "too few GPUs" too_few
check "JSON of --verify" json_verify
check "JSON of a failure" json_of_failure
check "--bench without baselines" bench
check "JSON of --bench" bench_json
check "--bench with baselines, the best algorithm of cuBLAS" bench_with_baselines
check "--bench checks D" bench_of_wrong
check "--bench without registered buffers" no_windows

# From here on the stand-in for NVRTC is enough: the stand-in for a GPU does not look into kernels.
export GRS_NVRTC=$BUILD/tests/shim/libnvrtc.so
paced() { # a rank has as much of the link as of the SMs; bytes sent: 16 · 24 · 2 / 2
    HOSTGPU_DEVICES=1 exits 0 gpu --shape 16,24,16 --tp 2 --bench --iters 2 --pace 0.1 &&
        says out "^# tp 2 under a model of the link: 0\.1 GB/s for a rank's 66 of 132 SMs, and 1 us more for a signal$" &&
        exits 0 gpu --shape 16,24,16 --tp 2 --bench --iters 2 --pace 371.5 --sms 33 --json && python3 - "$TMP/out" <<'PY'
import json, sys
for row in json.load(open(sys.argv[1]))["rows"]:
    assert abs(row["pace_gbps"] - 371.5 / 4) < 0.01, row
PY
}
paced_limit() { # a rank sends 8000 · 24 · 2 bytes
    GRS_CUBLASLT=$BUILD/tests/shim/libbaselines.so exits 0 gpu --shape 16000,24,16 --tp 2 --bench --iters 1 --pace 0.1 --json &&
        python3 - "$TMP/out" <<'PY'
import json, sys
for row in json.load(open(sys.argv[1]))["rows"]:
    assert abs(row["limit_us"] - max(row["cublas_us"], 384000 / 0.05 * 1e-3)) < 1, row
PY
}
paced_by_environment() { GRS_PACE_GBPS=93 exits 0 gpu --shape 16,24,16 --tp 2 && says out 'tp 2 under a model of the link: 93\.0 GB/s'; }
waits() { # 1000 cycles a launch, of which 250 for A and B
    exits 0 gpu --shape 16,24,16 --tp 2 --bench --iters 2 --waits &&
        says out "^#   waits: cycles a CTA and launch, and their share of its 1000$" &&
        says out '^#     math warp +1000 100\.0 %  there$' && says out '^# +250  25\.0 %  for A and B$' &&
        says out '^# +125  12\.5 %  for a partial$' &&
        exits 0 gpu --shape 16,24,16 --tp 2 --bench --iters 2 --waits --json && python3 - "$TMP/out" <<'PY'
import json, sys
first, second = json.load(open(sys.argv[1]))["rows"]
assert first["waits"] == {"run_cycles": 1000.0, "roles": {"prefetcher": {"run": 0.9, "upstream": 0.125},
                                                         "math": {"run": 1.0, "stage_full": 0.25}}}, first
assert second["waits"] is None
PY
}
# The stand-in's ranks begin 20 us after one another, on clocks that are an hour apart, and stand still for 70 us or longer.
skew() {
    HOSTGPU_DEVICES=3 exits 0 gpu --shape 16,24,16 --tp 3 --bench --iters 2 --skew &&
        says out "^#   skew: of 500 launches back to back the median, 99 of 100, the largest, us$" &&
        says out "^#     between the first and last rank's begin +[0-9.]+ +[0-9.]+ +[0-9.]+$" &&
        says out '^#     clocks: known to [0-9.]+ us between GPUs, in steps of 0\.001$' &&
        HOSTGPU_DEVICES=3 exits 0 gpu --shape 16,24,16 --tp 3 --bench --iters 2 --skew --json && python3 - "$TMP/out" <<'PY' &&
import json, sys
first, second = json.load(open(sys.argv[1]))["rows"]
skew = first["skew"]
assert second["skew"] is None and first["waits"] is None and skew["launches"] == 500, first
assert skew["step_us"] == 0.001 and 0 < skew["clocks_us"] < 10000, skew
for key in "begin_us", "end_us":
    assert abs(skew[key]["median"] - 40) <= skew["clocks_us"] + 0.01, skew
    assert skew[key]["median"] <= skew[key]["p99"] <= skew[key]["max"] <= 40 + skew["clocks_us"] + 0.01, skew
assert 69.9 <= skew["gap_us"]["median"] < 10000, skew
PY
        HOSTGPU_DEVICES=1 exits 0 gpu --shape 16,24,16 --tp 3 --bench --iters 2 --skew --waits --json && python3 - "$TMP/out" <<'PY'
import json, sys
row = json.load(open(sys.argv[1]))["rows"][0]
assert row["waits"]["run_cycles"] == 1000 and row["skew"]["clocks_us"] == 0, row
assert all(abs(row["skew"]["begin_us"][key] - 40) < 0.1 for key in ("median", "p99", "max")), row
PY
}
no_stamps() {
    HOSTGPU_FAULT=stamps exits 1 gpu --shape 16,24,16 --tp 2 --bench --iters 1 --skew &&
        says err '^grsrun: 16,24,16 tp 2: rank 0 has no stamps of launch [0-9]+: begin [0-9]+, end 0$'
}
no_clock() {
    HOSTGPU_FAULT=clock exits 1 gpu --shape 16,24,16 --tp 2 --bench --iters 1 --skew &&
        says err '^grsrun: 16,24,16 tp 2: GPU 0 did not say what its clock shows within 2 s$'
}
ablate() {
    HOSTGPU_DEVICES=2 GRS_CUBLASLT=$BUILD/tests/shim/libbaselines.so GRS_NCCL=$BUILD/tests/shim/libbaselines.so \
        exits 0 gpu --shape 16,40,24,16 --tp 2 --ablate --iters 2 --save "$TMP/ablation.json" --svg "$TMP/ablation.svg" &&
        [[ $(grep -c ' equal$' "$TMP/out") -eq 24 ]] && says out '^# 40,24,16 tp 2, 1 a GPU, 132 SMs each; tile 128x128x64, 5 stages' &&
        says out '^ older: segment flags, .* 25\.0 +0\.0 +12\.5 +0\.0  equal$' && python3 - "$TMP/ablation.json" "$TMP/ablation.svg" <<'PY'
import json, sys, xml.dom.minidom
object = json.load(open(sys.argv[1]))
assert object["kind"] == "ablation"
names = ("older flags ring drain lanes all less_flags less_ring less_drain all_lanes order default cublas cublas_nccl "
         "cublas_nccl_registered").split()
assert [row["variant"] for row in object["rows"]] == 2 * names
for row in object["rows"]:
    assert row["us"] > 0 and row["limit_us"] > 0 and row["speedup_over_older"] > 0, row
    assert (row["bitwise_equal"] is None) == row["baseline"] and (row["waits"] is None) == row["baseline"], row
    assert row["best_baseline"] == (row["variant"] == "cublas_nccl_registered"), row
assert len({row["config"] for row in object["rows"]}) >= 12
document = xml.dom.minidom.parse(sys.argv[2])
assert len(document.getElementsByTagName("rect")) == 1 + 30
PY
}
ablate_alone() { # without any library to compare with; the limit is not known
    exits 0 gpu --shape 16,24,16 --tp 2 --ablate --iters 1 --json && python3 - "$TMP/out" <<'PY'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
assert len(rows) == 12 and all(row["ratio"] is None and row["us"] > 0 for row in rows)
PY
}
ablate_refused() { # a tile that leaves no room for two in shared memory
    printf 'version: 1\ntile: {n: 256}\nstages: {load: 4}\n' >"$TMP/wide.yaml"
    exits 2 gpu --shape 16,24,16 --tp 2 --ablate --config "$TMP/wide.yaml" &&
        says err "^grsrun: 16,24,16 tp 2: no tile holds the older kernel's ring in shared memory: "
}
ablate_differs() {
    HOSTGPU_FAULT=drift exits 1 gpu --shape 16,24,16 --tp 2 --ablate --iters 1 --save "$TMP/never" && says out '  DIFFERS$' &&
        says err ': D is not bitwise that of our default$' && [[ ! -e $TMP/never ]]
}
# shellcheck disable=SC2054 # the commas are part of the shape
precompile() { # no GPU; and the run that follows compiles nothing
    local arguments=(--shape 16,40,24,16 --tp 2 --ablate --pace 100) count
    export GRS_CACHE_DIR=$TMP/cache3
    exits 0 env GRS_LIBCUDA=/nonexistent/libcuda.so "$grsrun" "${arguments[@]}" --precompile && silent err &&
        count=$(grep -c ' compiled$' "$TMP/out") && [[ $count -ge 22 && $count -le 24 && $count -eq $(wc -l <"$TMP/out") ]] &&
        SHIM_NVRTC_COUNT=$TMP/compiles exits 0 gpu "${arguments[@]}" --iters 1 &&
        { [[ ! -e $TMP/compiles ]] || ! grep -q c "$TMP/compiles"; } &&
        exits 0 env GRS_LIBCUDA=/nonexistent/libcuda.so "$grsrun" "${arguments[@]}" --precompile && ! grep -q ' compiled$' "$TMP/out"
}
precompile_without_cache() {
    exits 1 env -u HOME -u XDG_CACHE_HOME GRS_CACHE_DIR= GRS_LIBCUDA=/nonexistent/libcuda.so "$grsrun" --shape 8,8,8 --precompile &&
        says err '^grsrun: there is no cache to fill: '
}

check "--pace: a rank's share of the link, said in text and JSON" paced
check "--pace: the limit" paced_limit
check "a pace from the environment is said too" paced_by_environment
check "--waits" waits
check "--skew: ranks on clocks of their own" skew
check "--skew: a launch without stamps" no_stamps
check "--skew: a GPU that does not answer" no_clock
check "--ablate" ablate
check "--ablate without baselines" ablate_alone
check "--ablate where no tile fits" ablate_refused
check "--ablate finds a variant whose D differs" ablate_differs
check "--precompile, then a run that compiles nothing" precompile
check "--precompile without a cache" precompile_without_cache
finish
