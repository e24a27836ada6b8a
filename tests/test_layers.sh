#!/usr/bin/env bash
# Rules of the source tree: who may include whom, where inline assembly lives, what the library exports, that generated
# documents are current and that sources are laid out by .clang-format.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"

# folder: folders whose headers it may include. common ← {generator, cache} ← runtime ← tools; templates depend on nothing
# (args.h is shared by host and device, so the host may read it); the emulator runs emitted text.
allowed_for() {
    case $1 in
    common) echo "common" ;;
    generator) echo "generator common templates" ;;
    cache) echo "cache common" ;;
    runtime) echo "runtime generator cache common templates" ;;
    templates) echo "grs" ;;
    emulator) echo "emulator generator common templates grs" ;;
    tools) echo "tools emulator runtime generator cache common templates" ;;
    esac
}

includes_go_downward() {
    local folder bad=0 file path allowed
    folder=$1
    allowed=" $(allowed_for "$folder") "
    while IFS=: read -r file path; do
        # A name without a folder is the public header or one that the build makes.
        if [[ $path != */* ]]; then
            case $path in grs.h | stamp.h | templates.list) continue ;; esac
            echo "$file includes \"$path\": includes are written from the root of the repository"
            bad=1
        elif [[ $allowed != *" ${path%%/*} "* ]]; then
            echo "$file includes \"$path\": $folder may include only$allowed"
            bad=1
        fi
    done < <(grep -rHoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^"]+"' "$folder" --include='*.[chS]' \
        --include='*.cc' --include='*.cuh' | sed -E 's/:.*"([^"]+)"/:\1/')
    return "$bad"
}

# Comments are dropped first: prose may speak of asm.
assembly_in() {
    sed -E 's,//.*$,,' "$1" | sed -e ':a' -e 's,/\*[^*]*\*/,,g' -e 'ta' | grep -nE '\b(asm|__asm__|__asm)\b'
}

# Of the kernels' text and what makes it. Host code that switches stacks (the emulator) or embeds files is another matter.
assembly_is_in_few_files() {
    local file bad=0 seen=0
    while read -r file; do
        case $file in
        templates/ptx.cuh | templates/mma_*.cuh) if assembly_in "$file" >/dev/null; then seen=1; fi ;;
        *) if assembly_in "$file"; then
            echo "inline assembly in $file: it belongs in templates/ptx.cuh or templates/mma_*.cuh"
            bad=1
        fi ;;
        esac
    done < <(find templates generator runtime cache common -type f \( -name '*.[ch]' -o -name '*.cuh' \))
    if [[ $seen -eq 0 ]]; then
        echo "no assembly was found at all: this test looks in the wrong place"
        bad=1
    fi
    return "$bad"
}

exports_are_the_public_interface() {
    nm -D --defined-only "$BUILD/libgrs.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$TMP/exported"
    # Declarations of the header: GRS_API … name(
    tr '\n' ' ' <include/grs.h | grep -oE 'GRS_API [^;#]*;' | sed -E 's/\(.*//; s/.*[ *]//' | sort >"$TMP/declared"
    test -s "$TMP/declared" && diff "$TMP/declared" "$TMP/exported"
}

# A command's own function of that name would take the library's place without a word from the linker.
names_are_defined_once() {
    local command
    for command in grsgen grsrun; do
        nm -g --defined-only "$BUILD/libgrs.a" "$BUILD"/tools/"$command"*.o | awk 'NF == 3 && $2 != "W" { print $3 }' | sort >"$TMP/names"
        [[ $(wc -l <"$TMP/names") -gt 100 ]] || { echo "too few names: this test looks in the wrong place"; return 1; }
        uniq -d "$TMP/names" | sed "s/\$/ is defined in libgrs.a and in $command/" | grep . && return 1
    done
    return 0
}

soname_is_versioned() {
    readelf -d "$BUILD/libgrs.so" | grep -F 'Library soname: [libgrs.so.0]'
}

schema_is_current() { "$BUILD/grsgen" --schema | diff docs/config.schema.json -; }
reference_is_current() { "$BUILD/grsgen" --schema=markdown | diff docs/config.md -; }

no_file_of_another_machine() {
    # Absolute paths of a developer's machine have no place in the tree.
    ! grep -rnE '(^|[^a-z])/(home|root)/[a-z]' --include='*.[ch]' --include='*.cuh' --include='*.cc' --include='*.sh' \
        --include='*.md' --include='*.yaml' --include=Makefile common generator cache runtime templates tools emulator configs \
        docs README.md CONTRIBUTING.md Makefile
}

help_names_every_target() {
    local target
    for target in help deps all demo check check-gpu check-model bench bench-jit asan ubsan tsan fuzz format install uninstall clean; do
        make -s help | grep -q "make $target " || { echo "make help does not name $target"; return 1; }
    done
    local lines
    lines=$(wc -l <Makefile)
    [[ $lines -lt 200 ]] || { echo "Makefile has $lines lines, 199 are allowed"; return 1; }
}

for folder in common generator cache runtime templates emulator tools; do
    if [[ -n $(find "$folder" -type f 2>/dev/null) ]]; then
        check "includes of $folder go downward" includes_go_downward "$folder"
    fi
done
check "assembly is in ptx.cuh and mma_*.cuh alone" assembly_is_in_few_files
check "libgrs.so exports exactly what grs.h declares" exports_are_the_public_interface
check "the library and the commands have no name in common" names_are_defined_once
check "the soname is versioned" soname_is_versioned
check "docs/config.schema.json is current" schema_is_current
check "docs/config.md is current" reference_is_current
check "no path of somebody's machine" no_file_of_another_machine
check "make help names every target" help_names_every_target
version=$(clang-format --version 2>/dev/null | grep -oE 'version [0-9]+' | grep -oE '[0-9]+')
if [[ $version == 14 ]]; then
    check "sources are laid out by .clang-format" tools/format.sh --check
else
    skip "sources are laid out by .clang-format" "clang-format 14 lays out these sources, found: ${version:-none}"
fi
finish
