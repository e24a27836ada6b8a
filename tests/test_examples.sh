#!/usr/bin/env bash
# examples/: they build against an installed tree, as their own comments say, and run to the end. The GPU is
# tests/shim_hostgpu.c, the CUDA runtime tests/shim_cudart.c, PyTorch tests/standin/torch.py; kernels are compiled by NVRTC.
# tests/gpu/test_examples.sh runs the same on GPUs.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"
stage=$TMP/stage
there=$stage/usr
export PKG_CONFIG_PATH=$there/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$stage LD_LIBRARY_PATH=$there/lib
export GRS_CACHE_DIR=$TMP/cache GRS_LIBCUDA=$BUILD/tests/shim/libhostgpu.so
unset GRS_CONFIG GRS_ARCH GRS_CACHE_RO_DIRS GRS_LOG GRS_LIBRARY HOSTGPU_FAULT HOSTGPU_DEVICES HOSTGPU_LOG
toolkit=${CUDA_HOME:-/usr/local/cuda}

builds() { # NAME INCLUDE-FOLDER, as in the example's first comment
    # shellcheck disable=SC2046 # flags are words
    gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$2" "examples/$1.c" -o "$TMP/$1" $(pkg-config --cflags --libs grs) \
        "$BUILD/tests/shim/libcudart.so"
}
is_short() { [[ $(wc -l <examples/one_process.c) -le 80 ]] || { wc -l examples/one_process.c; return 1; }; }
with_the_toolkit() { # links against what a user links against
    # shellcheck disable=SC2046
    gcc -std=c11 -Wall -Wextra -Werror -I"$toolkit/include" "examples/$1.c" -o "$TMP/linked" $(pkg-config --cflags --libs grs) \
        -L"$toolkit/lib64" -lcudart
}
standin_is_like_the_toolkit() {
    gcc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -fsyntax-only -I. -Iinclude -I"$toolkit/include" -include cuda.h \
        -include cuda_runtime_api.h tests/shim_cudart.c
}

one_process() { # RANKS
    exits 0 "$TMP/one_process" "$1" && silent err && says out '0 of 512000 elements are wrong' && [[ $(grep -c '^rank' "$TMP/out") -eq $1 ]]
}
two_gpus() { HOSTGPU_DEVICES=2 one_process 2 && says out 'rank 1, GPU 1: 500 rows from 500'; }
# The examples look at their results.
finds_a_wrong_element() { HOSTGPU_FAULT=flip exits 1 "$TMP/one_process" 2 && says out '1 of 512000 elements are wrong'; }
tells_a_timeout() { HOSTGPU_FAULT=timeout exits 1 "$TMP/one_process" 2 && says err 'rank 0: prefetcher waited 30.0 s for a partial'; }
tells_a_mistake() { exits 1 "$TMP/one_process" 65 && says err 'grs_jit_get: tp: 65; allowed: 1 to 64'; }

graph() {
    HOSTGPU_LOG=$TMP/log exits 0 "$TMP/graph" && silent err && says out '4 replays of a graph of 3 layers: 0 elements are wrong' &&
        [[ $(grep -c '^graph$' "$TMP/log") -eq 12 && $(wc -l <"$TMP/log") -eq 12 ]]
}
graph_finds_wrong_elements() { HOSTGPU_FAULT=flip exits 1 "$TMP/graph" && says out ': 12 elements are wrong'; }

pytorch() { PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tests/standin python3 examples/pytorch.py "$@"; }
pytorch_runs() {
    exits 0 pytorch 3 33 24 16 && silent err && says out 'M 33: ranks on GPUs [0, 0, 0] keep [11, 11, 11] rows' &&
        says out 'M 1: ranks on GPUs [0, 0, 0] keep [1, 0, 0] rows'
}
pytorch_on_two() { HOSTGPU_DEVICES=2 exits 0 pytorch 2 20 24 16 && says out 'M 20: ranks on GPUs [0, 1] keep [10, 10] rows'; }
pytorch_finds_a_wrong_element() { HOSTGPU_FAULT=flip exits 1 pytorch 2 20 24 16 && silent err && says out 'relative error'; }
pytorch_raises() { exits 1 pytorch 2 20 23 16 && says err 'RuntimeError: N: 23; allowed: multiples of 8'; }

check "make install" make -s --no-print-directory BUILD="$BUILD" DESTDIR="$stage" PREFIX=/usr install
check "one_process.c has at most 80 lines" is_short
for name in one_process graph processes; do check "$name.c builds with pkg-config" builds $name tests/standin; done
if [[ -e $toolkit/include/cuda_runtime_api.h && -e $toolkit/lib64/libcudart.so ]]; then
    for name in one_process graph processes; do check "$name.c links with the CUDA runtime" with_the_toolkit $name; done
    check "the stand-in's interface is the CUDA runtime's" standin_is_like_the_toolkit
else
    skip "the examples link with the CUDA runtime" "no toolkit in $toolkit"
fi

if ! "$TMP/one_process" 1 >"$TMP/first" 2>&1 && grep -q 'NVRTC was not found' "$TMP/first"; then
    skip "the examples run" "NVRTC was not found"
    finish
fi
for ranks in 1 2 3 8; do check "one_process, $ranks ranks" one_process $ranks; done
check "one_process, two GPUs" two_gpus
check "one_process finds a wrong element" finds_a_wrong_element
check "one_process tells a timeout" tells_a_timeout
check "one_process tells a mistake" tells_a_mistake
check "graph" graph
check "graph finds wrong elements" graph_finds_wrong_elements
check "pytorch.py" pytorch_runs
check "pytorch.py, two GPUs" pytorch_on_two
check "pytorch.py finds a wrong element" pytorch_finds_a_wrong_element
check "pytorch.py raises what the library reports" pytorch_raises
finish
