#!/usr/bin/env bash
# examples/ on GPUs. The C programs were built with tests/shim_cudart.c, which needs the driver alone. libgrs.so, which the
# Python one loads, needs libyaml, jansson, xxhash and nettle: LD_LIBRARY_PATH where they are not installed.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"
export GRS_LIBRARY=$BUILD/libgrs.so

one_process() { exits 0 "$BUILD/examples/one_process" "$1" && silent err && says out '0 of 512000 elements are wrong'; }
graph() { exits 0 "$BUILD/examples/graph" && silent err && says out '4 replays of a graph of 3 layers: 0 elements are wrong'; }
pytorch() { exits 0 python3 examples/pytorch.py "$@"; }

for ranks in 1 2 3 4 8; do check "one_process, $ranks ranks" one_process $ranks; done
check "graph" graph
if python3 -c 'import torch' 2>/dev/null; then
    for ranks in 1 2 4; do check "pytorch.py, $ranks ranks" pytorch $ranks; done
else
    echo "# PyTorch is not installed: examples/pytorch.py was left out"
fi
finish
