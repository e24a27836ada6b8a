#!/usr/bin/env bash
# Lays out every source with clang-format; --check only lists the files that differ and fails when there is one.
set -eu
cd "$(dirname "$0")/.."
files=$(find include common generator cache runtime tools emulator templates tests bench examples -type f \
    \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -not -path 'tests/golden/*' | sort)
if [[ ${1:-} != --check ]]; then
    # shellcheck disable=SC2086 # no name here has a space
    clang-format -i $files
    exit
fi
# shellcheck disable=SC2086
differing=$(clang-format --dry-run $files 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:.*Wclang-format-violations.*/\1/p' | sort -u)
if [[ -n $differing ]]; then
    echo "not laid out by .clang-format (make format does it):"
    echo "$differing"
    exit 1
fi
