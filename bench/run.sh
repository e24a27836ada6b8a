#!/usr/bin/env bash
# `make bench`: measures on this machine's GPUs and keeps the results.
#
#   bench/run.sh [SET...]
#
#   gemm       one rank against cuBLAS with warm L2: M 2048 … 8192, N 4096 and 8192, K 1024 … 14336
#   gemm-cold  the same with cold L2
#   ring       a rank on every GPU; where there is one, two ranks share it: N 4096 K 2048 and others of its kind
#   crowd      4 and 8 ranks on one GPU
#
# Without an argument: all of them. BENCH_OUT: where the files go (bench/results); BENCH_FLAGS: more options for grsrun. Each
# set leaves one .json and one .svg, named after the GPU; bench/tables.py puts them into README and docs. When a run fails
# the files of the one before stay.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
out=${BENCH_OUT:-bench/results}
mkdir -p "$out"
if [[ $# -eq 0 ]]; then set -- gemm gemm-cold ring crowd; fi

gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU' || true)
if [[ $gpus -eq 0 ]]; then
    echo "bench: nvidia-smi lists no GPU: nothing can be measured here" >&2
    exit 1
fi
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | sed -E 's/^NVIDIA //; s/[^A-Za-z0-9]+/-/g' | tr '[:upper:]' '[:lower:]')

gemm=()
for n in 4096 8192; do
    for k in 1024 2048 4096 7168 14336; do
        gemm+=(--shape "2048:8192,$n,$k")
    done
done
# shellcheck disable=SC2054 # the commas are part of the shapes
ring=(--shape 512:8192,4096,2048 --shape 2048:8192,8192,1024 --shape 2048,8192,8192,4096 --shape 2048,8192,14336
    --shape 8192,4096,7168)

measure() { # NAME OPTIONS...
    local file=$out/$gpu-$1
    shift
    # shellcheck disable=SC2086 # BENCH_FLAGS is a list of words
    "$BUILD/grsrun" --backend gpu --bench --save "$file.json" --svg "$file.svg" "$@" ${BENCH_FLAGS:-}
}

for name in "$@"; do
    case $name in
    gemm) measure gemm --tp 1 "${gemm[@]}" ;;
    gemm-cold) measure gemm-cold --tp 1 --l2 cold "${gemm[@]}" ;;
    ring) if [[ $gpus -gt 1 ]]; then measure "x$gpus-ring" --tp "$gpus" "${ring[@]}"; else measure ring --tp 2 "${ring[@]}"; fi ;;
    crowd) measure crowd --tp 4,8 --ranks-per-gpu 8 --shape 4096,8192,4096,2048 ;;
    *)
        echo "bench: '$name' is none of gemm, gemm-cold, ring, crowd" >&2
        exit 2
        ;;
    esac
done
