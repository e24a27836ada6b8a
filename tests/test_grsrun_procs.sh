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
children_of() { grep -lE "^PPid:[[:space:]]+$1\$" /proc/[0-9]*/status 2>/dev/null | cut -d/ -f3; }
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
    for option in --bench --json --graph --guard '--ranks-per-gpu 2' '--backend emu'; do
        # shellcheck disable=SC2086 # an option and its argument
        exits 2 "$grsrun" "${shape[@]}" --tp 2 $option && says err '--procs verifies on GPUs' || return 1
    done
    exits 2 "$grsrun" "${shape[@]}" --tp 2,4 && says err 'there are shapes with tp 2 and with tp 4'
}

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
finish
