#!/usr/bin/env bash
# The README's first command, without its build: from a config to a verified result on ranks, with what cannot be done said.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"
export GRS_CACHE_DIR=$TMP/cache

demo() {
    exits 0 tools/demo.sh && says out "examples/demo.yaml: ok: 1 shape, 1 kernel for sm_90a" && says out "struct Config {" &&
        [[ $(grep -cE '^ +97 +136 +72 +3 .*  ok$' "$TMP/out") -eq 2 ]] && [[ $(tail -n 1 "$TMP/out") == Next:* ]]
}
without_compiler() {
    GRS_NVRTC=$TMP/nothing GRS_LIBCUDA=$TMP/nothing GRS_CACHE_DIR=$TMP/empty exits 0 tools/demo.sh && says out "NVRTC was not found, so nothing was compiled" &&
        says out "What could not be done here: compile for a GPU" && says out "rank 2: received"
}
check "the demo ends with verified ranks" demo
check "the demo without NVRTC and without a GPU" without_compiler
finish
