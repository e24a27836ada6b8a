#!/usr/bin/env bash
# grsgen and its cache from the outside: grsgen cache …, a full disk, interrupted runs, odd directories and locales.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"
grsgen=$BUILD/grsgen
export GRS_CACHE_DIR=$TMP/cache GRS_NVRTC=$BUILD/tests/shim/libnvrtc.so SHIM_NVRTC_COUNT=$TMP/count
unset GRS_CONFIG GRS_ARCH GRS_CACHE_RO_DIRS GRS_CACHE_MAX GRS_LOG
{
    printf 'version: 1\nm: fixed\nshapes:\n'
    printf '  - {m: 64, n: %d, k: 256, tp: 2}\n' 512 1024 1536
} >"$TMP/three.yaml"

compiles() { local all; all=$(cat "$TMP/count" 2>/dev/null); all=${all//o/}; [[ ${#all} -eq $1 ]] || { echo "${#all} compiles, not $1"; return 1; }; }
anew() { rm -rf "$TMP/cache" "$TMP/count"; }
fill() { anew; exits 0 "$grsgen" --config "$TMP/three.yaml"; }
# json FILE EXPRESSION: evaluates a Python expression over the object `o`.
json() {
    python3 -c 'import json, sys; o = json.load(open(sys.argv[1])); sys.exit(0 if eval("(" + sys.argv[2] + ")") else str(o))' "$TMP/$1" "$2"
}
entries() { find "$GRS_CACHE_DIR" -type f -name "$(printf '[0-9a-f]%.0s' {1..64})" | sort; }
first_key() { basename "$(entries | head -1)"; }

usage() { # ARGUMENTS... — the last is what must be said
    local text=${*: -1}
    exits 2 "$grsgen" cache "${@:1:$#-1}" && silent out && says err "$text"
}
usages() {
    exits 0 "$grsgen" cache --help && says out unpack && exits 2 "$grsgen" cache &&
        usage remove "'remove' is no command" && usage list --max 3 "--max is not possible here" &&
        usage prune --max 3x "'3x' is not possible" && usage show "usage: grsgen cache show KEY" &&
        usage show 123 "'123' is not a key" && usage show 12345g "is not a key" && usage pack "usage: grsgen cache pack FILE" &&
        usage unpack a b "usage: grsgen cache unpack FILE" && usage path x "usage: grsgen cache path"
}

looking_makes_nothing() {
    anew
    exits 0 "$grsgen" cache path && [[ $(cat "$TMP/out") == "$TMP/cache" ]] && exits 0 "$grsgen" cache list &&
        says out "0 entries" && exits 0 "$grsgen" cache verify && exits 1 "$grsgen" cache show 1234 && [[ ! -e $TMP/cache ]]
}
path_without_directory() {
    exits 1 env -u GRS_CACHE_DIR -u XDG_CACHE_HOME -u HOME "$grsgen" cache path && silent out && says err GRS_CACHE_DIR &&
        exits 0 env -u GRS_CACHE_DIR -u XDG_CACHE_HOME -u HOME "$grsgen" cache path --json && json out "o['dir'] is None and o['why']"
}

list() {
    fill && compiles 3 && exits 0 "$grsgen" cache list && silent err && says out "m 64..64 n 512 k 256 tp 2" &&
        says out "sm_90a" && says out "NVRTC 13.0" && says out "3 entries" && [[ $(wc -l <"$TMP/out") -eq 6 ]] || return 1
    exits 0 "$grsgen" cache list --json && silent err &&
        json out "len(o['entries']) == 3 and all(e['state'] == 'intact' and e['arch'] == 'sm_90a' and len(e['key']) == 64
            and e['config']['tile.k'] and e['compiler'] == 'NVRTC 13.0' and e['bytes'] > 1000 and e['used'] >= e['made'] > 1e9
            and not e['in_use'] for e in o['entries']) and o['bytes'] == sum(e['bytes'] for e in o['entries'])
            and [e['shape'] for e in o['entries']] == ['m 64..64 n %d k 256 tp 2' % n for n in (512, 1024, 1536)]" || return 1
    exits 0 "$grsgen" cache list --arch sm_100a --json && json out "o['entries'] == []"
}
in_use() { # by a run that has made one entry and compiles the next
    anew
    SHIM_NVRTC_SLEEP_MS=500 "$grsgen" --config "$TMP/three.yaml" -j 1 >/dev/null 2>&1 &
    local pid=$!
    for _ in {1..500}; do [[ -n $(entries 2>/dev/null) ]] && break; sleep 0.01; done
    exits 0 "$grsgen" cache list --json && json out "o['entries'][0]['in_use']" && exits 0 "$grsgen" cache list && says out ", in use"
    local code=$?
    wait "$pid" && exits 0 "$grsgen" cache list --json && json out "not any(e['in_use'] for e in o['entries'])" && return "$code"
}
show() {
    local key
    fill && key=$(first_key) || return 1
    exits 0 "$grsgen" cache show "${key:0:8}" && says out "$key" && says out "tile.m: " && says out "options " || return 1
    exits 0 "$grsgen" cache show "$key" --json && json out "o['key'] == '$key' and o['part_bytes']['cubin'] == 1000
        and o['meta']['threads'] and 'arch 6:sm_90a' in o['key_text']" || return 1
    exits 0 "$grsgen" cache show "$key" --part cubin && [[ $(stat -c %s "$TMP/out") -eq 1000 ]] &&
        exits 0 "$grsgen" cache show "$key" --part ptx && says out "// shim: " &&
        exits 0 "$grsgen" cache show "$key" --part source && says out "struct Config" &&
        exits 2 "$grsgen" cache show "$key" --part sass && says err "allowed: key, config, meta, source, ptx, cubin, log"
}
verify() {
    fill && exits 0 "$grsgen" cache verify && says out "3 intact, 0 damaged" || return 1
    local victim other
    victim=$(entries | head -1) other=$(entries | tail -1)
    printf x | dd of="$victim" bs=1 seek=500 conv=notrunc status=none
    chmod 0666 "$other"
    exits 1 "$grsgen" cache verify && says out "$victim: damaged: checksum mismatch" && says out "$other: refused" &&
        says out "1 intact, 1 damaged, 1 refused" || return 1
    exits 1 "$grsgen" cache verify --json && json out "o['intact'] == 1 and o['damaged'] == 1 and len(o['problems']) == 2"
    exits 0 "$grsgen" cache list && says out "damaged: checksum mismatch" || return 1
    chmod 0600 "$other"
    cp -p "$other" "$victim" # a good entry under another's name
    exits 1 "$grsgen" cache verify && says out "$victim: damaged: it is the entry of another kernel"
}
prune() {
    fill || return 1
    local dir victim
    victim=$(entries | head -1) dir=$(dirname "$victim")
    truncate -s 100 "$victim"
    cp "$(entries | tail -1)" "$victim.damaged"
    touch -d '2 hours ago' "$dir/.tmp-0123456789abcdef0123456789abcdef"
    touch "$dir/.tmp-0123456789abcdef0123456789abcde0" "$dir/notes"
    exits 0 "$grsgen" cache prune && says out "removed 0 entries, 2 damaged, 1 left-over temporary file: " && says out "2 left" &&
        [[ -e $dir/.tmp-0123456789abcdef0123456789abcde0 && -e $dir/notes && ! -e $victim && ! -e $victim.damaged ]] || return 1
    exits 0 "$grsgen" cache prune --max 120000 --json &&
        json out "o['removed'] == 1 and o['entries'] == 1" && [[ $(entries | wc -l) -eq 1 ]]
}
clear_all() {
    fill && exits 0 "$grsgen" cache clear && says out "removed 3 entries" && [[ -z $(entries) && -e $TMP/cache/lock ]] &&
        exits 0 "$grsgen" cache list && says out "0 entries" || return 1
    anew && exits 1 "$grsgen" cache clear && says err "does not exist"
}

pack() {
    local key
    fill && key=$(first_key) && cp -r "$TMP/cache" "$TMP/original" || return 1
    exits 0 "$grsgen" cache pack "$TMP/all.pack" --json && json out "o['entries'] == 3" &&
        exits 0 "$grsgen" cache pack "$TMP/one.pack" "${key:0:10}" && says out "1 entry" || return 1
    exits 0 env GRS_CACHE_DIR="$TMP/other" "$grsgen" cache unpack "$TMP/one.pack" &&
        exits 0 env GRS_CACHE_DIR="$TMP/other" "$grsgen" cache unpack "$TMP/all.pack" --json &&
        json out "o['entries'] == 3 and o['already_there'] == 1" &&
        exits 0 env GRS_CACHE_DIR="$TMP/other" "$grsgen" cache verify && says out "3 intact" || return 1
    # The entries are the same, byte for byte, and a run on them compiles nothing, with or without the compiler.
    diff -r --exclude=lock --exclude=size "$TMP/other" "$TMP/original" && rm -f "$TMP/count" &&
        exits 0 env GRS_CACHE_DIR="$TMP/other" "$grsgen" --config "$TMP/three.yaml" && compiles 0 &&
        exits 0 env GRS_CACHE_DIR="$TMP/other" GRS_NVRTC="$TMP/nowhere" "$grsgen" --config "$TMP/three.yaml" || return 1
    rm -rf "$TMP/original" "$TMP/other"
}
pack_refusals() {
    fill || return 1
    exits 1 "$grsgen" cache pack "$TMP/no.pack" 12345678 && says err "no entry's key starts with '12345678'" &&
        [[ ! -e $TMP/no.pack ]] || return 1
    exits 1 "$grsgen" cache pack "$TMP/no-such-directory/x.pack" && says err "no-such-directory/x.pack" || return 1
    truncate -s 100 "$(entries | head -1)"
    exits 1 "$grsgen" cache pack "$TMP/no.pack" && says err "cannot be packed" && [[ -z $(ls "$TMP"/no.pack* 2>/dev/null) ]] || return 1
    anew
    exits 1 "$grsgen" cache pack "$TMP/no.pack" && says err "no entry to pack"
}
unpack_refusals() { # every cut and flip: nothing is published
    fill && exits 0 "$grsgen" cache pack "$TMP/all.pack" && anew || return 1
    python3 - "$TMP/all.pack" "$grsgen" "$TMP/bad.pack" <<'EOF' || return 1
import subprocess, sys
pack, grsgen, bad = sys.argv[1:]
good = open(pack, 'rb').read()
def refused(data, what):
    open(bad, 'wb').write(data)
    run = subprocess.run([grsgen, 'cache', 'unpack', bad], capture_output=True, text=True)
    if run.returncode != 1 or run.stdout or 'bad.pack' not in run.stderr:
        sys.exit(f'{what}: {run}')
step = len(good) // 40
for cut in list(range(0, 64)) + list(range(64, len(good), step)) + [len(good) - 1]:
    refused(good[:cut], f'cut at {cut}')
for at in list(range(0, 64)) + list(range(64, len(good), step)) + list(range(len(good) - 20, len(good))):
    refused(good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1:], f'byte {at} flipped')
refused(good + b'x', 'a byte more')
refused(b'hello', 'no pack')
EOF
    [[ ! -e $TMP/cache ]] || { echo "something was published"; return 1; }
    exits 1 "$grsgen" cache unpack "$TMP/nowhere.pack" && says err "nowhere.pack"
}
unpack_newer() { # a pack whose format, and one in which an entry's format, is newer
    fill && exits 0 "$grsgen" cache pack "$TMP/all.pack" && anew || return 1
    { head -c 8 "$TMP/all.pack" && printf '\002' && tail -c +10 "$TMP/all.pack"; } >"$TMP/newer.pack"
    exits 1 "$grsgen" cache unpack "$TMP/newer.pack" && says err "pack format 2, this grs reads format 1"
}

# Scenario 4: the cache is a file system of 1 MiB.
full_disk() {
    mkdir -p "$TMP/mnt" && anew || return 1
    # shellcheck disable=SC2016 # expanded by the inner shell
    exits 1 unshare -m bash -c 'mount -t tmpfs -o size=1m none "$1/mnt" && GRS_CACHE_DIR=$1/mnt/cache SHIM_NVRTC_CUBIN_BYTES=400000 "$2" --config "$1/three.yaml"
        code=$?; find "$1/mnt" -name ".tmp*"; GRS_CACHE_DIR=$1/mnt/cache "$2" cache verify; exit $code' - "$TMP" "$grsgen" &&
        compiles 3 && says err "$TMP/mnt/cache" && says err "No space left" && says err GRS_CACHE_DIR &&
        says out "3 compiled, 0 cached, 0 failed" && says out "2 intact, 0 damaged" && ! grep -q '\.tmp' "$TMP/out" &&
        [[ $(grep -c 'grs: warning' "$TMP/err") -eq 1 ]]
}
no_cache_to_fill() {
    anew
    exits 1 env -u GRS_CACHE_DIR -u XDG_CACHE_HOME -u HOME "$grsgen" --config "$TMP/three.yaml" && says err GRS_CACHE_DIR && compiles 0
}

rerun_compiles_what_is_missing() {
    fill && rm "$(entries | head -1)" "$TMP/count" && exits 0 "$grsgen" --config "$TMP/three.yaml" && compiles 1 &&
        says out "1 compiled, 2 cached, 0 failed"
}
interrupted() { # Ctrl-C in the middle: no partial entry; the next run makes what is missing
    anew
    # A shell has its background jobs ignore SIGINT.
    SHIM_NVRTC_SLEEP_MS=300 env --default-signal=INT "$grsgen" --config "$TMP/three.yaml" -j 1 >"$TMP/out" 2>"$TMP/err" &
    local pid=$!
    for _ in {1..500}; do [[ -n $(entries 2>/dev/null) ]] && break; sleep 0.01; done
    kill -INT "$pid"
    wait "$pid"
    local code=$? made
    made=$(entries | wc -l)
    [[ $code -ne 0 && $made -ge 1 && $made -lt 3 && -z $(find "$TMP/cache" -name '.tmp*') ]] ||
        { echo "exit code $code"; find "$TMP/cache"; return 1; }
    rm "$TMP/count"
    exits 0 "$grsgen" cache verify && exits 0 "$grsgen" --config "$TMP/three.yaml" && compiles $((3 - made))
}

# Scenario 8: names of 200 characters with spaces, quotes and UTF-8; a comma for a decimal point.
odd_directory() {
    anew
    local part
    part=$(printf "it's \"odd\" äß€ %0178d" 0)
    exits 0 env GRS_CACHE_DIR="$TMP/$part/$part" "$grsgen" --config "$TMP/three.yaml" && compiles 3 &&
        exits 0 env GRS_CACHE_DIR="$TMP/$part/$part" "$grsgen" --config "$TMP/three.yaml" && compiles 3 &&
        exits 0 env GRS_CACHE_DIR="$TMP/$part/$part" "$grsgen" cache list --json && json out "len(o['entries']) == 3"
}
comma_locale() {
    mkdir -p "$TMP/locales" && localedef -i de_DE -f UTF-8 --no-archive "$TMP/locales/de_DE.UTF-8" || return 1
    fill && exits 0 env LOCPATH="$TMP/locales" LC_ALL=de_DE.UTF-8 "$grsgen" --config "$TMP/three.yaml" && compiles 3 &&
        exits 0 env LOCPATH="$TMP/locales" LC_ALL=de_DE.UTF-8 "$grsgen" cache list && says out " KiB" && ! grep -q '[0-9],[0-9]' "$TMP/out"
}
shared_directory() {
    fill && mv "$TMP/cache" "$TMP/shared" && exits 0 env GRS_CACHE_RO_DIRS="$TMP/none:$TMP/shared" "$grsgen" --config "$TMP/three.yaml" &&
        compiles 3 && [[ -z $(entries) ]] && exits 0 env GRS_CACHE_RO_DIRS="$TMP/shared" "$grsgen" cache list && says out ", shared" &&
        exits 0 env GRS_CACHE_RO_DIRS="$TMP/shared" "$grsgen" cache pack "$TMP/shared.pack" && says out "3 entries" || return 1
    rm -rf "$TMP/shared"
}

check "wrong command lines" usages
check "path, list, verify and show make no directory" looking_makes_nothing
check "path without a directory" path_without_directory
check "list" list
check "list says what is in use" in_use
check "show" show
check "verify" verify
check "prune" prune
check "clear" clear_all
check "pack and unpack" pack
check "pack refuses what is damaged or not there" pack_refusals
check "unpack refuses every cut and flip" unpack_refusals
check "unpack refuses a newer format" unpack_newer
if unshare -m true 2>/dev/null && [[ $(id -u) -eq 0 ]]; then
    check "a full disk: kernels compile, exit code 1 names the directory" full_disk
else
    skip "a full disk" "needs root and the right to mount"
fi
check "no cache to fill is exit code 1" no_cache_to_fill
check "a run compiles only what is missing" rerun_compiles_what_is_missing
check "an interrupted run leaves nothing partial" interrupted
check "odd directory names" odd_directory
if command -v localedef >/dev/null && [[ -e /usr/share/i18n/locales/de_DE ]]; then
    check "a comma-decimal locale" comma_locale
else
    skip "a comma-decimal locale" "localedef cannot make de_DE.UTF-8"
fi
check "shared directories" shared_directory
finish
