#!/usr/bin/env bash
# `make install` and `make uninstall`: one list of files serves both.
#
#   DESTDIR= PREFIX= VERSION= SOVERSION= BUILD= tools/install.sh install|uninstall
set -eu
cd "$(dirname "$0")/.."
root=${DESTDIR:-}$PREFIX

place() { # MODE FROM TO-FOLDER [NAME]
    local target=$root/$3/${4:-$(basename "$2")}
    if [[ $action == install ]]; then
        install -D -m "$1" "$2" "$target"
    else
        rm -f "$target"
    fi
}

link() { # NAME TARGET
    if [[ $action == install ]]; then
        ln -sf "$2" "$root/lib/$1"
    else
        rm -f "$root/lib/$1"
    fi
}

action=${1:-}
case $action in install | uninstall) ;; *)
    echo "usage: install.sh install|uninstall" >&2
    exit 2
    ;;
esac
sed -e "s|@PREFIX@|$PREFIX|" -e "s|@VERSION@|$VERSION|" tools/grs.pc.in >"$BUILD/grs.pc"

place 755 "$BUILD/grsgen" bin
place 755 "$BUILD/grsrun" bin
place 644 include/grs.h include
place 644 "$BUILD/libgrs.a" lib
place 755 "$BUILD/libgrs.so.$VERSION" lib
link "libgrs.so.$SOVERSION" "libgrs.so.$VERSION"
link libgrs.so "libgrs.so.$SOVERSION"
place 644 "$BUILD/grs.pc" lib/pkgconfig
for file in configs/*.yaml; do place 644 "$file" share/grs/configs; done
place 644 docs/config.schema.json share/grs
for file in man/*.[1-9]; do
    if [[ -e $file ]]; then place 644 "$file" "share/man/man${file##*.}"; fi
done
place 644 tools/completions/grs.bash share/bash-completion/completions grsgen
place 644 tools/completions/grs.bash share/bash-completion/completions grsrun
place 644 tools/completions/_grs share/zsh/site-functions _grs
place 644 tools/completions/grs.fish share/fish/vendor_completions.d grsgen.fish
place 644 tools/completions/grs.fish share/fish/vendor_completions.d grsrun.fish
for file in README.md CHANGELOG.md LICENSE docs/*.md; do place 644 "$file" share/doc/grs; done
for file in examples/*; do place 644 "$file" share/doc/grs/examples; done
if [[ $action == uninstall ]]; then
    for folder in share/grs/configs share/grs share/doc/grs/examples share/doc/grs; do
        rmdir "$root/$folder" 2>/dev/null || true
    done
fi
