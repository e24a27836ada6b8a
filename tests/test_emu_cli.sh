#!/usr/bin/env bash
# grsrun on emulated ranks, as a command: what it prints, what it refuses, and that a failure names the command that replays it.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"
export GRS_CACHE_DIR=$TMP/cache
unset GRS_EMU_TEMPLATES GRS_ARCH

emu() { "$BUILD/grsrun" --backend emu "$@"; }

ranks_report() {
    exits 0 emu --shape 97,136,72 --tp 3 && says out "emulated ranks (sm_90a), schedule random, 2 CTAs a rank, seed 1" &&
        says out "# rank 2: received" && says out "its 31 rows of D are right" && silent err
}

owner_without_rows() {
    exits 0 emu --shape 2,72,72 --tp 3 --schedule lazy --runs 2 --seed 7 && says out "it keeps no row"
}

json_is_an_object() {
    exits 0 emu --shape 40,72,72 --tp 2 --json && silent err &&
        python3 -c 'import json, sys; o = json.load(open(sys.argv[1]))
assert o["kind"] == "verify" and o["gpu"] == "emulated" and len(o["rows"]) == 2 and all(r["passed"] for r in o["rows"])' "$TMP/out"
}

strides_are_used() { exits 0 emu --shape 40,72,72 --tp 2 --lda +8 --ldb 96 --ldd +16; }

# The first arch that the config lists, since there is no GPU to ask; the environment and the option come before it.
arch_is_the_config_s() {
    printf 'version: 1\narch: [sm_100f, sm_103a]\ntile: {n: 64, cta_group: 2}\n' >"$TMP/pair.yaml"
    exits 0 emu --config "$TMP/pair.yaml" --shape 40,72,72 --tp 2 && says out "emulated ranks (sm_100f)" || return 1
    (GRS_ARCH=sm_103a exits 0 emu --config "$TMP/pair.yaml" --shape 40,72,72 --tp 2) && says out "emulated ranks (sm_103a)" &&
        (GRS_ARCH=sm_103a exits 0 emu --arch sm_100a --shape 40,72,72 --tp 2) && says out "emulated ranks (sm_100a)" &&
        (GRS_ARCH=volta exits 2 emu --shape 40,72,72 --tp 2) &&
        says err "GRS_ARCH: volta; allowed: sm_90a, sm_100a, sm_100f, sm_103a"
}

one_grid_for_all() { exits 0 emu --shape 40,72,72 --tp 3 --ranks-per-gpu 3 --ctas 3 --schedule adversarial; }

refusals() {
    exits 2 emu --shape 40,72,72 --tp 2 --lda 64 && says err "--lda: 64 is less than a row" &&
        exits 2 emu --shape 40,72,72 --tp 2 --graph && says err "graph" &&
        exits 2 emu --shape 40,70,72 --tp 2 && says err "N = 70" || return 1
    printf 'version: 1\nsms: 3\n' >"$TMP/sms.yaml"
    exits 0 emu --config "$TMP/sms.yaml" --shape 40,72,72 --tp 2 --ctas 3 &&
        exits 2 emu --config "$TMP/sms.yaml" --shape 40,72,72 --tp 2 --ctas 4 && says err "at most 3 a rank (sms); allowed: 1 to 3"
}

# A template with the proxy fence of the math warps taken out: the report, and the same report from the command it names.
failure_replays() {
    mkdir -p "$TMP/templates" && cp templates/gemm_rs_sm90.cuh "$TMP/templates" &&
        sed -i 's/ptx::fence_proxy_async_shared();//' "$TMP/templates/gemm_rs_sm90.cuh" || return 1
    export GRS_EMU_TEMPLATES=$TMP/templates
    exits 1 emu --shape 97,136,72 --tp 3 --schedule adversarial --seed 3 --runs 2 && says err "missing fence" &&
        says err "storer" && says err "tile 0 of owner" && says err "launch 0" || return 1
    local replay
    replay=$(sed -n 's/^# replay: grsrun //p' "$TMP/err")
    cp "$TMP/err" "$TMP/first"
    # shellcheck disable=SC2086 # the words of a command
    exits 1 "$BUILD/grsrun" $replay && diff "$TMP/first" "$TMP/err"
    local result=$?
    unset GRS_EMU_TEMPLATES
    return "$result"
}

no_compiler() {
    (PATH=/nowhere CXX='' GRS_CACHE_DIR=$TMP/empty exits 1 emu --shape 40,72,72 --tp 2) || return 1
    says err "set CXX"
}

check "ranks report what they received, and a verdict" ranks_report
check "an owner without rows, two seeds" owner_without_rows
check "--json is one object" json_is_an_object
check "leading dimensions" strides_are_used
check "the arch is the config's" arch_is_the_config_s
check "ranks of one grid" one_grid_for_all
check "what cannot be is refused" refusals
check "a failure names its command, which replays it" failure_replays
check "without a compiler: what is missing" no_compiler
finish
