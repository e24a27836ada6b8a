#!/usr/bin/env bash
# Odd shapes: every M, N and K of the lists below with every other and 1 to 8 ranks, sharing GPUs where there are fewer; exact
# and random operands; rows as short as they are, and strides larger than rows; D is NULL on ranks that keep no row; guard zones
# around A, B, D and everything the runtime allocates. Then the same M's under the policies that the planner does not choose.
# Every line is one command that can be run by hand; its table is shown when it fails.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"
rows='1, 7, 255, 257, 1023, 1025, 4095'

{
    echo 'version: 1'
    echo 'shapes:'
    for n in 8 136 4104; do
        for k in 8 72 2056; do
            echo "  - {m: [$rows], n: $n, k: $k, tp: [1, 2, 3, 4, 5, 6, 7, 8]}"
        done
    done
} >"$TMP/all.yaml"

# verifies ROWS ARGUMENTS...: so many lines of the table, all of them right.
verifies() {
    local wanted=$1 code
    shift
    "$BUILD/grsrun" --backend gpu --verify --guard "$@" >"$TMP/table"
    code=$?
    cat "$TMP/table"
    [[ $code -eq 0 && $(grep -c ' ok$' "$TMP/table") -eq $wanted ]]
}

check "the kernels compile" "$BUILD/grsgen" --config "$TMP/all.yaml"
for tp in 1 2 3 4 5 6 7 8; do
    check "tp $tp: 7 M's x 3 N's x 3 K's, exact and random" verifies 126 --config "$TMP/all.yaml" --tp $tp --repeat 1
    check "tp $tp: the same, strides larger than rows, two launches" \
        verifies 126 --config "$TMP/all.yaml" --tp $tp --lda +8 --ldb +24 --ldd +40 --seed 2
done

policies=()
policy() { # NAME LINES...
    local file=$TMP/policy${#policies[@]}.yaml
    policies+=("$1")
    shift
    {
        echo 'version: 1'
        printf '%s\n' "$@"
        echo 'shapes:'
        echo "  - {m: [$rows], n: 136, k: 72, tp: [2, 3, 8]}"
        echo "  - {m: [$rows], n: 4104, k: 72, tp: [2, 3, 8]}"
    } >"$file"
}
policy "the ring in shared memory, a wait after every tile" \
    'ring: {place: shared, depth: 2}' 'drain: {policy: per_tile}'
policy "the ring in shared memory, a warp a stage" 'ring: {place: shared, depth: 2}' 'drain: {policy: lane_per_stage}'
policy "the ring in shared memory, five stages with a warp each" \
    'ring: {place: shared, depth: 5}' 'drain: {policy: lane_per_stage}'
policy "an outbox, a warp a chunk" 'drain: {policy: lane_per_stage}'
policy "the ring in shared memory, clusters, segments in turn" \
    'tile: {cluster: 2, n: 64}' 'ring: {place: shared, depth: 2}' 'order: segment'
# What the GPU's arch alone has.
if "$BUILD/grsgen" doctor | grep -q 'kernels for sm_10'; then
    lower=
    policy "pairs" 'tile: {cta_group: 2}'
    policy "pairs, one accumulator, the ring in shared memory" \
        'tile: {cta_group: 2, n: 128}' 'stages: {accum: 1}' 'ring: {place: shared, depth: 2}'
else
    lower=', m: 64'
    policy "ping-pong" 'tile: {schedule: pingpong}'
    policy "ping-pong in clusters" 'tile: {schedule: pingpong, cluster: 2}'
    policy "ping-pong, tiles that end inside a panel" 'tile: {schedule: pingpong, n: 168}'
fi
policy "clusters, one outbox tile, a lag of one wave" \
    "tile: {cluster: 2$lower}" 'ring: {place: global, depth: 1}' 'order: {interleave: 1}'
policy "a bit for three tiles" 'signal: {granularity: {group: 3}}'
policy "a bit for a segment" 'signal: {granularity: segment}'

prepare_policies() {
    local i code=0
    for i in "${!policies[@]}"; do
        "$BUILD/grsgen" --config "$TMP/policy$i.yaml" >"$TMP/compiled$i" 2>&1 &
    done
    for i in $(jobs -p); do
        wait "$i" || code=1
    done
    cat "$TMP"/compiled*
    return $code
}
check "the policies' kernels compile" prepare_policies
for i in "${!policies[@]}"; do
    check "${policies[$i]}: 7 M's, tp 2, 3 and 8" verifies 84 --config "$TMP/policy$i.yaml"
done
finish
