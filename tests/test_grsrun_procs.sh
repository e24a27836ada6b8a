#!/usr/bin/env bash
# grsrun --procs, as far as it goes without a GPU: how ranks are started, what they write, how they end.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"
grsrun=$BUILD/grsrun
export GRS_CACHE_DIR=$TMP/cache
shape=(--procs --shape 64,64,64)
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT SLURM_PROCID OMPI_COMM_WORLD_RANK PMI_RANK

# Every rank tells the errors of all.
no_driver() {
    GRS_LIBCUDA=/nonexistent/libcuda.so exits 1 "$grsrun" "${shape[@]}" --tp 3 || return 1
    local rank other
    for rank in 0 1 2; do
        for other in 0 1 2; do
            grep -E "^rank $rank \| (grsrun: )?rank $other \(process [0-9]+ on no GPU\): the CUDA driver cannot be opened: " \
                "$TMP/err" >/dev/null || { echo "rank $rank does not tell rank $other's error"; cat "$TMP/err"; return 1; }
        done
    done
    silent out
}
# Communicators are made and kernels looked up; this driver runs no helper kernel.
ranks_meet() {
    GRS_LIBCUDA=$BUILD/tests/shim/libcuda.so GRS_LOG=debug exits 1 "$grsrun" "${shape[@]}" --tp 2 || return 1
    grep -E '^rank 1 \| .*rank 1 \(process [0-9]+ on GPU 1 \(Shim\)\) of 2, 132 of 132 SMs, 1 rank on this GPU' "$TMP/err" ||
        { cat "$TMP/err"; return 1; }
}
# One of torchrun's, alone: it acts as that rank, and names the one that is missing.
under_a_launcher() {
    RANK=0 WORLD_SIZE=2 GRS_MASTER_PORT=$((20000 + $$ % 10000)) GRS_SETUP_DEADLINE=0.3 \
        GRS_LIBCUDA=$BUILD/tests/shim/libcuda.so exits 1 "$grsrun" "${shape[@]}" --tp 2 &&
        says err 'rank 1 of 2 did not come to rank 0 at 127.0.0.1:' && says err ' within 0.3 s'
}
under_mpirun() {
    GRS_LIBCUDA=$BUILD/tests/shim/libcuda.so GRS_LOG=debug exits 1 timeout 60 mpirun --allow-run-as-root --oversubscribe \
        -n 2 "$grsrun" "${shape[@]}" --tp 2 || return 1
    local rank
    for rank in 0 1; do
        says err "rank $rank of 2 by the variables of Open MPI" || return 1
        grep -E "rank $rank \(process [0-9]+ on GPU $rank \(Shim\)\) of 2," "$TMP/err" >/dev/null || { cat "$TMP/err"; return 1; }
    done
}
half_a_launcher() {
    RANK=0 GRS_LIBCUDA=$BUILD/tests/shim/libcuda.so exits 2 "$grsrun" "${shape[@]}" --tp 2 &&
        says err 'RANK is set and WORLD_SIZE is not'
}
# Ranks that hang (in the opening of a pipe that nobody writes) end with grsrun.
signals_are_passed_on() {
    mkfifo "$TMP/fifo"
    GRS_LIBCUDA=$TMP/fifo "$grsrun" "${shape[@]}" --tp 2 >"$TMP/out" 2>"$TMP/err" &
    local parent=$! count=0
    while [[ $(children_of "$parent" | wc -l) -lt 2 && $count -lt 100 ]]; do sleep 0.05; count=$((count + 1)); done
    sleep 0.2
    kill -TERM "$parent"
    wait "$parent"
    [[ $? -eq 1 ]] && says err 'grsrun: rank 0 was ended by signal 15 (Terminated)' &&
        says err 'grsrun: rank 1 was ended by signal 15 (Terminated)'
}
not_together() {
    local option
    for option in --bench --json --guard '--ranks-per-gpu 2' '--backend emu'; do
        # shellcheck disable=SC2086 # an option and its argument
        exits 2 "$grsrun" "${shape[@]}" --tp 2 $option && says err '--procs verifies on GPUs' || return 1
    done
    exits 2 "$grsrun" "${shape[@]}" --tp 2,4 && says err 'there are shapes with tp 2 and with tp 4'
}

# ---------------------------------------------------------------- on stand-ins for GPUs and for NCCL

# grsrun --procs RANKS OPTIONS...: ranks on a stand-in GPU each, which compute on the host.
computed() { # CODE RANKS OPTIONS...
    HOSTGPU_DEVICES=$2 GRS_LIBCUDA=$BUILD/tests/shim/libhostgpu.so GRS_NVRTC=$BUILD/tests/shim/libnvrtc.so GRS_NCCL=${NCCL-$BUILD/tests/shim/libnccl.so} \
        exits "$1" timeout 120 "$grsrun" --procs --tp "$2" "${@:3}"
}
# Every rank says so much of its path, and that so many rows of the table are right.
ranks_say() { # RANKS TEXT ROWS
    local rank
    for ((rank = 0; rank < $1; rank++)); do
        says out "rank $rank | $2" || return 1
        [[ $(grep -c "^rank $rank | .* ok\$" "$TMP/out") -eq $3 ]] || { echo "rank $rank: not $3 rows"; cat "$TMP/out"; return 1; }
    done
}
one_host() { computed 0 2 --shape 1,23,24,16 && ranks_say 2 '# exact:' 4 && silent err; }
replayed() { # by every rank: two kinds of operands, two sets of each, three launches
    rm -f "$TMP/log"
    HOSTGPU_LOG=$TMP/log computed 0 2 --shape 23,24,16 --graph --repeat 3 && ranks_say 2 '# exact:' 2 && [[ $(grep -c graph "$TMP/log") -eq 24 ]]
}
fused() { computed 0 2 --nodes 1 --shape 1,23,24,16 && ranks_say 2 '# fused: one kernel over all 2 ranks' 4; }
staged() { # also rows that are not dense, and replayed
    local text='# staged: a kernel over the 2 ranks of each of 2 nodes, then ncclReduceScatter between the nodes'
    computed 0 4 --nodes 2 --shape 1,7,33,136,72 --ldd +8 && ranks_say 4 "$text" 6 && silent err &&
        computed 0 4 --nodes 2 --shape 33,136,72 --graph && ranks_say 4 "$text" 2
}
three_nodes() { computed 0 6 --nodes 3 --shape 1,23,24,16 && ranks_say 6 '# staged: a kernel over the 2 ranks of each of 3 nodes' 4; }
unfused() {
    computed 0 3 --nodes 3 --shape 1,7,33,136,72 --ldd +8 &&
        ranks_say 3 "# unfused: every rank's product, then ncclReduceScatter over all 3: every rank is on a node of its own" 6
}
no_peers() { # the ranks of a node do not reach each other
    HOSTGPU_NO_PEERS=1 computed 0 4 --nodes 2 --shape 23,24,16 && ranks_say 4 "# unfused: every rank's product, then ncclReduceScatter over all 4: node 0 (node0): " 2 &&
        says out 'rank 3 | #   node 1 (node1): '
}
named() { # GRS_NODE goes before what is pretended
    GRS_NODE=one computed 0 4 --nodes 2 --shape 23,24,16 && ranks_say 4 '# fused: one kernel over all 4 ranks' 2
}
wrong_bit() { # NODES RANK
    HOSTGPU_FAULT=flip computed 1 4 --nodes "$1" --shape 33,24,16 && says err "rank $2 | grsrun: FAILED: a result is wrong; see above" &&
        says err '33,24,16 tp 4 exact, operands 1, launch 1: mismatches: ' && says err ", owner $2: got " && says out ' FAILED'
}
one_gpu() { # of which NCCL would refuse the second rank, unless each is a host of its own
    HOSTGPU_DEVICES=1 GRS_LIBCUDA=$BUILD/tests/shim/libhostgpu.so GRS_NVRTC=$BUILD/tests/shim/libnvrtc.so GRS_NCCL=$BUILD/tests/shim/libnccl.so \
        exits 2 timeout 120 "$grsrun" --procs --tp 2 --nodes 2 --shape 8,8,8 &&
        says err 'rank 1 | grsrun: --nodes needs a GPU a rank: ranks 0 and 1 are on the same' && silent out
}
# shellcheck disable=SC2016 # what is said names the variable
no_nccl() { # every rank tells the errors of all
    NCCL=/nonexistent/libnccl.so computed 2 2 --nodes 2 --shape 8,8,8 && says err 'rank 1 | grsrun: rank 0: $GRS_NCCL: /nonexistent/libnccl.so: ' &&
        says err 'rank 0 | rank 1: $GRS_NCCL: /nonexistent/libnccl.so: ' && silent out
}
precompiled() { # with the kernels of a node: the run compiles nothing
    local shape=(--nodes 2 --shape 1,7,33,136,72) nvrtc=$BUILD/tests/shim/libnvrtc.so
    export GRS_CACHE_DIR=$TMP/of-nodes SHIM_NVRTC_COUNT=$TMP/count
    GRS_NVRTC=$nvrtc exits 0 "$grsrun" --precompile --procs --tp 4 "${shape[@]}" && grep -q 'n136_k72_tp4.* compiled$' "$TMP/out" &&
        grep -q 'n136_k72_tp2.* compiled$' "$TMP/out" && grep -q c "$TMP/count" && : >"$TMP/count" && computed 0 4 "${shape[@]}" && ! grep -q c "$TMP/count"
    local code=$?
    unset SHIM_NVRTC_COUNT
    export GRS_CACHE_DIR=$TMP/cache
    return $code
}
# The others would wait in NCCL for ever.
killed() {
    HOSTGPU_DEVICES=2 GRS_LIBCUDA=$BUILD/tests/shim/libhostgpu.so GRS_NVRTC=$BUILD/tests/shim/libnvrtc.so GRS_NCCL=$BUILD/tests/shim/libnccl.so \
        "$grsrun" --procs --tp 2 --nodes 2 --shape 64,24,16 --rounds 1000000 >"$TMP/out" 2>"$TMP/err" &
    local parent=$! ranks count=0 started
    until [[ $(grep -c 'verdict$' "$TMP/out") -eq 2 || $count -gt 200 ]]; do sleep 0.05; count=$((count + 1)); done
    mapfile -t ranks < <(children_of "$parent")
    started=$SECONDS
    kill -KILL "${ranks[1]}" || return 1
    wait "$parent"
    [[ $? -eq 1 && $((SECONDS - started)) -lt 30 ]] && says err 'grsrun: a rank has failed, and 10 s later others still wait: they are ended' &&
        says err 'was ended by signal 9' && says err 'was ended by signal 15'
}

check "the stand-ins are built" make -s BUILD="$BUILD" "$BUILD"/tests/shim/lib{cuda,hostgpu,nccl,nvrtc}.so
check "every rank tells the errors of all" no_driver
check "ranks meet" ranks_meet
check "one of a launcher's ranks" under_a_launcher
if command -v mpirun >/dev/null; then
    check "ranks started by Open MPI's mpirun meet" under_mpirun
else
    skip "ranks started by Open MPI's mpirun meet" "mpirun is not installed: apt install openmpi-bin"
fi
check "a launcher's variables are checked" half_a_launcher
check "signals are passed on" signals_are_passed_on
check "options that do not go together" not_together
check "ranks of one host compute" one_host
check "a graph is replayed by every rank" replayed
check "--nodes 1: fused" fused
check "two nodes of two ranks: staged" staged
check "three nodes of two ranks: staged" three_nodes
check "three nodes of one rank: unfused" unfused
check "nodes whose GPUs do not reach each other: unfused" no_peers
check "GRS_NODE goes before" named
check "one wrong bit, staged" wrong_bit 2 0
check "one wrong bit, unfused" wrong_bit 4 3
check "nodes on one GPU" one_gpu
check "no NCCL" no_nccl
check "--precompile makes the kernels of a node" precompiled
check "a rank that is killed does not hang other nodes" killed
finish
