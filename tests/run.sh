#!/usr/bin/env bash
# Runs test programs one after another, prints each one's result and, as the last line, the sums over all of them.
#
#   tests/run.sh [--no-skip] PROGRAM...
#
# A program prints cmocka's lines ("[       OK ] name") or those of the Test Anything Protocol ("ok 1 - name",
# "not ok 2 - name", "ok 3 - name # SKIP why"). A cmocka test says why it skips in a line "SKIP: why". A program that dies,
# or that reports no test at all, counts as one failure. --no-skip: a skipped test is a failure (for tests of hardware
# that was asked for).
set -u

no_skip=0
if [ "${1:-}" = --no-skip ]; then
    no_skip=1
    shift
fi
if [ $# -eq 0 ]; then
    echo "no tests of this kind"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi

passed=0 failed=0 skipped=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
# Messages of programs must not depend on the user's settings. A hung program is a failure, not a hung run.
export LC_ALL=C.UTF-8 BUILD="${BUILD:-build}"
limit=${TEST_LIMIT:-900}

count() { grep -cE "$1" "$output" || true; }
distinct() { grep -E "$1" "$output" | grep -vE '\] [0-9]+ test\(s\)' | sort -u | wc -l; } # the summary counts them too

for program in "$@"; do
    case $program in /*) ;; *) program=./$program ;; esac
    started=$(date +%s%N)
    timeout --kill-after=10 "$limit" "$program" >"$output" 2>&1 </dev/null
    code=$?
    millis=$((($(date +%s%N) - started) / 1000000))

    # cmocka names failed and skipped tests a second time in its summary.
    ok=$(($(count '^\[       OK \] ') + $(count '^ok [0-9]+') - $(count '^ok [0-9]+.*# SKIP')))
    skip=$(($(distinct '^\[  SKIPPED \] ') + $(count '^ok [0-9]+.*# SKIP')))
    bad=$(($(distinct '^\[  FAILED  \] ') + $(count '^not ok [0-9]+')))
    died=
    if [ "$code" -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1
        died=" (exit status $code)"
    elif [ $((ok + skip + bad)) -eq 0 ]; then
        bad=1
        died=" (reported no test)"
    fi
    if [ "$no_skip" -eq 1 ] && [ "$skip" -gt 0 ]; then
        bad=$((bad + skip)) skip=0
        died="$died (a skipped test counts as failed here)"
    fi

    verdict=ok
    [ "$bad" -gt 0 ] && verdict=FAILED
    printf '%-40s %-6s %4d passed %3d failed %3d skipped %6d.%01d s%s\n' "$(basename "$program")" "$verdict" \
        "$ok" "$bad" "$skip" $((millis / 1000)) $((millis % 1000 / 100)) "$died"
    if [ "$bad" -gt 0 ]; then
        tail -n "${TEST_LINES:-60}" "$output" | sed 's/^/    | /'
    elif [ "$skip" -gt 0 ]; then
        grep -E '^SKIP: |# SKIP' "$output" | sed -E 's/^SKIP: |^ok [0-9]+ - //' | sort | uniq -c |
            sed -E 's/^ *([0-9]+) /    skipped \1: /'
    fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
done

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
