#!/usr/bin/env bash
# `make install` gives a tree that a package could hold: header, libraries with their links, pkg-config file, commands, man
# pages; a program builds against it; `make uninstall` takes all of it away again.
# shellcheck disable=SC2317 # functions are called by name, through check
set -u
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/tap.sh"
stage=$TMP/stage
prefix=/opt/grs
there=$stage$prefix

install_it() { make -s --no-print-directory BUILD="$BUILD" DESTDIR="$stage" PREFIX=$prefix install; }
everything_is_there() {
    local file
    for file in bin/grsgen bin/grsrun include/grs.h lib/libgrs.a lib/libgrs.so lib/libgrs.so.0 lib/libgrs.so.0.1.0 \
        lib/pkgconfig/grs.pc share/grs/config.schema.json share/grs/configs/h200.yaml share/doc/grs/config.md share/doc/grs/examples/one_process.c \
        share/bash-completion/completions/grsgen share/zsh/site-functions/_grs share/fish/vendor_completions.d/grsgen.fish \
        share/man/man1/grsgen.1 share/man/man1/grsrun.1 share/man/man3/libgrs.3; do
        [[ -s $there/$file ]] || { echo "$file is missing or empty"; return 1; }
    done
    [[ $(readlink "$there/lib/libgrs.so") == libgrs.so.0 && $(readlink "$there/lib/libgrs.so.0") == libgrs.so.0.1.0 ]]
}

header_alone_c() { printf '#include <grs.h>\nint x;\n' | gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$there/include" -fsyntax-only -xc -; }
header_alone_cxx() {
    printf '#include <grs.h>\nint main() { grs_ctx_options o{}; o.size = sizeof o; return o.sms; }\n' |
        g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -I"$there/include" -fsyntax-only -xc++ -
}

program() {
    cat >"$TMP/program.c" <<'END'
#include <grs.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    int64_t first, count;
    grs_rows(1023, 8, 7, &first, &count);
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    options.config_path = "/nonexistent.yaml";
    grs_ctx *ctx = (grs_ctx *)&options;
    grs_error err;
    grs_status status = grs_ctx_open(&options, &ctx, &err);
    printf("%s %lld %lld %s %d\n", grs_version(), (long long)first, (long long)count, grs_status_name(status), ctx == NULL);
    return strstr(err.text, "/nonexistent.yaml") == NULL;
}
END
    export PKG_CONFIG_PATH=$there/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$stage
    # shellcheck disable=SC2046 # flags are words
    gcc -std=c11 -Wall -Wextra -Werror "$TMP/program.c" -o "$TMP/program" $(pkg-config --cflags --libs grs) || return 1
    LD_LIBRARY_PATH=$there/lib "$TMP/program" | tee "$TMP/said" && grep -qE '^0\.1\.0 .* 896 127 GRS_ERR_IO 1$' "$TMP/said" || return 1
    # and the static library
    # shellcheck disable=SC2046
    gcc -std=c11 "$TMP/program.c" -o "$TMP/static" $(pkg-config --cflags grs) "$there/lib/libgrs.a" \
        $(pkg-config --static --libs grs | tr ' ' '\n' | grep -vE '^-L|^-lgrs$') && "$TMP/static" >/dev/null
}

# Executables carry what is not glibc's (or the C++ compiler's part of it).
commands_need_only_glibc() {
    local command bad=0
    for command in grsgen grsrun; do
        if readelf -d "$there/bin/$command" | grep NEEDED | grep -vE '\[(libc|libm|libdl|libpthread|ld-linux[a-z0-9-]*)\.so'; then
            echo "of $command"
            bad=1
        fi
    done
    return "$bad"
}
installed_command_runs() { (cd / && "$there/bin/grsgen" --config "$there/share/grs/configs/h200.yaml" --check); }

pages_name_every_option() {
    local command call bad=0
    for command in grsgen grsrun; do
        tools/man_options.sh "$BUILD/$command" "man/$command.1" | diff "man/$command.1" - ||
            { echo "man/$command.1 is not current: make docs"; bad=1; }
    done
    for call in $(tr '\n' ' ' <include/grs.h | grep -oE 'GRS_API [^;#]*;' | sed -E 's/\(.*//; s/.*[ *]//'); do
        grep -qE "\\b$call\\b" man/libgrs.3 || { echo "man/libgrs.3 lacks $call"; bad=1; }
    done
    return "$bad"
}
pages_format() {
    local page
    for page in man/*.[13]; do
        groff -man -Tutf8 -ww "$page" >/dev/null 2>"$TMP/groff" && [[ ! -s $TMP/groff ]] || { cat "$TMP/groff"; return 1; }
    done
}
completion() {
    # shellcheck disable=SC2016 # for the other shell
    PATH=$there/bin:$PATH bash -c '. "$1"; COMP_WORDS=(grsgen --ex); COMP_CWORD=1; _grs grsgen; echo "${COMPREPLY[@]}"' \
        bash tools/completions/grs.bash | grep -qx -e --explain
}

uninstall_it() {
    make -s --no-print-directory BUILD="$BUILD" DESTDIR="$stage" PREFIX=$prefix uninstall || return 1
    [[ -z $(find "$stage" -type f -o -type l) ]] || { find "$stage" -type f -o -type l; return 1; }
}

check "make install" install_it
check "everything is there" everything_is_there
check "the header compiles alone in C11" header_alone_c
check "the header compiles alone in C++17" header_alone_cxx
check "a program builds with pkg-config and runs" program
check "commands need glibc alone" commands_need_only_glibc
check "the installed command runs from elsewhere" installed_command_runs
check "man pages name every option and call" pages_name_every_option
if command -v groff >/dev/null; then check "man pages format without warnings" pages_format; else skip "man pages format without warnings" "groff was not found"; fi
check "bash completion" completion
check "make uninstall" uninstall_it
finish
