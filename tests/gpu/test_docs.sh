#!/usr/bin/env bash
# The commands of README and docs that need a GPU; tests/test_docs.py says how they are marked.
exec "$(dirname "$0")/../test_docs.py" --gpu
