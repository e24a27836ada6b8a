#!/usr/bin/env bash
# grsrun --procs --nodes: ranks of an ncclComm_t on nodes that are pretended, with NCCL between their kernels. On 2 GPUs two nodes of
# one rank, on 4 two of two; with fewer GPUs ranks take turns, each as a host of its own for NCCL (NCCL_HOSTID): right, and slow.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"
grsrun=$BUILD/grsrun
export GRS_SETUP_DEADLINE=120
unset GRS_NODE NCCL_HOSTID RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT SLURM_PROCID OMPI_COMM_WORLD_RANK PMI_RANK
if [[ ${CUDA_VISIBLE_DEVICES:-} ]]; then
    gpus=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .)
else
    gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU')
fi
gpus=${GPUS:-$gpus}

# Starts the ranks, as grsrun does or, where they share GPUs, as a launcher would.
ranks() { # RANKS OPTIONS...; output in $TMP/table
    local tp=$1 rank code=0 pids=()
    shift
    if [[ $gpus -ge $tp ]]; then
        timeout 300 "$grsrun" --procs --tp "$tp" "$@" >"$TMP/table" 2>&1
        return
    fi
    for ((rank = 0; rank < tp; rank++)); do
        NCCL_HOSTID=rank$rank RANK=$rank WORLD_SIZE=$tp LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$tp MASTER_ADDR=127.0.0.1 \
            MASTER_PORT=$((21000 + $$ % 9000)) timeout 300 "$grsrun" --procs --tp "$tp" "$@" >"$TMP/table$rank" 2>&1 &
        pids+=($!)
    done
    for rank in "${!pids[@]}"; do wait "${pids[$rank]}" || code=1; done
    cat "$TMP"/table[0-9]* >"$TMP/table"
    rm -f "$TMP"/table[0-9]*
    return $code
}
# All ranks have taken this path, and all rows of all of them are right: exact and random for each shape.
right() { # PATH RANKS SHAPES
    [[ $(grep -c "# $1" "$TMP/table") -eq $2 ]] || { echo "not $2 ranks have: $1"; return 1; }
    [[ $(grep -c ' ok$' "$TMP/table") -eq $((2 * $2 * $3)) ]] || { echo "not $((2 * $2 * $3)) rows are right"; return 1; }
    ! grep -F FAILED "$TMP/table"
}
verifies() { # PATH RANKS SHAPES OPTIONS...
    local code
    ranks "$2" "${@:4}"
    code=$?
    cat "$TMP/table"
    [[ $code -eq 0 ]] && right "$1" "$2" "$3"
}
# What the other ranks do when one is killed: they wait in NCCL, and end with the launcher's patience.
killed() { # RANKS NODES
    "$grsrun" --procs --tp "$1" --nodes "$2" --shape 2048,4096,2048 --rounds 100000 >"$TMP/table" 2>"$TMP/said" &
    local parent=$! started=$SECONDS code pids rank
    until [[ $(grep -c 'verdict$' "$TMP/table") -eq $1 ]]; do # every rank has met the others
        if ! kill -0 $parent 2>/dev/null || [[ $((SECONDS - started)) -gt 120 ]]; then
            cat "$TMP/table" "$TMP/said"
            return 1
        fi
        sleep 0.2
    done
    sleep 3
    mapfile -t pids < <(children_of $parent)
    kill -KILL "${pids[1]}" || return 1
    started=$SECONDS
    wait $parent
    code=$?
    cat "$TMP/said"
    echo "grsrun ended with $code, $((SECONDS - started)) s after the kill"
    [[ $code -eq 1 && $((SECONDS - started)) -lt 60 ]] && grep -qF 'was ended by signal 9' "$TMP/said" || return 1
    for rank in "${pids[@]}"; do
        while runs "$rank"; do # one that was killed takes a moment to end
            [[ $((SECONDS - started)) -lt 60 ]] || { echo "process $rank is left"; return 1; }
            sleep 0.1
        done
    done
}
under_torchrun() {
    local code
    timeout 300 torchrun --no-python --nproc-per-node 2 "$grsrun" --procs --nodes 2 --shape 512,512,256 --tp 2 >"$TMP/table" 2>&1
    code=$?
    cat "$TMP/table"
    [[ $code -eq 0 ]] && right unfused 2 1
}

# shellcheck disable=SC2054 # the commas are part of the shapes
ragged=(--shape 1,7,255,1023,136,72)
check "2 ranks, 1 node: fused" verifies fused 2 4 --nodes 1 "${ragged[@]}"
check "2 nodes of 1: M 1 to 1023, N 136 K 72" verifies unfused 2 4 --nodes 2 "${ragged[@]}" --ldd +8
check "2 nodes of 1: 1023,4104,2056" verifies unfused 2 1 --nodes 2 --shape 1023,4104,2056 --seed 2
check "2 nodes of 1: 1024,4096,2048, strides" verifies unfused 2 1 --nodes 2 --shape 1024,4096,2048 --lda +8 --ldb +24 --ldd +40
check "2 nodes of 1: launches by a captured graph" verifies unfused 2 2 --nodes 2 --shape 300,1023,520,136 --ldd +8 --graph --repeat 20
check "2 nodes of 1: shapes alternating" verifies unfused 2 3 --nodes 2 --shape 64,1500,512,256 --shape 3,24,1024 --rounds 3
check "4 nodes of 1: uneven owners, and some without rows" verifies unfused 4 3 --nodes 4 --shape 2,5,1023,136,72
check "2 nodes of 2: M 1 to 1023, N 136 K 72" verifies staged 4 4 --nodes 2 "${ragged[@]}" --ldd +8
check "2 nodes of 2: 1023,4104,2056" verifies staged 4 1 --nodes 2 --shape 1023,4104,2056 --seed 2
check "2 nodes of 2: 1024,4096,2048, strides" verifies staged 4 1 --nodes 2 --shape 1024,4096,2048 --lda +8 --ldb +24 --ldd +40
check "2 nodes of 2: launches by a captured graph" verifies staged 4 2 --nodes 2 --shape 300,1023,520,136 --ldd +8 --graph --repeat 20
check "2 nodes of 2: shapes alternating" verifies staged 4 3 --nodes 2 --shape 64,1500,512,256 --shape 3,24,1024 --rounds 3
if [[ $gpus -ge 2 ]]; then
    check "a rank that is killed does not hang the other node" killed 2 2
    if command -v torchrun >/dev/null; then
        check "torchrun --no-python" under_torchrun
    else
        echo "# torchrun was not found: left out"
    fi
else
    echo "# one GPU: no rank is killed, and torchrun is left out"
fi
if [[ $gpus -ge 4 ]]; then
    check "a rank that is killed hangs neither its node nor the other" killed 4 2
fi
finish
