#!/usr/bin/env bash
# compute-sanitizer's four tools over every policy with 1, 2 and 3 ranks in one grid, and over launches that are left half-way
# (test_policies): not one report. Before that, that each tool finds a mistake that is planted for it.
#
# SANITIZER: the program, where it is neither in PATH nor in a toolkit's usual place; SANITIZER_LOGS: a folder for what the
# tools say. Reports that are the tool's own mistake would be listed in tests/gpu/suppress_TOOL.xml, each with its reason and
# what shows it; a tool without such a file is run without.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"
logs=${SANITIZER_LOGS:-$TMP}
export GRS_DEADLINE=${GRS_DEADLINE:-120}

find_sanitizer() {
    local path
    for path in "${SANITIZER:-}" "$(command -v compute-sanitizer)" /usr/local/cuda*/bin/compute-sanitizer \
        /usr/local/cuda*/compute-sanitizer/compute-sanitizer /opt/nvidia/*/compute-sanitizer; do
        [[ -x $path && ! -d $path ]] && echo "$path" && return
    done
    return 1
}
if ! sanitizer=$(find_sanitizer); then
    skip "compute-sanitizer" "it is not installed; it comes with the CUDA toolkit (SANITIZER names it)"
    finish
fi

# options TOOL: barriers are counted from above, since they lie in memory that is not declared; 9 is the exit code of a report.
options() {
    echo "--tool $1 --error-exitcode 9 --print-limit 50"
    case $1 in
        memcheck) echo "--leak-check full --padding 4096" ;;
        racecheck | synccheck) echo "--num-cuda-barriers 64" ;;
    esac
    [[ ! -f tests/gpu/suppress_$1.xml ]] || echo "--suppressions tests/gpu/suppress_$1.xml"
}

# starts TOOL PROGRAM...: under the tool, in the background; its output in TOOL-PROGRAM.log and its exit code in .code.
starts() {
    local tool=$1 log
    shift
    log=$logs/$tool-$(basename "$1")
    # shellcheck disable=SC2046 # options are words
    {
        timeout "${SANITIZER_LIMIT:-600}" "$sanitizer" $(options "$tool") "$@"
        echo $? >"$log.code"
    } >"$log.log" 2>&1 &
}
finds() { # TOOL: the planted mistake, and nothing else is wrong with the run
    local log=$logs/$1-planted
    tail -n 40 "$log.log"
    [[ $(cat "$log.code") -ne 0 ]] && grep -qE "$2" "$log.log"
}
clean() {
    local log=$logs/$1-test_policies summary='ERROR SUMMARY: 0 errors'
    [[ $1 = racecheck ]] && summary='RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)'
    grep -vE '^ok [0-9]+' "$log.log" | head -n 100
    [[ $(cat "$log.code") -eq 0 ]] && grep -qF "$summary" "$log.log" && grep -q '^1\.\.[1-9]' "$log.log" &&
        ! grep -qE 'Internal Sanitizer Error|Detected overflow|Errors might go undetected|^not ok' "$log.log"
}

# Alone first: it compiles the kernels, which then come from the cache.
export GRS_CACHE_DIR=${GRS_CACHE_DIR:-$TMP/cache}
check "without a tool" "$BUILD/tests/gpu/test_policies"
for tool in memcheck racecheck synccheck initcheck; do
    starts $tool "$BUILD/tests/gpu/planted" $tool
    starts $tool "$BUILD/tests/gpu/test_policies"
done
wait
check "memcheck finds a write behind an allocation" finds memcheck 'Invalid __global__ write'
check "racecheck finds a race between warps" finds racecheck 'Race reported'
check "synccheck finds a barrier that nobody waited for" finds synccheck 'Barrier error detected'
check "initcheck finds a read of what nobody wrote" finds initcheck 'Uninitialized __global__ memory read'
for tool in memcheck racecheck synccheck initcheck; do
    check "$tool: every policy, 1 to 3 ranks in one grid, and launches that are left: clean" clean $tool
done
finish
