#!/usr/bin/env bash
# What takes a rank on each of several GPUs: correctness, processes, a killed rank, graphs, the policies, the layers of models beside
# the libraries, the skew of the ranks, two groups at once, two nodes. For machines that are lent by the minute: what it needs is compiled
# beforehand, steps come in the order of their worth, and each has a time limit.
#
#   tests/gpu/many.sh [STEP...]
#   GPUS=4 tests/gpu/many.sh --precompile       # where there is no GPU: compiles all that a machine with so many needs
#
#   exact      N 4096, K 2048, M 256 … 8192: exact and random operands, two launches each, metric below 1e-5
#   odd        uneven owners, owners without rows, odd N and K, strides, guard zones
#   processes  a process a rank, started by grsrun and by torchrun
#   killed     a rank's process is killed while all run: the others end and say so
#   graph      a captured launch is replayed a thousand times, each result checked
#   ablation   bench/run.sh ablation-link
#   models     bench/run.sh models, without PyTorch's operator
#   groups     two groups of half of the ranks each at once: in one process, in two, and a process a rank
#   skew       grsrun --bench --skew: N 4096, K 2048, M 256 … 8192
#   nodes      nodes of an ncclComm_t, with NCCL between their kernels: test_nccl, then grsrun on two nodes and with every rank a node
#   async      PyTorch's operator, into the table of models
#
# Environment: GPUS: so many of those there are; BUDGET: seconds for all steps (530); BENCH_OUT: where results and each step's output
# go (bench/results; output and summary in many-*.txt there); TORCHRUN: PyTorch's launcher (torchrun).
# The last line counts the steps; exit code 1 when one failed, or was not reached.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=bench/machine.sh
. bench/machine.sh
export LC_ALL=C.UTF-8
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
export BUILD
grsrun=$BUILD/grsrun
torchrun=${TORCHRUN:-torchrun}
budget=${BUDGET:-530}
all=(exact odd processes killed graph ablation models groups skew nodes async)

# ---------------------------------------------------------------- what steps run with

# GPUs, and ranks, are $n.
# shellcheck disable=SC2054 # the commas are part of the shapes
sizes() {
    half=$((n / 2))
    sweep=(--shape 256:8192,4096,2048 --tp "$n" --ranks-per-gpu 1)
    odd=(--shape 1,7,255,1023,4095,136,72 --shape "1,1023,8192,$((29568 / n / 8 * 8))" --shape 5,257,4104,2056 --tp "$n" --ranks-per-gpu 1)
    replayed=(--shape 1024,4096,2048 --tp "$n" --ranks-per-gpu 1)
    noded=(--shape 256:8192,4096,2048 --shape 1,7,255,1023,136,72)
    divided=("$n") # numbers of nodes
    if [[ $n -gt 2 && $((n % 2)) -eq 0 ]]; then divided=(2 "$n"); fi
    halves=(--shape 1,1023,512,136,72 --shape 256,1024,4096,2048 --tp "$half")
}

precompile() {
    local failed=0 m
    "$grsrun" --precompile "${sweep[@]}" --bench --skew || failed=1
    "$grsrun" --precompile "${odd[@]}" || failed=1
    "$grsrun" --precompile "${halves[@]}" --shape 256:8192,4096,2048 || failed=1
    local nodes
    for nodes in "${divided[@]}"; do
        "$grsrun" --precompile --procs --nodes "$nodes" "${noded[@]}" --shape 1023,4096,2048 --tp "$n" || failed=1
    done
    local tp # of tests/gpu/test_nccl.c: K is 256 / tp, and nodes have kernels of their own
    for tp in 2,1 2,2 3,1 4,2 "$n,$half"; do
        m=$((256 / ${tp%,*} / 8 * 8))
        "$grsrun" --precompile --shape "1,5,130,257,264,$m" --tp "$tp" || failed=1
    done
    GRS_STALL=0:0 "$grsrun" --precompile --shape 130,264,64 --tp 2,4 || failed=1 # and of its ranks that stand still
    for m in 600 130 7 257 64; do # tests/gpu/test_groups.c
        "$grsrun" --precompile --shape "$m,256,128" --tp "$((n >= 4 ? half : 2))" || failed=1
    done
    GPUS=$n bench/run.sh --precompile ablation-link models || failed=1
    return $failed
}

# ---------------------------------------------------------------- steps

# Rows of a file of --verify: all right, each launched so often, and the metric as it is asked for.
judge() { # FILE ROWS LAUNCHES
    python3 - "$@" <<'PY'
import json, sys
name, wanted, launches = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rows = json.load(open(name))["rows"]
bad = [row for row in rows if not (row["passed"] and row["mismatches"] == 0 and row["repeats_equal"] and row["launches"] >= launches
                                   and row["ranks_per_gpu"] == 1 and (row["mode"] == "exact" or row["metric"] < 1e-5))]
print(f"{name}: {len(rows)} rows, {sum(row['launches'] for row in rows)} launches, largest metric {max(row['metric'] for row in rows):.3g}")
if len(rows) != wanted or bad:
    sys.exit(f"{name}: {wanted} rows were to be right; not so: {bad}")
PY
}

step_exact() {
    "$grsrun" --backend gpu --verify "${sweep[@]}" --save "$out/$gpu-x$n-verify.json" && judge "$out/$gpu-x$n-verify.json" 12 4
}

step_odd() {
    "$grsrun" --backend gpu --verify "${odd[@]}" --lda +8 --ldb +24 --ldd +40 --guard
}

# Every rank shows a table: so many lines of all of them are right.
all_ok() { # LINES COMMAND...
    local lines=$1 code
    shift
    "$@" >"$tmp/table" 2>&1
    code=$?
    cat "$tmp/table"
    [[ $code -eq 0 && $(grep -c ' ok$' "$tmp/table") -eq $lines ]]
}

step_processes() {
    all_ok $((12 * n)) "$grsrun" --procs --shape 256:8192,4096,2048 --tp "$n" || return 1
    command -v "$torchrun" >/dev/null || { echo "there is no $torchrun (TORCHRUN may name it)"; return 1; }
    all_ok $((12 * n)) "$torchrun" --no-python --nproc-per-node "$n" "$grsrun" --procs --shape 256:8192,4096,2048 --tp "$n"
}

children_of() { grep -lE "^PPid:[[:space:]]+$1\$" /proc/[0-9]*/status 2>/dev/null | cut -d/ -f3 | sort -n; }
# Whether there is such a process, and not only what its parent has yet to ask for.
runs() { grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null; }

step_killed() {
    local parent ranks code started=$SECONDS
    "$grsrun" --procs --shape 8192,4096,2048 --tp "$n" --rounds 100000 >"$tmp/table" 2>"$tmp/said" &
    parent=$!
    until [[ $(grep -c 'verdict$' "$tmp/table") -eq $n ]]; do # every rank has met the others
        if ! kill -0 $parent 2>/dev/null || [[ $((SECONDS - started)) -gt 60 ]]; then
            cat "$tmp/table" "$tmp/said"
            return 1
        fi
        sleep 0.2
    done
    sleep 2
    mapfile -t ranks < <(children_of $parent)
    [[ ${#ranks[@]} -eq $n ]] || { echo "${#ranks[@]} ranks are there"; return 1; }
    kill -KILL "${ranks[1]}" || return 1
    started=$SECONDS
    wait $parent
    code=$?
    echo "grsrun ended with $code, $((SECONDS - started)) s after the kill"
    cat "$tmp/said"
    [[ $code -eq 1 && $((SECONDS - started)) -lt 45 ]] && grep -qF 'was ended by signal 9' "$tmp/said" || return 1
    started=$SECONDS
    for rank in "${ranks[@]}"; do
        while runs "$rank"; do # one that was killed takes a moment to end
            [[ $((SECONDS - started)) -lt 5 ]] || { echo "process $rank is left"; return 1; }
            sleep 0.1
        done
    done
}

step_graph() { # two kinds of operands, two sets of each
    "$grsrun" --backend gpu --verify --graph --repeat 250 "${replayed[@]}" --save "$tmp/graph.json" && judge "$tmp/graph.json" 2 500
}

# bench/run.sh on these GPUs; in the file that it leaves every row has been measured.
measured() { # FILE ROWS KEYS SET
    NO_ASYNC_TP=1 GPUS=$n BENCH_OUT=$out bench/run.sh "$4" && measured_rows "$1" "$2" "$3"
}
measured_rows() { # FILE ROWS KEYS
    python3 - "$@" <<'PY'
import json, math, sys
name, wanted, keys = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
rows = json.load(open(name))["rows"]
empty = [(row["m"], row["n"], row["k"], key) for row in rows for key in keys
         if row[key] is None and (key != "skew" or row["mode"] == "back_to_back")]
for mode in ("back_to_back", "isolated"):
    pairs = [(row["cublas_nccl_us"], row["ours_us"]) for row in rows if row.get("mode") == mode and row.get("cublas_nccl_us")]
    if pairs:
        mean = math.exp(sum(math.log(theirs / ours) for theirs, ours in pairs) / len(pairs))
        print(f"{name}: {mode}: cuBLAS + NCCL / ours: geometric mean {mean:.3f} of {len(pairs)}")
if len(rows) != wanted or empty:
    sys.exit(f"{name}: {len(rows)} rows of {wanted}; without a value: {empty}")
PY
}

step_ablation() { measured "$out/$gpu-x$n-ablation.json" 75 us ablation-link; }
step_models() { measured "$out/$gpu-x$n-models.json" 42 ours_us,cublas_us,cublas_nccl_us,skew models; }

a_group() { # NAME GPUS...: a process a rank
    local name=$1 gpus
    shift
    gpus=$(IFS=, && echo "$*")
    mkdir "$tmp/of-$name"
    tmp=$tmp/of-$name all_ok $((10 * half)) env CUDA_VISIBLE_DEVICES="$gpus" "$grsrun" --procs "${halves[@]}" --rounds 5 >"$tmp/$name" 2>&1
}
step_groups() {
    local left right visible
    "$BUILD/tests/gpu/test_groups" || return 1
    [[ $half -ge 2 ]] || return 0
    IFS=, read -ra visible <<<"${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 $((n - 1)))}"
    a_group left "${visible[@]:0:half}" &
    left=$!
    a_group right "${visible[@]:half:half}" &
    right=$!
    wait $left
    left=$?
    wait $right
    right=$?
    cat "$tmp/left" "$tmp/right"
    [[ $left -eq 0 && $right -eq 0 ]]
}

step_skew() {
    "$grsrun" --bench --skew "${sweep[@]}" --iters 10 --save "$out/$gpu-x$n-skew.json" && measured_rows "$out/$gpu-x$n-skew.json" 12 ours_us,skew
}

step_nodes() { # grsrun as a launcher: two nodes, then every rank a node of its own
    local nodes
    "$BUILD/tests/gpu/test_nccl" || return 1
    for nodes in "${divided[@]}"; do
        all_ok $((20 * n)) "$grsrun" --procs --nodes "$nodes" "${noded[@]}" --tp "$n" --ldd +8 || return 1
        all_ok $((2 * n)) "$grsrun" --procs --nodes "$nodes" --shape 1023,4096,2048 --tp "$n" --graph --repeat 50 || return 1
    done
}

step_async() {
    GPUS=$n BENCH_OUT=$out bench/run.sh models-async-tp && measured_rows "$out/$gpu-x$n-models.json" 42 async_tp_us
}

# Seconds that a step may take.
limit_of() {
    case $1 in
    models | async) echo 150 ;;
    ablation | groups | skew | nodes) echo 120 ;;
    *) echo 90 ;;
    esac
}

# ---------------------------------------------------------------- running them

if [[ ${1:-} == --step ]]; then # one of them, as a process of its own, so that it can be ended
    n=$2 gpu=$3 out=$4
    sizes
    tmp=$(mktemp -d)
    trap 'rm -rf "$tmp"' EXIT
    "step_$5"
    exit
fi
if [[ ${1:-} == --precompile ]]; then
    n=${GPUS:-2}
    sizes
    precompile
    exit
fi
n=$(machine_gpus)
if [[ $n -lt 2 ]]; then
    echo "many: two GPUs or more are needed, and nvidia-smi lists $n" >&2
    exit 1
fi
gpu=$(machine_name)
if [[ ${GPUS:-} ]]; then # none but these for all that follows
    IFS=, read -ra visible <<<"${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 $((n - 1)))}"
    CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${visible[*]:0:n}")
    export CUDA_VISIBLE_DEVICES
fi
out=${BENCH_OUT:-bench/results}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
for step in "$@"; do
    [[ " ${all[*]} " == *" $step "* ]] || { echo "many: '$step' is none of ${all[*]}" >&2; exit 2; }
done
if [[ $# -eq 0 ]]; then set -- "${all[@]}"; fi

say() { echo "$*" | tee -a "$out/many-summary.txt"; }
: >"$out/many-summary.txt"
say "# $n x $gpu, $("$grsrun" --version)"
right=0 wrong=0 missed=0 running=
trap 'kill $running 2>/dev/null; exit 130' INT TERM
for step in "$@"; do
    left=$((budget - SECONDS)) limit=$(limit_of "$step")
    if [[ $left -lt 10 ]]; then
        say "missed         $step: $budget s are over"
        missed=$((missed + 1))
        continue
    fi
    started=$(date +%s%N)
    # All that it has started is in its group, and ends with it.
    timeout --kill-after=10 $((limit < left ? limit : left)) tests/gpu/many.sh --step "$n" "$gpu" "$out" "$step" \
        >"$out/many-$step.txt" 2>&1 </dev/null &
    running=$!
    wait $running
    code=$?
    took=$((($(date +%s%N) - started) / 100000000))
    if [[ $code -eq 0 ]]; then
        right=$((right + 1)) verdict='ok    '
    else
        wrong=$((wrong + 1)) verdict=FAILED
    fi
    say "$(printf '%s %4d.%d s  %s' "$verdict" $((took / 10)) $((took % 10)) "$step")$([[ $code -ne 124 ]] || echo ': its time was over')"
    grep -hE 'geometric mean|largest metric|^#     (between|a rank between|clocks)' "$out/many-$step.txt" | head -n 8 | sed 's/^/    | /'
    if [[ $code -ne 0 ]]; then tail -n 25 "$out/many-$step.txt" | sed 's/^/    | /'; fi
done
say "$right right, $wrong wrong, $missed not reached, $SECONDS s"
[[ $wrong -eq 0 && $missed -eq 0 ]]
