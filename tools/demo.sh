#!/usr/bin/env bash
# `make demo`: one config, from the file to a verified result across ranks. Says plainly what cannot be done here.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
config=examples/demo.yaml
export GRS_CACHE_DIR=${GRS_CACHE_DIR:-$BUILD/demo/cache}
mkdir -p "$BUILD/demo"

step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
if [[ ! -t 1 ]]; then step() { printf '\n%s\n' "$*"; }; fi
show() { # prints the command as one would type it, then runs it
    echo "\$ $*"
    "$@"
}

"$BUILD/grsgen" --version
step "1. The config is checked, and every kernel that it asks for is planned"
show "$BUILD/grsgen" --config $config --check

step "2. The plan of this kernel, in words"
echo "\$ $BUILD/grsgen --config $config --explain"
"$BUILD/grsgen" --config $config --explain | awk -v RS= -v ORS='\n\n' 'NR == 1 || /^(Shared|Order|Memory|wait)/'
echo "(the rest of it: every value with its reason, roles, tiles, the expected limit)"

step "3. The CUDA text: ordinary headers, and one struct of numbers"
show "$BUILD/grsgen" --config $config --emit cuda -o "$BUILD/demo"
sed -n '/^struct Config/,$p' "$BUILD"/demo/*.cu

step "4. Compiled by NVRTC into the cache, ahead of time; no GPU is needed for that"
compiled=yes
if ! "$BUILD/grsgen" --config $config >"$BUILD/demo/precompile" 2>&1; then
    compiled=no
    if ! grep -q 'NVRTC was not found' "$BUILD/demo/precompile"; then
        cat "$BUILD/demo/precompile"
        exit 1
    fi
    echo "NVRTC was not found, so nothing was compiled; \`make deps\` installs it (pip install nvidia-cuda-nvrtc-cu12)."
else
    echo "\$ $BUILD/grsgen --config $config"
    cat "$BUILD/demo/precompile"
fi

step "5. Three ranks run it, and every element of D is compared with an independent reference"
if [[ ! -x $BUILD/grsrun ]]; then
    echo "grsrun was not built: the launch is left out."
    exit 1
fi
show "$BUILD/grsrun" --config $config --backend auto --verify

step "Done."
if [[ $compiled == no ]]; then echo "What could not be done here: compile for a GPU (no NVRTC)."; fi
echo "Next: grsgen --help, grsrun --help, docs/config.md, and grsgen --init for a config of your own."
