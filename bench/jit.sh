#!/usr/bin/env bash
# How long it takes to get a kernel: from memory, from disk, from the compiler. Arguments go to bench_jit (--json).
set -eu
exec "${BUILD:-build}/bench/bench_jit" ${JSON:+--json} "$@"
