#!/usr/bin/env bash
# Completions in bash, zsh and fish: what is offered after a few words. zsh and fish are asked where they are installed.
# shellcheck disable=SC2317,SC2016,SC2046 # functions are called by name, through check; scripts of the other shells have dollars
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"
export PATH=$BUILD:$PATH GRS_CACHE_DIR=$TMP/cache HOME=$TMP
unset GRS_CONFIG GRS_ARCH GRS_CACHE_RO_DIRS GRS_LOG
mkdir -p "$TMP/empty" "$TMP/zsh"
cp tools/completions/_grs "$TMP/zsh/_grs"

# offers SHELL LINE: what that shell would offer at the end of the line, one word a line.
offers_bash() {
    (cd "$TMP/empty" && bash -c '. "$1"; read -ra COMP_WORDS <<<"$2"; [[ $2 == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _grs "${COMP_WORDS[0]}"; printf "%s\n" "${COMPREPLY[@]}"' \
        bash "$OLDPWD/tools/completions/grs.bash" "$1")
}
offers_fish() { (cd "$TMP/empty" && fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$OLDPWD/tools/completions/grs.fish" "$1" | cut -f1); }
# zsh tells what it would offer only to a terminal; compadd and its kind are replaced by functions that print.
offers_zsh() {
    (cd "$TMP/empty" && zsh -f -c '
        compadd() { [[ $1 == -- ]] && shift; print -l -- "$@" }
        _describe() { print -l -- ${(P)3%%:*} }
        compset() { PREFIX=${PREFIX#*=} }
        _files() { }
        words=(${(z)1}); [[ $1 == *" " ]] && words+=("")
        CURRENT=$#words PREFIX=$words[-1]
        _grs() { '"$(cat "$OLDPWD/tools/completions/_grs")"'
        }
        _grs' zsh "$1" | grep -e "^${1##* }" ||true)
}

offered() { # SHELL LINE WORD...: these, and perhaps others
    local shell=$1 line=$2 word
    shift 2
    "offers_$shell" "$line" >"$TMP/offered" || return 1
    for word in "$@"; do
        grep -qxF -e "$word" "$TMP/offered" || { echo "after '$line' $shell does not offer $word, but:"; cat "$TMP/offered"; return 1; }
    done
}
not_offered() { ! offered "$@" >/dev/null; }

key=0123456789ab
mkdir -p "$TMP/bin"
printf '#!/bin/sh\nif [ "$1 $2" = "cache list" ]; then echo "key  arch"; echo "%s  sm_90a"; else exec %s/grsgen "$@"; fi\n' \
    $key "$BUILD" >"$TMP/bin/grsgen"
chmod +x "$TMP/bin/grsgen"
PATH=$TMP/bin:$PATH

for shell in bash zsh fish; do
    if ! command -v $shell >/dev/null; then
        skip "completion in $shell" "$shell is not installed"
        continue
    fi
    check "$shell: subcommands" offered $shell "grsgen " cache doctor
    check "$shell: every option of grsgen" offered $shell "grsgen --" $(grsgen --help | sed -nE 's/^  (--[a-z0-9-]+).*/\1/p')
    check "$shell: every option of grsrun" offered $shell "grsrun --" $(grsrun --help | sed -nE 's/^  (--[a-z0-9-]+).*/\1/p')
    check "$shell: the beginning of an option" offered $shell "grsgen --ex" --explain
    check "$shell: no other option" not_offered $shell "grsgen --ex" --emit
    check "$shell: what can be emitted" offered $shell "grsgen --shape 8,8,8,1 --emit " cuda ptx cubin sass log all
    check "$shell: archs" offered $shell "grsrun --arch sm" sm_90a sm_100a
    check "$shell: schedules" offered $shell "grsrun --schedule " random eager lazy adversarial
    check "$shell: commands of the cache" offered $shell "grsgen cache " path list show verify prune clear pack unpack
    check "$shell: keys" offered $shell "grsgen cache show " $key
    check "$shell: parts of an entry" offered $shell "grsgen cache show $key --part " key config meta source ptx cubin log
    check "$shell: options of a cache command" offered $shell "grsgen cache prune --" --json --max
done
finish
