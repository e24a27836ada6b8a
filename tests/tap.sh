# shellcheck shell=bash
# Sourced by test scripts: reports results as the Test Anything Protocol, from the root of the repository.
#
#   check NAME COMMAND...   passes when the command succeeds; its output is shown when it does not
#   skip NAME WHY
#   exits CODE COMMAND..., says out|err TEXT, silent out|err: for tests of commands
#   children_of PROCESS, runs PROCESS: for tests of processes
#   finish                  at the end: prints the plan, exits 1 when a test failed
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export LC_ALL=C.UTF-8
BUILD=$(cd "${BUILD:-build}" && pwd)
export BUILD
unset MAKEFLAGS MFLAGS MAKELEVEL # of the make that may run this
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
tap_count=0 tap_failed=0

check() {
    local name=$1
    shift
    tap_count=$((tap_count + 1))
    if "$@" >"$TMP/tap-output" 2>&1; then
        echo "ok $tap_count - $name"
    else
        echo "not ok $tap_count - $name"
        sed 's/^/# /' "$TMP/tap-output" | head -n 40
        tap_failed=$((tap_failed + 1))
    fi
}

# exits CODE COMMAND...: runs it with outputs in $TMP/out and $TMP/err.
exits() {
    local wanted=$1 got
    shift
    "$@" >"$TMP/out" 2>"$TMP/err"
    got=$?
    [[ $got -eq $wanted ]] || { echo "exit code $got, wanted $wanted: $*"; cat "$TMP/out" "$TMP/err"; return 1; }
}
says() { grep -qF -e "$2" "$TMP/$1" || { echo "$1 lacks: $2"; cat "$TMP/$1"; return 1; }; }
silent() { [[ ! -s $TMP/$1 ]] || { echo "$1 should be empty:"; cat "$TMP/$1"; return 1; }; }

children_of() { grep -lE "^PPid:[[:space:]]+$1\$" /proc/[0-9]*/status 2>/dev/null | cut -d/ -f3 | sort -n; }
# Whether there is such a process, and not only what its parent has yet to ask for.
runs() { grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null; }

skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

finish() {
    echo "1..$tap_count"
    [[ $tap_failed -eq 0 ]]
    exit
}
