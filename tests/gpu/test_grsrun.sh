#!/usr/bin/env bash
# What grsrun must find right on GPUs: the sweep that kernels of this kind are compared on, odd shapes, strides, guard zones,
# graphs, and repeats that agree bit for bit. Ranks share GPUs where there are fewer. Every line is one command that can be
# run by hand; its table is shown when it fails.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"
grsrun=$BUILD/grsrun

sweep=$TMP/sweep.yaml
{
    echo 'version: 1'
    echo 'shapes:'
    echo '  - {m: [256, 512, 1024, 2048, 4096, 8192], n: 4096, k: 2048, tp: [1, 2, 3, 4, 8]}'
} >"$sweep"
odd=$TMP/odd.yaml
{
    cat "$sweep"
    for nk in 'n: 8, k: 8' 'n: 136, k: 72' 'n: 4104, k: 2056'; do
        echo "  - {m: [1, 7, 255, 257, 1023, 1025, 4095], $nk, tp: [1, 2, 3, 5, 8]}"
    done
} >"$odd"
# Many kernels at a time; grsrun by itself compiles one after another.
check "the kernels compile" "$BUILD/grsgen" --config "$odd"

verifies() { "$grsrun" --backend gpu --verify "$@"; }
for tp in 1 2 3 4 8; do
    check "N 4096 K 2048, M 256 to 8192, tp $tp, 20 repeats" verifies --config "$sweep" --tp $tp --repeat 20
done
check "1023,136,72 tp 8" verifies --shape 1023,136,72 --tp 8 --guard
check "5,520,136 tp 8: ranks without rows" verifies --shape 5,520,136 --tp 8 --guard
check "129,4104,2056 tp 3" verifies --shape 129,4104,2056 --tp 3 --guard
for tp in 1 2 3 5 8; do
    check "odd M, N 8 K 8, tp $tp" verifies --shape 1,7,255,257,1023,1025,4095,8,8 --tp $tp --guard
    check "odd M, N 136 K 72, tp $tp" verifies --shape 1,7,255,257,1023,1025,4095,136,72 --tp $tp --guard --seed 2
    check "odd M, N 4104 K 2056, tp $tp" verifies --shape 1,7,255,257,1023,1025,4095,4104,2056 --tp $tp --seed 3
done
check "strides larger than rows, bases aligned to 16 bytes only" \
    verifies --shape 100,257,1032,264 --tp 1,2,4 --lda +8 --ldb +24 --ldd +40 --guard
check "launches by a captured graph" verifies --shape 300,2000,1024,512 --tp 1,2,4 --graph --repeat 10
check "few SMs" verifies --shape 1000,1024,512 --tp 2 --sms 8
check "shapes alternating on one communicator" \
    verifies --shape 64,1500,512,256 --shape 700,1032,136 --shape 3,24,1024 --tp 2 --rounds 20 --repeat 3
check "--bench checks what it times" "$grsrun" --bench --shape 1024,4096,2048 --tp 1,2 --iters 5
check "right under the link model too" verifies --shape 1000,4096,2048 --tp 1,2,4 --pace 372

# A link of a twentieth of the rate is the longer half: nobody is faster than it. And roles wait no longer than they are there.
paced() {
    "$grsrun" --bench --waits --shape 2048,4096,2048 --tp 2 --ranks-per-gpu 2 --pace 40 --iters 5 --json >"$TMP/paced" && python3 - "$TMP/paced" <<'PY'
import json, sys
row = json.load(open(sys.argv[1]))["rows"][0]
link_us = 2048 / 2 * 4096 * 2 / row["pace_gbps"] * 1e-3
assert abs(row["pace_gbps"] - 20) < 0.1 and 0.98 * link_us < row["ours_us"] < 1.5 * link_us, (row["ours_us"], link_us)
roles = row["waits"]["roles"]
assert set(roles) == {"loader", "prefetcher", "storer", "sender", "math"}, roles
for name, waits in roles.items():
    assert 0.5 < waits["run"] <= 1 and all(0 < share <= 1.01 for share in waits.values()), (name, waits)
assert roles["sender"]["link"] > 0.5, roles["sender"]
PY
}
# Compiles two dozen kernels where the cache has them not. Every D must be the same.
ablates() {
    "$grsrun" --ablate --shape 1024,4096,2048 --tp 2 --iters 3 --json >"$TMP/ablation" && python3 - "$TMP/ablation" <<'PY'
import json, sys
rows = [row for row in json.load(open(sys.argv[1]))["rows"] if not row["baseline"]]
assert len(rows) == 12 and all(row["bitwise_equal"] and row["us"] > 0 and not row["refused"] for row in rows), rows
for row in rows:
    for name, waits in row["waits"]["roles"].items():
        assert 0 < waits["run"] <= 1 and all(share <= 1.01 for share in waits.values()), (row["variant"], name, waits)
PY
}
check "a paced link is the limit, and what roles wait for adds up" paced
check "every policy on one tile makes the same D" ablates
finish
