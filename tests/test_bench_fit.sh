#!/usr/bin/env bash
# bench/fit_times: the planner's times are those that fit what was measured.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"
fit=$BUILD/bench/fit_times

numbers_of() { sed -nE 's/^ +\.([a-z_]+) = ([0-9.]+),$/\1 \2/p' "$1" | sort; }

# Each number of generator/plan_time.c is within 15 % of the one that fits best: nobody changed one, or the model, or a row, and left the rest.
numbers_are_the_fitted_ones() {
    exits 0 "$fit" && silent err && [[ $(grep -c '^| [0-9]' "$TMP/out") -ge 15 ]] || return 1
    numbers_of "$TMP/out" >"$TMP/fitted"
    numbers_of generator/plan_time.c >"$TMP/now"
    [[ $(wc -l <"$TMP/now") -eq 7 && $(wc -l <"$TMP/fitted") -eq 7 ]] || { cat "$TMP/now" "$TMP/fitted"; return 1; }
    join "$TMP/now" "$TMP/fitted" | awk '{ seen++; off = $3 / $2 - 1 }
        off > 0.15 || off < -0.15 { print $1 " is " $2 ", fitted: " $3; bad = 1 }
        END { exit bad || seen != 7 }'
}
results() {
    exits 0 "$fit" --link 372 bench/results/h200-x2-link.json && silent err && says out "root mean square of the log: " &&
        [[ $(grep -c '^| [0-9]' "$TMP/out") -ge 10 ]]
}
no_results() {
    exits 1 "$fit" "$TMP/none.json" && silent out && says err "$TMP/none.json" || return 1
    printf '{"rows": [{"m": 512, "n": 512, "k": 512, "tp": 2, "ranks_per_gpu": 1, "mode": "back_to_back", "ours_us": 30}]}' \
        >"$TMP/one.json"
    exits 1 "$fit" "$TMP/one.json" && silent out && says err "1 row is too few for 7 numbers"
}

check "the planner's numbers are the fitted ones" numbers_are_the_fitted_ones
check "rows of results" results
check "no results, or too few" no_results
finish
