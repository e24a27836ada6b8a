# shellcheck shell=bash
# Sourced: the GPUs of this machine, as files of results are named after them.

# How many there are; with GPUS so many of them.
machine_gpus() {
    local there
    there=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU' || true)
    echo $((${GPUS:-$there} < there ? ${GPUS:-$there} : there))
}

# "NVIDIA H200" is h200.
machine_name() {
    nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | sed -E 's/^NVIDIA //; s/[^A-Za-z0-9]+/-/g' | tr '[:upper:]' '[:lower:]'
}
