#!/bin/sh
# The manual page with its section FLAGS made again from what `cherenkov help COMMAND` says.
set -eu
cd "$(dirname "$0")/.."
: "${B:=build/release}"
page=docs/cherenkov.1
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

commands=$("$B/cherenkov" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
for c in $commands; do
    "$B/cherenkov" help "$c" | grep '^  --' >"$room/$c" || :
done

# Those that run, serve and logits share word for word belong to every command that runs a model.
grep -Fxf "$room/serve" "$room/run" | grep -Fxf "$room/logits" >"$room/common"

# "  --name ARG   text" as an entry of a list.
entries() {
    awk '{
        name = $1; text = substr($0, 3 + length(name)); arg = ""
        if (text ~ /^ [^ ]/) { arg = " " $2; text = substr(text, 1 + length(arg)) }
        sub(/^ */, "", text)
        gsub(/-/, "\\-", name); gsub(/-/, "\\-", arg); gsub(/--/, "\\-\\-", text)
        print ".TP"
        print arg == "" ? ".B " name : ".BI " name " \"" arg "\""
        print text
    }'
}

{
    echo '.SS Of every command that runs a model'
    entries <"$room/common"
    for c in $commands; do
        grep -vFxf "$room/common" "$room/$c" >"$room/own" || continue
        echo ".SS $c"
        entries <"$room/own"
    done
} >"$room/flags"

awk -v flags="$room/flags" '
    /^\.SH/ { skip = 0 }
    !skip { print }
    /^\.SH FLAGS/ { while ((getline line < flags) > 0) print line; skip = 1 }' "$page"
