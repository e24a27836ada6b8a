#!/usr/bin/env bash
# Prints a man page with its OPTIONS section made anew from the command's own --help.
#
#   tools/man_options.sh COMMAND PAGE
set -eu
help=$("$1" --help)
options=$(sed -nE 's/^  (--[a-z0-9-]+)((=|\[=|  ?| )[^ ]+)?( B)?  +(.*)$/\1|\2\4|\5/p; t
    s/^  (--[a-z0-9-]+)( [^ ]+)? (.*)$/\1|\2|\3/p' <<<"$help" | sed -E 's/\\/\\e/g; s/-/\\-/g' |
    awk -F'|' '{ argument = $2; sub(/^ +/, "", argument); text = $0; sub(/^[^|]*\|[^|]*\|/, "", text)
        printf ".TP\n"
        if (argument == "") printf ".B %s\n", $1; else printf ".BR %s \" %s\"\n", $1, argument
        print text "." }')
awk -v options="${options//\\/\\\\}" '/^\.SH OPTIONS/ { print; print options; skip = 1; next } /^\.SH / { skip = 0 } !skip' "$2"
