#!/usr/bin/env bash
# compute-sanitizer's four tools over every policy with 1, 2 and 3 ranks in one grid, and over launches that are left
# half-way (test_policies): not one report, but for those pairs of accesses that suppress_racecheck.txt lists with a
# reason. Before that, that each tool finds a mistake that is planted for it (planted.cu). docs/sanitizer.md tells more.
#
# SANITIZER: the program, instead of the newest in PATH, toolkits and Python packages; SANITIZER_LIMIT: seconds that each run
# may take; SANITIZER_LOGS: a folder for what the tools say.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"
logs=${SANITIZER_LOGS:-$TMP/logs}
policies=$BUILD/tests/gpu/test_policies
export GRS_DEADLINE=${GRS_DEADLINE:-120} GRS_LINE_INFO=1
mkdir -p "$logs"

version() { "$1" --version 2>/dev/null | grep -oE '20[0-9]{2}\.[0-9]+(\.[0-9]+)*' | head -n 1; }
candidates() {
    [[ -z ${SANITIZER:-} ]] || { echo "$SANITIZER" && return; }
    command -v compute-sanitizer
    printf '%s\n' /usr/local/cuda*/bin/compute-sanitizer /opt/nvidia/*/compute-sanitizer
    python3 -c 'import glob, site, sys
for path in [*sys.path, site.getusersitepackages()]:
    print(*glob.glob(path + "/nvidia/*/compute-sanitizer/compute-sanitizer"), sep="\n")'
}
newest() {
    local path found
    candidates | while read -r path; do
        if [[ -x $path && ! -d $path ]] && found=$(version "$path") && [[ -n $found ]]; then echo "$found $path"; fi
    done | sort -V | tail -n 1
}
read -r found sanitizer < <(newest)
if [[ -z ${sanitizer:-} ]]; then
    skip "compute-sanitizer" "it is not installed: tools/install_deps.sh gpu (SANITIZER names one)"
    finish
fi
echo "# $sanitizer, $found"

# The number of processors bounds how many run at a time.
in_background() {
    while [[ $(jobs -rp | wc -l) -ge $(nproc) ]]; do wait -n; done
    "$@" &
}
# under TOOL NAME PROGRAM...: its output in NAME.log and its exit code, 9 where something was reported, in NAME.code.
# Barriers are counted from above, since they lie in memory that is not declared.
under() {
    local tool=$1 log=$logs/$2 options=()
    shift 2
    case $tool in
    memcheck) options=(--leak-check full --padding 4096) ;;
    racecheck | synccheck) options=(--num-cuda-barriers 64) ;;
    esac
    options+=(--error-exitcode 9 --print-limit 100000 --launch-timeout 120)
    timeout "${SANITIZER_LIMIT:-600}" "$sanitizer" --tool "$tool" "${options[@]}" "$@" >"$log.log" 2>&1
    echo $? >"$log.code"
}
# A part of test_policies with a cache of its own, in which no two kernels have the same name.
part_alone() { GRS_CACHE_DIR=$TMP/cache/$1 timeout 300 "$policies" "$1" >"$logs/alone-$1.log" 2>&1; }
part_under_racecheck() { GRS_CACHE_DIR=$TMP/cache/$1 under racecheck "racecheck-$1" "$policies" "$1"; }

code() { cat "$logs/$1.code"; }
said() { grep -qE "$2" "$logs/$1.log"; }
finds() { # KERNEL TEXT: the planted mistake, and nothing else is wrong with the run
    tail -n 40 "$logs/$1.log"
    [[ $(code "$1") -ne 0 ]] && said "$1" "$2"
}
complete() { # NAME: the program ran to its end under the tool, and the tool has seen all
    said "$1" '^1\.\.[1-9]' && ! said "$1" 'Internal Sanitizer Error|Detected overflow|Errors might go undetected|^not ok'
}
clean() {
    grep -vE '^ok [0-9]+' "$logs/$1.log" | head -n 100
    [[ $(code "$1") -eq 0 ]] && said "$1" 'ERROR SUMMARY: 0 errors'
}
clean_policies() { clean "$1" && complete "$1"; }
passed_alone() {
    local part
    for part in "${parts[@]}"; do
        if ! complete "alone-$part"; then cat "$logs/alone-$part.log" && return 1; fi
    done
}
# right_but_reported KERNEL: adds it to `shown`, where this tool reports it; its run is otherwise fine.
right_but_reported() {
    cat "$logs/$1.log"
    if [[ $(code "$1") -ne 0 ]]; then
        [[ $(code "$1") -eq 9 ]] && said "$1" 'Race reported' && said "$1" 'SUMMARY: 1 hazard displayed' && shown+=("$1")
    fi
}
explain_part() {
    python3 tests/gpu/races.py "$logs/racecheck-$1.log" "$TMP/cache/$1" "${shown[@]}" >"$logs/races-$1.log" 2>&1
    echo $? >"$logs/races-$1.code"
}
nothing_but_the_list() {
    local part bad=0
    for part in "${raced[@]}"; do in_background explain_part "$part"; done
    wait
    for part in "${raced[@]}"; do
        if ! complete "racecheck-$part" || [[ $(code "racecheck-$part") != [09] ]]; then
            grep -vE '^==' "$logs/racecheck-$part.log" | tail -n 20
            bad=1
        fi
        if [[ $(code "races-$part") -ne 0 ]]; then echo "part $part:" && cat "$logs/races-$part.log" && bad=1; fi
    done
    return "$bad"
}

# Without a tool first: that compiles the kernels, which then come from the caches.
mapfile -t parts < <(seq 0 $(($("$policies" parts) - 1)))
for part in "${parts[@]}"; do in_background part_alone "$part"; done
wait
check "without a tool" passed_alone

caches=$(printf "$TMP/cache/%s:" "${parts[@]}")
for tool in memcheck synccheck initcheck; do
    GRS_CACHE_DIR=$TMP/cache/all GRS_CACHE_RO_DIRS=${caches%:} in_background under $tool $tool-policies "$policies"
done
raced=() # docs/sanitizer.md: what is reported there is understood in part only, so it is neither listed nor passed
for part in "${parts[@]}"; do
    if grep -q 'the first tile in halves' "$logs/alone-$part.log"; then
        echo "# racecheck leaves out part $part: tiles of two warpgroups in a ring (docs/sanitizer.md)"
    else
        raced+=("$part")
    fi
done
for part in "${raced[@]}"; do in_background part_under_racecheck "$part"; done
for tool in memcheck racecheck synccheck initcheck; do
    in_background under $tool $tool "$BUILD/tests/gpu/planted" $tool
done
for kernel in racecheck_word racecheck_copy racecheck_flag initcheck_copy; do
    in_background under "${kernel%_*}" $kernel "$BUILD/tests/gpu/planted" $kernel
done
wait

check "memcheck finds a write behind an allocation" finds memcheck 'Invalid __global__ write'
check "racecheck finds a race between warps" finds racecheck 'Race reported'
check "synccheck finds a barrier that nobody waited for" finds synccheck 'Barrier error detected'
check "initcheck finds a read of what nobody wrote" finds initcheck 'Uninitialized __global__ memory read'
for tool in memcheck synccheck; do
    check "$tool: every policy, 1 to 3 ranks in one grid, and launches that are left: clean" clean_policies $tool-policies
done
if [[ $(printf '%s\n' 2025.4 "$found" | sort -V | head -n 1) = 2025.4 ]]; then
    check "initcheck knows what the copy engine writes" clean initcheck_copy
    check "initcheck: every policy: clean" clean_policies initcheck-policies
else
    skip "initcheck: every policy" "it knows the copy engine from 2025.4 on, and this is $found: tools/install_deps.sh gpu"
fi
shown=()
for kernel in racecheck_word racecheck_copy racecheck_flag; do
    check "racecheck: $kernel, which is right, is clean or reported" right_but_reported $kernel
done
if python3 tests/gpu/races.py --find >"$TMP/nvdisasm" 2>&1; then
    check "racecheck: every policy: what suppress_racecheck.txt lists, and nothing else" nothing_but_the_list
    awk '/, [0-9]+ times$/ { sub(",", ""); times[$1] += $2 }
         END { for (name in times) print "# " name ": " times[name] " times" }' "$logs"/races-*.log
else
    skip "racecheck: every policy" "$(cat "$TMP/nvdisasm"), or tools/install_deps.sh gpu"
fi
finish
