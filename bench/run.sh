#!/usr/bin/env bash
# `make bench`: measures on this machine's GPUs and keeps the results.
#
#   bench/run.sh [--precompile] [SET...]
#
#   gemm       one rank against cuBLAS with warm L2: M 2048 … 8192, N 4096 and 8192, K 1024 … 14336
#   gemm-cold  the same with cold L2
#   gemm-small the same with few rows: M 64 … 1024
#   ring       a rank on every GPU; where there is one, two ranks share it: N 4096 K 2048 and others of its kind
#   link       (two GPUs or more) the same and M 64 and 256, a rank a GPU, with PyTorch's fused operator beside it
#   models     (two GPUs or more) a rank a GPU, tp of them: the two layers of Llama 70B and of Qwen 72B that end in a
#              reduce-scatter, M 256 … 16384, with PyTorch's operator and the skew of the ranks
#   models-async-tp  PyTorch's operator alone, into the file that models has left
#   sweep      (two GPUs or more) the shapes of link under configs that choose otherwise than the planner, back to back
#   paced      two ranks on one GPU under a model of the link at $PACE GB/s a GPU (372)
#   crowd      4 and 8 ranks on one GPU
#   ablation   every older policy beside ours, N 4096 K 2048, M 512 … 8192: 2 and 4 ranks on one GPU, without and with that
#              model, and where there are more GPUs a rank on each
#   ablation-link  (two GPUs or more) the last of these alone
#
# Without an argument: all that this machine can do. Kernels for ranks that share a GPU are planned as such: each with its part
# of the SMs ($SMS of a GPU, 132), and a link as fast as memory, or as the model's. GPUS: so many of those there are (all);
# BENCH_OUT: where the files go (bench/results); BENCH_FLAGS: more options for grsrun; TORCHRUN: PyTorch's launcher (torchrun);
# NO_ASYNC_TP: not empty: leave PyTorch out.
# Each set leaves .json and .svg files, named after the GPU; bench/README.md says what is in them, and bench/tables.py puts them
# into README and docs. When a run fails the files of the one before stay.
#
# --precompile: needs no GPU and measures nothing: compiles the sets' kernels into the cache. GPUS says how many GPUs the
# machine has that they are for (2).
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=bench/machine.sh
. bench/machine.sh
BUILD=${BUILD:-build}
out=${BENCH_OUT:-bench/results}
pace=${PACE:-372}
sms=${SMS:-132}
torchrun=${TORCHRUN:-torchrun}
precompile=
if [[ ${1:-} == --precompile ]]; then precompile=yes && shift; fi

if [[ $precompile ]]; then
    gpus=${GPUS:-2} gpu=none
else
    gpus=$(machine_gpus)
    if [[ $gpus -eq 0 ]]; then
        echo "bench: nvidia-smi lists no GPU: nothing can be measured here" >&2
        exit 1
    fi
    gpu=$(machine_name)
    mkdir -p "$out"
fi
if [[ $# -eq 0 ]]; then
    set -- gemm gemm-cold gemm-small ring paced crowd ablation
    if [[ $gpus -gt 1 ]]; then set -- "$@" link models; fi
fi

gemm=()
for n in 4096 8192; do
    for k in 1024 2048 4096 7168 14336; do
        gemm+=(--shape "2048:8192,$n,$k")
    done
done
# shellcheck disable=SC2054 # the commas are part of the shapes
ring=(--shape 512:8192,4096,2048 --shape 2048:8192,8192,1024 --shape 2048,8192,8192,4096 --shape 2048,8192,14336
    --shape 8192,4096,7168)
# The same and two smaller, one by one, for what takes no ranges.
# shellcheck disable=SC2054
link=(64,4096,2048 256,4096,2048 512,4096,2048 1024,4096,2048 2048,4096,2048 4096,4096,2048 8192,4096,2048 2048,8192,1024
    4096,8192,1024 8192,8192,1024 2048,8192,4096 8192,8192,4096 2048,8192,14336 8192,4096,7168)

# K of a rank: hidden size (8192) and intermediate sizes of the published configs, as in configs/, over tp.
models=()
for k in 8192 28672 29568; do
    for m in 256 512 1024 2048 4096 8192 16384; do
        models+=("$m,8192,$((k / gpus))")
    done
done

# What ranks that share a GPU have, as a config: its name is in $sharing.
sharing=$(mktemp --suffix=.yaml)
trap 'rm -f "$sharing"' EXIT
share() { # GBPS [RANKS]; without RANKS each has what is there
    printf 'version: 1\nlink_gbps: %d\n' "$1" >"$sharing"
    if [[ $# -gt 1 ]]; then printf 'sms: %d\n' $((sms / $2)) >>"$sharing"; fi
}
memory=100000 # GB/s: no tile ever waits for it

measure() { # NAME --bench|--ablate OPTIONS...
    local file=$out/$gpu-$1
    shift
    # shellcheck disable=SC2086 # BENCH_FLAGS is a list of words
    if [[ $precompile ]]; then
        "$BUILD/grsrun" --precompile "$@" ${BENCH_FLAGS:-}
    else
        "$BUILD/grsrun" --backend gpu --save "$file.json" --svg "$file.svg" "$@" ${BENCH_FLAGS:-}
    fi
}

# For what is about the link between GPUs.
need_gpus() { # SET
    if [[ $gpus -lt 2 ]]; then
        echo "bench: $1 needs two GPUs" >&2
        exit 1
    fi
}

# PyTorch's operator on these shapes, into the rows of a file. Without PyTorch the column stays empty.
add_async_tp() { # FILE SHAPES...
    local file=$1 times
    shift
    if [[ $precompile || ${NO_ASYNC_TP:-} ]]; then return; fi
    if ! command -v "$torchrun" >/dev/null; then
        echo "# no async-TP: there is no $torchrun (TORCHRUN may name it)" >&2
        return
    fi
    times=$(mktemp)
    if "$torchrun" --standalone --nproc-per-node="$gpus" bench/async_tp.py --out "$times" "$@" >&2; then
        bench/async_tp.py --merge "$times" "$file"
    else
        echo "# no async-TP: $torchrun failed" >&2
    fi
    rm -f "$times"
}

ablate_link() { measure "x$gpus-ablation" --ablate --tp "$gpus" --ranks-per-gpu 1 --shape 512:8192,4096,2048; }

# What a config may choose otherwise than the planner does, a line after `version: 1` each. The first is the planner's own.
sweeps=('' 'tile: {m: 64, n: 64}' 'tile: {m: 64, n: 128}' 'tile: {m: 128, n: 64}' 'tile: {m: 128, n: 128}' 'tile: {m: 128, n: 192}'
    'tile: {m: 128, n: 256}' 'tile: {cluster: 2}' 'ring: {place: global}' 'ring: {place: global, depth: 2}'
    'ring: {place: global, depth: 8}' 'ring: {place: global, chunk: {bytes: 8192, count: 2}}' 'ring: {place: shared, depth: 1}'
    'order: {interleave: 1}' 'order: {interleave: 3}' 'drain: {policy: lane_per_stage}' 'link_gbps: 300' 'link_gbps: 400')
sweep() {
    local folder name i
    folder=$(mktemp -d)
    for i in "${!sweeps[@]}"; do
        name=$folder/$(printf '%02d' "$i")
        printf 'version: 1\n%s\n' "${sweeps[$i]}" >"$name.yaml"
        local options=(--bench --tp "$gpus" --ranks-per-gpu 1 --config "$name.yaml" "${link[@]/#/--shape=}")
        if [[ $precompile ]]; then
            "$BUILD/grsrun" --precompile "${options[@]}"
        else
            "$BUILD/grsrun" --backend gpu --save "$name.json" "${options[@]}"
        fi
    done
    if [[ ! $precompile ]]; then bench/merge_sweep.py "$out/$gpu-x$gpus-sweep.json" "$folder"; fi
    rm -rf "$folder"
}

for name in "$@"; do
    case $name in
    gemm) measure gemm --bench --tp 1 "${gemm[@]}" ;;
    gemm-small) measure gemm-small --bench --tp 1 --shape 64:1024,4096,2048 --shape 64:1024,8192,1024 --shape 64:1024,8192,4096 ;;
    gemm-cold) measure gemm-cold --bench --tp 1 --l2 cold "${gemm[@]}" ;;
    ring)
        if [[ $gpus -gt 1 ]]; then
            measure "x$gpus-ring" --bench --tp "$gpus" "${ring[@]}"
        else
            share $memory 2
            measure ring --bench --tp 2 --ranks-per-gpu 2 --config "$sharing" "${ring[@]}"
        fi
        ;;
    link)
        need_gpus link
        measure "x$gpus-link" --bench --waits --tp "$gpus" --ranks-per-gpu 1 "${link[@]/#/--shape=}"
        add_async_tp "$out/$gpu-x$gpus-link.json" "${link[@]}"
        ;;
    sweep)
        need_gpus sweep
        sweep
        ;;
    models)
        need_gpus models
        if [[ $((8192 % (8 * gpus))) -ne 0 || $((28672 % (8 * gpus))) -ne 0 || $((29568 % (8 * gpus))) -ne 0 ]]; then
            echo "bench: models: K of a rank is no multiple of 8 on $gpus GPUs; GPUS may say how many to use" >&2
            exit 1
        fi
        measure "x$gpus-models" --bench --skew --tp "$gpus" --ranks-per-gpu 1 "${models[@]/#/--shape=}"
        add_async_tp "$out/$gpu-x$gpus-models.json" "${models[@]}"
        ;;
    models-async-tp) NO_ASYNC_TP='' add_async_tp "$out/$gpu-x$gpus-models.json" "${models[@]}" ;;
    paced)
        share $((${pace%.*} / 2)) 2
        measure paced --bench --waits --tp 2 --ranks-per-gpu 2 --pace "$pace" --config "$sharing" "${ring[@]}"
        ;;
    crowd)
        share $memory
        measure crowd --bench --tp 4,8 --ranks-per-gpu 8 --config "$sharing" --shape 4096,8192,4096,2048
        ;;
    ablation)
        measure ablation --ablate --tp 2,4 --ranks-per-gpu 8 --shape 512:8192,4096,2048
        measure ablation-paced --ablate --tp 2,4 --ranks-per-gpu 8 --pace "$pace" --shape 512:8192,4096,2048
        if [[ $gpus -gt 1 ]]; then ablate_link; fi
        ;;
    ablation-link)
        need_gpus ablation-link
        ablate_link
        ;;
    *)
        echo "bench: '$name' is none of gemm, gemm-cold, gemm-small, ring, link, sweep, models, models-async-tp, paced, crowd, ablation, ablation-link" >&2
        exit 2
        ;;
    esac
done
