#!/usr/bin/env bash
# Runs libFuzzer programs for a while each, from the inputs in tests/corpus/NAME; what they find stays in the build folder.
#
#   tests/run_fuzz.sh SECONDS PROGRAM...
set -u
seconds=$1
shift
passed=0 failed=0
for program in "$@"; do
    name=$(basename "$program")
    corpus=${BUILD:-build}/corpus/$name
    mkdir -p "$corpus"
    seeds=()
    if [[ -d tests/corpus/$name ]]; then seeds=("tests/corpus/$name"); fi
    echo "$name: $seconds s"
    if "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=0 -verbosity=0 \
        -artifact_prefix="$corpus/../$name-" "$corpus" ${seeds[@]+"${seeds[@]}"}; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed, 0 skipped"
[[ $failed -eq 0 && $passed -gt 0 ]]
