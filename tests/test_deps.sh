#!/usr/bin/env bash
# deps.txt names what the Makefile and the scripts use, and nothing that they do not.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"

listed() { grep -qE "^(apt\??|pip) +[a-z]+ +$1 " deps.txt || { echo "deps.txt does not list $1, needed for $2"; return 1; }; }

# what is used → the package that has it
libraries_are_listed() {
    local flag package bad=0
    while read -r flag; do
        case $flag in
        -lyaml) package=libyaml-dev ;;
        -ljansson) package=libjansson-dev ;;
        -lxxhash) package=libxxhash-dev ;;
        -lnettle) package=nettle-dev ;;
        -lcmocka) package=libcmocka-dev ;;
        -ldl | -lpthread | -lm) continue ;; # glibc
        *) echo "no package is known for $flag: add it here and to deps.txt"; bad=1; continue ;;
        esac
        listed "$package" "$flag" || bad=1
    done < <(grep -E '^(STATIC|SHARED)_LIBS|-lcmocka' Makefile | grep -oE -e '-l[a-z0-9]+' | sort -u)
    return "$bad"
}

# Commands of the Makefile and the scripts that a minimal Debian lacks.
commands_are_listed() {
    local command package scripts bad=0
    scripts=$(find tests -name '*.sh' -not -name test_deps.sh)
    # shellcheck disable=SC2086 # names without spaces
    while read -r command package; do
        if grep -rqE "(^|[^a-zA-Z0-9_./-])$command([^a-zA-Z0-9_.-]|\$)" Makefile .ci/run tools/*.sh $scripts; then
            listed "$package" "$command" || bad=1
        else
            echo "$package is listed for $command, which nothing uses"
            bad=1
        fi
    done <<'END'
gcc gcc
g[+][+] g[+][+]
make make
git git
clang clang
clang-format clang-format
pkg-config pkg-config
python3 python3
nm binutils
readelf binutils
END
    return "$bad"
}

# Interpreters that are not on a minimal system must not be needed by the build or the tests' own scripts.
scripts_are_bash() {
    local file bad=0
    for file in tools/*.sh tests/*.sh .ci/run; do
        case $(head -n 1 "$file") in '#!/usr/bin/env bash' | '# shellcheck shell=bash' | '# Sourced'*) ;; *)
            echo "$file: $(head -n 1 "$file")"
            bad=1
            ;;
        esac
    done
    return "$bad"
}

every_row_has_a_reason() { ! grep -vE '^ *(#|$)' deps.txt | grep -vE '^(apt|apt\?|pip) +(build|check|fuzz|run|gpu) +[a-z0-9.+-]+ +[^ ].{5,}$'; }

# A system where all is there: the script says nothing and installs nothing.
quiet_when_complete() {
    mkdir -p "$TMP/bin"
    printf '#!/bin/sh\necho "install ok installed"\n' >"$TMP/bin/dpkg-query"
    # shellcheck disable=SC2016 # for the other shell
    printf '#!/bin/sh\necho "must not be called: $0" >&2\nexit 9\n' >"$TMP/bin/apt-get"
    cp "$TMP/bin/apt-get" "$TMP/bin/sudo"
    touch "$TMP/libnvrtc.so"
    chmod +x "$TMP"/bin/*
    GRS_NVRTC=$TMP/libnvrtc.so PATH=$TMP/bin:$PATH tools/install_deps.sh >"$TMP/out" 2>&1 && [[ ! -s $TMP/out ]]
}

# A system without cmocka: exactly that is installed, once, after an update.
installs_what_is_missing() {
    mkdir -p "$TMP/bin2"
    printf '#!/bin/sh\ncase "$*" in *libcmocka-dev*) exit 1;; esac\necho "install ok installed"\n' >"$TMP/bin2/dpkg-query"
    printf '#!/bin/sh\necho "$*" >>"%s"\n' "$TMP/apt-log" >"$TMP/bin2/apt-get"
    printf '#!/bin/sh\nexec "$@"\n' >"$TMP/bin2/sudo"
    chmod +x "$TMP"/bin2/*
    GRS_NVRTC=$TMP/libnvrtc.so PATH=$TMP/bin2:$PATH tools/install_deps.sh build check && [[ $(wc -l <"$TMP/apt-log") -eq 2 ]] &&
        sed -n 1p "$TMP/apt-log" | grep -q '^update' && sed -n 2p "$TMP/apt-log" | grep -qE '^install .* libcmocka-dev$'
}

check "libraries are listed" libraries_are_listed
check "commands are listed, and used" commands_are_listed
check "scripts need bash alone" scripts_are_bash
check "every package has a reason" every_row_has_a_reason
check "nothing is said when nothing is missing" quiet_when_complete
check "what is missing is installed" installs_what_is_missing
finish
