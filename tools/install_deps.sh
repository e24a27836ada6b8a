#!/usr/bin/env bash
# Installs the packages of deps.txt that are missing, on Debian or Ubuntu, as root or through sudo. Says nothing when
# nothing is missing.
#
#   tools/install_deps.sh [GROUP...]     default: every group but gpu
set -eu
cd "$(dirname "$0")/.."
groups=" ${*:-build check fuzz run} "

wanted() { # kind → names in the chosen groups
    while read -r kind group name _; do
        if [[ $kind == "$1" && $groups == *" $group "* ]]; then echo "$name"; fi
    done < <(grep -v '^ *#' deps.txt)
}

installed() { [[ $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) == *' installed' ]]; }

nvrtc_found() {
    local place
    # shellcheck disable=SC2231 # the patterns must expand
    for place in ${GRS_NVRTC:-} ${CUDA_HOME:-/nonexistent}/lib64/libnvrtc.so* ${CUDA_PATH:-/nonexistent}/lib64/libnvrtc.so* \
        /usr/local/cuda/lib64/libnvrtc.so* {${VIRTUAL_ENV:-/nonexistent},"$HOME"/.local,/usr/local,/usr}/lib/python3*/{site,dist}-packages/nvidia/{cuda_nvrtc,cu13}/lib/libnvrtc.so*; do
        if [[ -e $place ]]; then return 0; fi
    done
    ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so'
}

# Some copy of what a package of Python brings is there.
brought() {
    case $1 in
    nvidia-cuda-nvrtc-*) nvrtc_found ;;
    nvidia-cuda-nvdisasm) python3 tests/gpu/races.py --find >/dev/null 2>&1 ;;
    *) python3 -m pip show --quiet "$1" >/dev/null 2>&1 ;;
    esac
}

if ! command -v dpkg-query >/dev/null; then
    echo "deps: this is neither Debian nor Ubuntu; what deps.txt lists is taken to be there"
else
    missing=()
    for name in $(wanted apt); do
        installed "$name" || missing+=("$name")
    done
    for name in $(wanted 'apt?'); do
        if ! installed "$name" && apt-cache show "$name" >/dev/null 2>&1; then missing+=("$name"); fi
    done
    # python3-pip serves only to install NVRTC: where NVRTC or some pip is there, it is not needed.
    if nvrtc_found || python3 -m pip --version >/dev/null 2>&1; then
        kept=()
        for name in ${missing[@]+"${missing[@]}"}; do
            if [[ $name != python3-pip ]]; then kept+=("$name"); fi
        done
        missing=(${kept[@]+"${kept[@]}"})
    fi
    if [[ ${#missing[@]} -gt 0 ]]; then
        as_root=()
        if [[ $(id -u) -ne 0 ]]; then
            if ! command -v sudo >/dev/null; then
                echo "deps: missing, and neither root nor sudo is at hand; as root: apt-get install ${missing[*]}" >&2
                exit 1
            fi
            as_root=(sudo)
        fi
        echo "deps: installing ${missing[*]}"
        ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get update -q >/dev/null
        ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get install -q -y --no-install-recommends \
            "${missing[@]}" >/dev/null
    fi
fi

for name in $(wanted pip); do
    if brought "$name"; then continue; fi
    echo "deps: installing $name (pip)"
    # Into the virtual environment where there is one, else below ~/.local: both are places that the library searches.
    options=(--quiet --disable-pip-version-check --no-deps)
    if [[ -z ${VIRTUAL_ENV:-} ]]; then
        options+=(--user)
        if python3 -m pip install --help | grep -q break-system-packages; then options+=(--break-system-packages); fi
    fi
    if ! python3 -m pip install "${options[@]}" "$name"; then
        echo "deps: $name could not be installed: what deps.txt says of it cannot be done here; everything else works" >&2
    fi
done
