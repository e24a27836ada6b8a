#!/usr/bin/env bash
# grsgen from the outside: what it prints, where, and its exit codes.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"
grsgen=$BUILD/grsgen
export GRS_CACHE_DIR=$TMP/cache
unset GRS_CONFIG GRS_ARCH GRS_CACHE_RO_DIRS GRS_LOG
printf 'version: 1\nshapes:\n  - {m: [64, 4096], n: 512, k: 256, tp: [2, 4], name: small}\n  - {m: 5, n: 520, k: 136, tp: 8, name: odd}\n' \
    >"$TMP/good.yaml"
printf 'version: 1\ntile: {mm: 1}\n' >"$TMP/bad.yaml"

usage() { # ARGUMENTS... — the last is what must be said
    local text=${*: -1}
    exits 2 "$grsgen" "${@:1:$#-1}" && silent out && says err "$text"
}

help() { exits 0 "$grsgen" --help && silent err && says out "usage: grsgen" && says out "--explain"; }
no_arguments() { exits 2 "$grsgen" && says out "usage: grsgen"; }
version() { exits 0 "$grsgen" --version && grep -qE '^grsgen 0\.1\.0 \(commit [0-9a-z]+(, dirty)?\)$' "$TMP/out"; }

check_good() { exits 0 "$grsgen" --config "$TMP/good.yaml" --check && silent err && says out "good.yaml: ok: 5 shapes, "; }
check_bad() {
    exits 2 "$grsgen" --config "$TMP/bad.yaml" --check && silent out &&
        says err "$TMP/bad.yaml:2:8: tile.mm: unknown key, allowed here: m, n, k"
}
check_standard_input() {
    exits 0 bash -c "$grsgen --config - --check <$TMP/good.yaml" && says out "(standard input): ok" || return 1
    exits 2 bash -c "$grsgen --config - --check <$TMP/bad.yaml" && says err "(standard input):2:8: "
}
check_json() {
    exits 0 "$grsgen" --config "$TMP/good.yaml" --check --json && silent err && says out '"kind": "check"' &&
        says out '"shapes": 5,' && says out '"rank_memory_bytes": '
}
check_unsolvable() { # 12 stages of 48 KiB
    printf 'version: 1\ntile: {m: 128, n: 256}\nstages: {load: 12}\nshapes: [{m: 1, n: 8, k: 8, tp: 1}, {m: 9, n: 8, k: 8, tp: 1}]\n' \
        >"$TMP/large.yaml"
    exits 2 "$grsgen" --config "$TMP/large.yaml" --check && silent out && says err "$TMP/large.yaml:3:16: stages.load: " &&
        says err "at most 3 stages" && [[ $(wc -l <"$TMP/err") -eq 1 ]]
}
check_not_built() {
    printf 'version: 1\ntile: {k: 32}\nshapes: [{m: 1, n: 8, k: 8, tp: 1}]\n' >"$TMP/unbuilt.yaml"
    exits 2 "$grsgen" --config "$TMP/unbuilt.yaml" --check && says err "not built yet"
}
every_config() {
    local file
    for file in configs/*.yaml; do exits 0 "$grsgen" --config "$file" --check && says out "$file: ok" || return 1; done
}

# "k: 3696, … # 29568 / 8": K per rank is the layer's depth over the ranks.
depth_is_divided() {
    awk '/^  - .* # [0-9]+ \/ [0-9]+$/ {
        match($0, /k: [0-9]+/); k = substr($0, RSTART + 3, RLENGTH - 3)
        match($0, /tp: [0-9]+/); tp = substr($0, RSTART + 4, RLENGTH - 4)
        if ($(NF - 2) / $NF != k || $NF != tp) { print FILENAME ": " $0; bad = 1 }
        seen++
    } END { if (seen < 24) { print seen " such lines"; bad = 1 }; exit bad }' configs/*.yaml
}

explain() {
    exits 0 "$grsgen" --config "$TMP/good.yaml" --explain && silent err && says out "# small" && says out "# odd" || return 1
    exits 0 "$grsgen" --shape 8192,4096,2048,4 --explain && says out "8192" && says out "shared memory"
}
explain_json() {
    exits 0 "$grsgen" --shape 8192,4096,2048,4 --explain --json && says out '"tile.m": {' && says out '"from": "planner"' &&
        says out '"limit_us": '
}
only() {
    exits 0 "$grsgen" --config "$TMP/good.yaml" --check --only odd && says out "1 shape, 1 kernel for" || return 1
    usage --config "$TMP/good.yaml" --check --only nobody "no shape of $TMP/good.yaml is called 'nobody'"
}

emit_cuda() {
    exits 0 "$grsgen" --shape 97,136,72,3 --emit cuda && silent err && says out "struct Config {" &&
        ! grep -q '^#include "' "$TMP/out" || return 1
    cp "$TMP/out" "$TMP/first"
    LC_ALL=de_DE.UTF-8 exits 0 "$grsgen" --shape 97,136,72,3 --emit cuda && cmp "$TMP/first" "$TMP/out"
}
emit_to_directory() {
    exits 0 "$grsgen" --config "$TMP/good.yaml" --emit cuda -o "$TMP/made" && silent err || return 1
    local files
    files=$(find "$TMP/made" -name '*.sm_90a.cu' | wc -l)
    [[ $files -ge 3 && $files -eq $(wc -l <"$TMP/out") ]]
}
emit_to_nowhere() {
    touch "$TMP/file"
    exits 1 "$grsgen" --shape 97,136,72,3 --emit cuda -o "$TMP/file/sub" && says err "$TMP/file/sub: cannot be made"
}
full_disk() { exits 1 bash -c "$grsgen --shape 97,136,72,3 --emit cuda >/dev/full" && says err "standard output: No space left"; }

schema() { exits 0 "$grsgen" --schema && says out 'json-schema.org/draft-07' && exits 0 "$grsgen" --schema=markdown && says out "# Config reference"; }
init() {
    exits 0 "$grsgen" --init && cp "$TMP/out" "$TMP/init.yaml" && exits 0 "$grsgen" --config "$TMP/init.yaml" --check || return 1
    # With every comment sign before a key taken away it is a config too, and asks for what the planner chose anyway.
    sed -E 's/^# ( *[a-z_]+:.*)$/\1/' "$TMP/init.yaml" >"$TMP/full.yaml"
    grep -q '^  m: ' "$TMP/full.yaml" && exits 0 "$grsgen" --config "$TMP/full.yaml" --check
}

diff_same() { exits 0 "$grsgen" --diff "$TMP/good.yaml" "$TMP/good.yaml" && says out ": the same" && ! grep -q '^  [-+]' "$TMP/out"; }
diff_different() {
    printf 'version: 1\norder: segment\nshapes: [{m: 4096, n: 512, k: 256, tp: 2}]\n' >"$TMP/other.yaml"
    exits 0 "$grsgen" --diff "$TMP/good.yaml" "$TMP/other.yaml" && says out "order " && says out "B: segment (config)" &&
        says out "only in A" && says out "tp 2: 1 difference of the plans" && grep -qE '^  - .*interleave = true' "$TMP/out" && grep -qE '^  \+ .*interleave = false' "$TMP/out"
}

diff_two() {
    printf 'version: 1\nring: {depth: 2}\norder: {interleave: 2}\nshapes: [{m: 4096, n: 512, k: 256, tp: 2}]\n' >"$TMP/two.yaml"
    printf 'version: 1\nring: {depth: 3}\norder: {interleave: 3}\nshapes: [{m: 4096, n: 512, k: 256, tp: 2}]\n' >"$TMP/three.yaml"
    exits 0 "$grsgen" --diff "$TMP/two.yaml" "$TMP/three.yaml" && says out "tp 2: 2 differences of the plans" &&
        grep -qE '^  ring.depth +A: 2 \(config\)$' "$TMP/out"
}
explain_waves() {
    exits 0 "$grsgen" --shape 8192,4096,2048,4 --explain && says out "one after the other: at this M none has more than the 2 waves of the lag" &&
        exits 0 "$grsgen" --shape 16384,4096,2048,4 --explain && says out "each starts 2 waves after the one before"
}

# The rest needs NVRTC.
precompile() {
    exits 0 "$grsgen" --config "$TMP/good.yaml" --only odd -j 2 && says err "[1/1] compiled sm_90a grs_gemm_rs_n520_k136_tp8" &&
        says out "1 kernel: 1 compiled, 0 cached, 0 failed" && says out "cache: $TMP/cache" || return 1
    exits 0 "$grsgen" --config "$TMP/good.yaml" --only odd --json && silent err && says out '"outcome": "cached"' &&
        says out '"spill_bytes": 0'
}
# On a terminal one line is drawn over; `script` gives the command one.
progress_bar() {
    script -qec "$grsgen --config $TMP/good.yaml --only odd" /dev/null </dev/null >"$TMP/out" 2>&1 || return 1
    says out "[########################] 1/1  1 cached" && grep -q $'\r\033\\[K' "$TMP/out" && says out "1 kernel: 0 compiled, 1 cached"
}
dry_run() {
    exits 0 "$grsgen" --config "$TMP/good.yaml" --dry-run && silent err && says out " missing" && says out "1 cached"
}
doctor() {
    # No driver, no NVRTC, no cache: each is named with what to do about it.
    GRS_LIBCUDA=$TMP/none GRS_NVRTC=$TMP/none exits 1 "$grsgen" doctor && silent err && says out "missing  driver" &&
        says out "missing  NVRTC" && says out "-> " || return 1
    GRS_LIBCUDA=$TMP/none exits 1 "$grsgen" doctor --json && says out '"kind": "doctor"' && says out '"passes": false' || return 1
    exits 1 "$grsgen" doctor --config "$TMP/bad.yaml" && says out "tile.mm: unknown key" || return 1
    GRS_LIBCUDA=$TMP/none exits 1 "$grsgen" doctor --arch sm_103a && says out "kernels for sm_103a" || return 1
    exits 2 "$grsgen" doctor --arch sm_104a && says err "allowed: sm_90a, sm_100a, sm_100f, sm_103a" || return 1
    exits 2 "$grsgen" doctor --frob && says err "doctor: '--frob' is wrong" && exits 0 "$grsgen" doctor --help
}
# An NVRTC that is older than an arch is refused by both versions, whoever asks; the archs that it knows it serves.
older_than_an_arch() (
    export GRS_NVRTC=$BUILD/tests/shim/libnvrtc.so SHIM_NVRTC_VERSION=12080 GRS_CACHE_DIR=$TMP/older GRS_LIBCUDA=$TMP/none
    local arch
    for arch in sm_100f sm_103a; do
        exits 1 "$grsgen" --shape 5,520,136,8 --arch "$arch" --emit ptx && silent out &&
            says err "$arch needs NVRTC 12.9 or newer; " && says err "libnvrtc.so is 12.8" || return 1
        exits 1 "$grsgen" doctor --arch "$arch" && says out "$arch needs NVRTC 12.9 or newer; " && says out "is 12.8" || return 1
    done
    printf 'version: 1\narch: [sm_90a, sm_100a, sm_103a]\nshapes: [{m: 64, n: 520, k: 136, tp: 8}]\n' >"$TMP/family.yaml"
    exits 1 "$grsgen" --config "$TMP/family.yaml" && says err "sm_103a needs NVRTC 12.9 or newer" &&
        says out "3 kernels: 2 compiled, 0 cached, 1 failed" || return 1
    SHIM_NVRTC_VERSION=12090 exits 0 "$grsgen" --config "$TMP/family.yaml" && says out "3 kernels: 1 compiled, 2 cached" || return 1
    exits 0 "$grsgen" cache list --arch sm_103a && says out sm_103a && ! grep -q sm_100a "$TMP/out" || return 1
    exits 2 "$grsgen" cache list --arch sm_104a && says err "--arch: 'sm_104a' is not possible, allowed: sm_90a, sm_100a, sm_100f, sm_103a"
)
emit_ptx() {
    exits 0 "$grsgen" --shape 5,520,136,8 --emit ptx && says out "// grs_gemm_rs_n520_k136_tp8_" && says out "// compiled by NVRTC " &&
        grep -qE '^// key [0-9a-f]{64}$' "$TMP/out" && says out "//   tile.m: 64" && says out "// grs: signal tile" || return 1
    sed -i 's,//.*,,' "$TMP/out" # comments are no instructions
    says out ".target sm_90a" && says out "wgmma.mma_async" && says out "red.release.sys.global.or.b64"
}
emit_cubin() { exits 0 "$grsgen" --shape 5,520,136,8 --emit cubin && [[ $(head -c 4 "$TMP/out" | tr -d '\177') == ELF ]]; }
emit_log() { exits 0 "$grsgen" --shape 5,520,136,8 --emit log && says out "registers"; }
# Stands in for NVIDIA's: what counts here is how it is found and called.
fake_disassembler() {
    mkdir -p "$TMP/bin"
    # shellcheck disable=SC2016 # for the other shell
    printf '#!/bin/sh\nhead -c 4 "$2" | grep -q ELF && echo "disassembled by $(basename "$0") $1"\n' >"$TMP/bin/nvdisasm"
    chmod +x "$TMP/bin/nvdisasm"
}
emit_sass() {
    PATH=$TMP/bin:$PATH exits 0 "$grsgen" --shape 5,520,136,8 --emit sass && says out "disassembled by nvdisasm -c" || return 1
    printf '#!/bin/sh\necho broken >&2\nexit 3\n' >"$TMP/bin/nvdisasm"
    PATH=$TMP/bin:$PATH exits 1 "$grsgen" --shape 5,520,136,8 --emit sass && says err "nvdisasm failed (status 3)" || return 1
    PATH=$TMP/bin:$PATH exits 1 "$grsgen" --shape 5,520,136,8 --shape 5,528,136,8 --emit all -o "$TMP/nosass" &&
        says err "nvdisasm failed (status 3)" && ! ls "$TMP"/nosass/*.sass || return 1
    local n kind # what can be made is made, of every kernel
    for n in 520 528; do
        for kind in cu ptx cubin log; do
            [[ -s $(echo "$TMP"/nosass/*_n${n}_*."$kind") ]] || { echo "no $kind of N $n"; return 1; }
        done
    done
}
no_disassembler() {
    PATH=/nonexistent CUDA_HOME=/nonexistent exits 1 "$grsgen" --shape 5,520,136,8 --emit sass && silent out &&
        says err "pip install nvidia-cuda-nvdisasm"
}
emit_all() {
    fake_disassembler
    PATH=$TMP/bin:$PATH exits 0 "$grsgen" --shape 5,520,136,8 --emit all -o "$TMP/all" || return 1
    local kind
    for kind in cu ptx cubin log sass; do
        [[ -s $(echo "$TMP"/all/*.sm_90a."$kind") ]] || { echo "no $kind"; return 1; }
    done
}
no_cache_to_fill() {
    touch "$TMP/no-directory"
    GRS_CACHE_DIR=$TMP/no-directory exits 1 "$grsgen" --config "$TMP/good.yaml" && says err "$TMP/no-directory"
}

check "help goes to standard output" help
check "no arguments: help, exit 2" no_arguments
check "version with commit" version
check "unknown option" usage --frobnicate "unknown or ambiguous option '--frobnicate'"
check "missing argument" usage --config "--config needs an argument"
check "stray argument" usage --config "$TMP/good.yaml" stray "unexpected argument 'stray'"
check "two commands exclude each other" usage --config "$TMP/good.yaml" --check --explain "--check and --explain exclude each other"
check "bad --emit" usage --shape 8,8,8,1 --emit elf "--emit: 'elf' is not possible, allowed: cuda, ptx, cubin, sass, log, all"
check "bad --arch" usage --shape 8,8,8,1 --emit cuda --arch sm_90 "--arch: 'sm_90' is not possible, allowed: sm_90a, sm_100a, sm_100f, sm_103a"
check "bad --shape" usage --shape 8,8,8 --explain "--shape: '8,8,8' is not possible, allowed: M,N,K,tp"
check "N of --shape no multiple of 8" usage --shape 8,100,8,1 --explain "--shape: N: 100 is not a multiple of 8, allowed: 8 to 2147483640 in steps of 8; nearest: 96 or 104"
check "tp of --shape out of range" usage --shape 8,8,8,65 --explain "--shape: tp: 65 is out of range, allowed: 1 to 64"
check "M of --shape beyond what its kernel can number" usage --shape 2147483647,8,8,1 --explain "M: 2147483647 rows with N = 8 are more than positions and coordinates can number; allowed: up to 2147483390"
check "bad -j" usage --config "$TMP/good.yaml" -j 0 "--jobs: '0' is not possible"
check "-o without --emit" usage --config "$TMP/good.yaml" --check -o x "-o is for --emit"
check "--dry-run is about precompiling" usage --config "$TMP/good.yaml" --check --dry-run "--dry-run is about precompiling"
check "--emit of several kernels to standard output" usage --config "$TMP/good.yaml" --emit cuda "allowed: -o DIR"
check "--explain without shapes" usage --config configs/h200.yaml --explain "configs/h200.yaml has no shapes"
check "precompiling without shapes" usage --config configs/h200.yaml "configs/h200.yaml has no shapes"
check "a config that is not there" usage --config "$TMP/none.yaml" --check "none.yaml: cannot be opened"
check "--diff wants two configs" usage --diff "$TMP/good.yaml" "two configs are needed"
check "--check of a good config" check_good
check "--check of a bad config" check_bad
check "--check of standard input" check_standard_input
check "--check --json" check_json
check "--check refuses what does not fit, once" check_unsolvable
check "--check refuses what is not built" check_not_built
check "--check of every config in configs/" every_config
check "configs divide the depth of their layers by the ranks" depth_is_divided
check "--explain" explain
check "--explain --json" explain_json
check "--only" only
check "--emit cuda is the same under every locale" emit_cuda
check "--emit cuda -o" emit_to_directory
check "--emit -o where nothing can be made" emit_to_nowhere
check "a full disk is a failure" full_disk
check "--schema" schema
check "--init is a config" init
check "--diff of the same" diff_same
check "--diff of different configs" diff_different
check "--diff of two values" diff_two
check "--explain says where segments overlap" explain_waves
check "doctor" doctor
check "an NVRTC older than an arch" older_than_an_arch
"$grsgen" --shape 64,64,64,1 --emit ptx >"$TMP/out" 2>"$TMP/err"
if grep -q 'NVRTC was not found' "$TMP/err"; then
    for name in precompile bar dry-run ptx cubin log all; do skip "grsgen: $name" "NVRTC was not found"; done
else
    check "precompiling, then hits" precompile
    if command -v script >/dev/null; then
        check "a progress bar on a terminal" progress_bar
    else
        skip "a progress bar on a terminal" "script (bsdutils) was not found"
    fi
    check "--dry-run" dry_run
    check "--emit ptx" emit_ptx
    check "--emit cubin" emit_cubin
    check "--emit log" emit_log
    check "--emit all" emit_all
    check "--emit sass" emit_sass
    if [[ -e /usr/local/cuda/bin/nvdisasm || -e /usr/local/cuda/bin/cuobjdump ]]; then
        skip "--emit sass without a disassembler" "this machine has one"
    else
        check "--emit sass without a disassembler" no_disassembler
    fi
    check "no cache to fill is a failure" no_cache_to_fill
fi
finish
