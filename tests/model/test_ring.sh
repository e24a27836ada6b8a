#!/usr/bin/env bash
# shellcheck disable=SC2317 # functions are called by name, through check
# Explores models/ring.pml with spin: every interleaving of a few ranks, CTAs, tiles and three launches. The protocol must
# hold under every drain policy, and each way to break it must be found. FULL=1 adds cases that take minutes and gigabytes.
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

if ! command -v spin >/dev/null; then
    skip "models of the ring" "spin is not installed"
    finish
fi

names=() wanted=()
memory= # what spin's search is compiled with to save memory

# explore WANTED NAME KEY=VALUE...: what the search must find (holds, hangs, violates), and the model's parameters where they
# differ from the ones below. TILES is an expression in e and o. Two searches run at a time.
explore() {
    local want=$1 name=$2 dir=$TMP/${#names[@]} pair
    shift 2
    local -A p=([R]=2 [C]=1 [K]=2 [E]=3 [T]=1 [TILES]=T [GROUP]=1 [SHARED]=0 [INTERLEAVE]=0 [LATE]=0 [POLICY]=IDLE [FAULT]=0)
    for pair; do p[${pair%%=*}]=${pair#*=}; done
    mkdir "$dir"
    {
        echo "#define TILES(e, o) (${p[TILES]})"
        echo "#define TILES_MAX T"
        for pair in R C K E T GROUP SHARED INTERLEAVE LATE POLICY FAULT; do echo "#define $pair ${p[$pair]}"; done
        echo "#include \"$PWD/models/ring.pml\""
    } >"$dir/case.pml"
    names+=("$name ($*)")
    wanted+=("$want")
    local effort=-O2
    [[ $((p[R] * p[C] * p[T])) -gt 6 ]] || effort=-O0 # compiling takes longer than searching
    while [[ $(jobs -rp | wc -l) -ge 2 ]]; do wait -n; done
    search "$dir" "$effort" &
}

search() {
    cd "$1" || return
    spin -a case.pml >output 2>&1 &&
        cc "$2" -w -DSAFETY -DNOFAIR -DMEMLIM=8000 $memory -o pan pan.c >>output 2>&1 && ./pan -m100000 >>output 2>&1
    rm -f pan pan.*
}

# What a finished search says. A search that was cut short says nothing.
verdict() {
    local output=$1/output
    case $(grep -E '^pan:1: |errors: ' "$output") in
    *"assertion violated"*) echo violates ;;
    *"invalid end state"*) echo hangs ;;
    *"errors: 0"*) grep -qE 'Search not completed|max search depth too small' "$output" || echo holds ;;
    esac
}

judge() {
    local got
    got=$(verdict "$TMP/$1")
    [[ $got == "$2" ]] || { echo "found: ${got:-nothing}, wanted: $2"; cat "$TMP/$1/output"; return 1; }
}

# ---------------------------------------------------------------- it holds

policies="PER_TILE IDLE OWNER LANES"
for policy in $policies; do
    for shared in 0 1; do
        for tiles in 1 2 3; do
            explore holds "protocol" R=2 C=1 T=$tiles SHARED=$shared LATE=1 POLICY="$policy"
            explore holds "protocol" R=2 C=2 T=$tiles SHARED=$shared LATE=1 POLICY="$policy"
            explore holds "protocol" R=3 C=1 T=$tiles SHARED=$shared LATE=1 POLICY="$policy"
        done
        explore holds "protocol" R=3 C=2 T=1 SHARED=$shared POLICY="$policy"
        explore holds "protocol" R=4 C=1 T=1 SHARED=$shared LATE=1 POLICY="$policy"
    done
done
for policy in $policies; do
    explore holds "protocol" R=4 C=1 T=2 POLICY="$policy"
done
explore holds "protocol" R=3 C=2 T=2 POLICY=OWNER
explore holds "one store at a time" R=3 C=1 K=1 T=2 LATE=1
explore holds "one store at a time" R=3 C=1 K=1 T=2 SHARED=1 LATE=1
for shared in 0 1; do
    explore holds "three and four stages" R=2 C=1 K=3 T=3 SHARED=$shared LATE=1 POLICY=LANES
    explore holds "three and four stages" R=2 C=1 K=4 T=3 SHARED=$shared LATE=1 POLICY=LANES
    explore holds "three and four stages" R=3 C=1 K=3 T=2 SHARED=$shared LATE=1 POLICY=LANES
    explore holds "three and four stages" R=2 C=2 K=3 T=3 SHARED=$shared LATE=1 POLICY=LANES
    explore holds "three and four stages" R=4 C=1 K=3 T=1 SHARED=$shared LATE=1 POLICY=LANES
done

last_has_none='((o) == R - 1 -> 0 : T)'
first_only='((o) == 0 -> T : 0)'
ragged='((o) == 0 -> T : ((o) == 1 -> 1 : 0))'
changing='((e) == 1 -> ((o) < R - 1 -> 1 : 0) : T)'
for tiles in "$last_has_none" "$first_only" "$ragged" "$changing"; do
    explore holds "owners that differ" R=2 C=2 T=2 TILES="$tiles" LATE=1
    explore holds "owners that differ" R=3 C=1 T=2 TILES="$tiles" LATE=1
    explore holds "owners that differ" R=3 C=2 T=2 TILES="$tiles"
    explore holds "owners that differ" R=4 C=1 T=2 TILES="$tiles"
    explore holds "owners that differ" R=3 C=1 T=2 TILES="$tiles" SHARED=1 POLICY=LANES LATE=1
done
for group in 2 3; do
    explore holds "a bit for several tiles" R=2 C=2 T=3 GROUP=$group LATE=1
    explore holds "a bit for several tiles" R=3 C=1 T=3 GROUP=$group SHARED=1
    explore holds "a bit for several tiles" R=2 C=2 T=3 GROUP=$group POLICY=OWNER TILES="$changing"
done
for lag in 1 2; do
    explore holds "interleaved" R=2 C=2 T=3 INTERLEAVE=$lag LATE=1
    explore holds "interleaved" R=3 C=1 T=3 INTERLEAVE=$lag
    explore holds "interleaved" R=3 C=2 T=1 INTERLEAVE=$lag SHARED=1
    explore holds "interleaved" R=4 C=1 T=1 INTERLEAVE=$lag
done

# ---------------------------------------------------------------- signals that are held back: as the wait graph says

explore hangs "flush: never" R=2 C=1 T=1 SHARED=1 POLICY=NEVER
explore holds "flush: never" R=2 C=1 T=2 SHARED=1 POLICY=NEVER
explore holds "flush: never" R=2 C=1 T=1 SHARED=0 POLICY=NEVER
explore hangs "flush: never" R=2 C=2 T=2 SHARED=1 POLICY=NEVER
explore holds "flush: never" R=2 C=2 T=3 SHARED=1 POLICY=NEVER LATE=1
explore hangs "flush: never" R=3 C=1 T=1 SHARED=0 POLICY=NEVER
explore holds "flush: never" R=3 C=1 T=2 SHARED=0 POLICY=NEVER LATE=1
explore hangs "flush: never" R=4 C=1 T=1 SHARED=1 POLICY=NEVER
explore holds "flush: never" R=4 C=1 T=2 SHARED=1 POLICY=NEVER
explore hangs "flush: never" R=2 C=2 T=3 GROUP=3 SHARED=1 POLICY=NEVER
explore hangs "a group wider than the lag" R=3 C=1 T=3 GROUP=3 INTERLEAVE=1

# ---------------------------------------------------------------- each way to break it is found

explore violates "no credit" R=2 C=1 T=1 FAULT=NO_CREDIT
explore violates "no credit, an owner without rows" R=3 C=1 T=1 TILES="$last_has_none" FAULT=NO_CREDIT
explore hangs "a credit compared with ==, by a CTA that sends nothing" R=2 C=2 T=1 FAULT=CREDIT_EQUAL
explore hangs "a credit compared with ==, by a rank that sends nothing" R=3 C=1 T=1 TILES="$first_only" FAULT=CREDIT_EQUAL
explore violates "a credit checked by one CTA only" R=2 C=2 T=2 FAULT=CREDIT_ONE
explore violates "a credit checked by one CTA only" R=3 C=2 T=1 FAULT=CREDIT_ONE
explore violates "a credit sent before the mask is cleared" R=2 C=1 T=1 FAULT=CREDIT_EARLY
explore violates "a mask cleared by the first CTA that leaves" R=2 C=2 T=2 FAULT=CLEAR_FIRST
explore violates "a mask cleared during the launch" R=2 C=2 T=1 FAULT=CLEAR_START
explore hangs "a mask cleared during the launch" R=2 C=1 T=1 FAULT=CLEAR_START
explore violates "a bit before its store has landed" R=2 C=1 T=1 FAULT=BIT_EARLY
explore violates "a bit before its store has landed" R=3 C=1 T=2 SHARED=1 FAULT=BIT_EARLY
explore violates "a bit before its store has landed" R=2 C=1 T=2 SHARED=1 POLICY=LANES FAULT=BIT_EARLY
# Not faults: >= on entering; and == where the kernel waits, right before a thread's first store: downstream cannot have left
# a launch that still waits for that store.
for tiles in T "$last_has_none" "$first_only" "$changing"; do
    explore holds "a credit awaited on entering" R=3 C=1 T=2 TILES="$tiles" FAULT=ENTRY LATE=1
    explore holds "a credit awaited on entering" R=2 C=2 T=2 TILES="$tiles" FAULT=ENTRY LATE=1
    explore holds "== before the first store" R=3 C=1 T=2 TILES="$tiles" FAULT=FIRST_EQUAL LATE=1
    explore holds "== before the first store" R=2 C=2 T=2 TILES="$tiles" FAULT=FIRST_EQUAL LATE=1
done

if [[ ${FULL:-0} != 0 ]]; then
    memory=-DCOLLAPSE
    for policy in $policies; do
        explore holds "protocol" R=3 C=2 T=2 POLICY="$policy"
        explore holds "protocol" R=3 C=2 T=2 SHARED=1 POLICY="$policy"
        explore holds "protocol" R=4 C=1 T=2 SHARED=1 POLICY="$policy"
    done
    explore holds "protocol" R=3 C=2 T=3
    explore holds "protocol" R=4 C=1 T=3
    explore holds "protocol" R=4 C=2 T=1
fi

wait
for ((i = 0; i < ${#names[@]}; i++)); do
    check "${names[i]} ${wanted[i]}" judge "$i" "${wanted[i]}"
done
finish
