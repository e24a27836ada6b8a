#!/usr/bin/env bash
# Ranks in processes of their own on GPUs; with fewer GPUs than ranks they take turns: right, and slow.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"
grsrun=$BUILD/grsrun
export GRS_SETUP_DEADLINE=120
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT SLURM_PROCID OMPI_COMM_WORLD_RANK PMI_RANK

verifies() { exits 0 timeout 300 "$grsrun" --procs "$@" && ! grep -F FAILED "$TMP/out"; }
# As a launcher would: each rank is started by itself.
by_hand() { # RANKS COMMAND...
    local ranks=$1 rank bad=0 pids=()
    shift
    for ((rank = 0; rank < ranks; rank++)); do
        RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 \
            MASTER_PORT=$((21000 + $$ % 9000)) timeout 300 "$@" >"$TMP/rank$rank" 2>&1 &
        pids+=($!)
    done
    for rank in "${!pids[@]}"; do wait "${pids[$rank]}" || { bad=1; cat "$TMP/rank$rank"; }; done
    return $bad
}
example() {
    by_hand "$1" "$BUILD/examples/processes" && [[ $(cat "$TMP"/rank* | grep -c ' 0 elements are wrong') -eq $1 ]]
    local code=$?
    rm -f "$TMP"/rank*
    return $code
}
in_a_directory() { GRS_SOCKET_DIR=$TMP/sockets verifies --shape 256,256,256 --tp 2; }
# The kernel of rank 1 stands still: both ranks tell the same record, and no process is left.
deadline() {
    GRS_STALL=1:0 GRS_DEADLINE=3 exits 1 timeout 120 "$grsrun" --procs --shape 512,512,256 --tp 2 && says err ' waited 3.'
}
dies() { # rank 1 is killed while both run
    "$grsrun" --procs --shape 4096,4096,2048 --tp 2 --rounds 1000 >"$TMP/out" 2>"$TMP/err" &
    local parent=$!
    sleep 20
    local ranks
    mapfile -t ranks < <(children_of "$parent")
    kill -KILL "${ranks[1]}" || return 1
    local started=$SECONDS
    wait "$parent"
    [[ $? -eq 1 && $((SECONDS - started)) -lt 90 ]] && says err 'was ended by signal 9'
}

check "256,256,256 tp 2" verifies --shape 256,256,256 --tp 2
check "M 1 to 1023, N 136 K 72, tp 2" verifies --shape 1,7,255,257,1023,136,72 --tp 2
check "1024,4096,2048 tp 2, strides" verifies --shape 1024,4096,2048 --tp 2 --lda +8 --ldb +24 --ldd +40
check "1023,520,136 tp 4: uneven owners" verifies --shape 1023,520,136 --tp 4
check "sockets in a directory" in_a_directory
check "started by hand, as torchrun would" by_hand 2 "$grsrun" --procs --shape 512,512,256 --tp 2
check "examples/processes, 2 ranks" example 2
check "an expired wait is told by both ranks" deadline
check "a rank that is killed does not hang the others" dies
if command -v torchrun >/dev/null; then
    check "torchrun --no-python" timeout 300 torchrun --no-python --nproc-per-node 2 "$grsrun" --procs --shape 512,512,256 --tp 2
else
    echo "# torchrun was not found: left out"
fi
if command -v mpirun >/dev/null; then
    check "mpirun" timeout 300 mpirun --allow-run-as-root --oversubscribe -n 2 "$grsrun" --procs --shape 512,512,256 --tp 2
else
    echo "# mpirun was not found: left out"
fi
finish
