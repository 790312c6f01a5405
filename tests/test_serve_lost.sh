#!/bin/sh
# A server whose GPU is lost: the request that it happened to fails by that name, the engine is
# opened again, and the next request is answered as the first one was.
# Runs in release alone.
set -u
: "${CHERENKOV_BUILD:=build/release}" "${CHERENKOV_BIN:=$CHERENKOV_BUILD/cherenkov}"
command -v curl >/dev/null || { echo "there is no curl"; exit 77; }
export CHERENKOV_DEVICE=software
"$CHERENKOV_BIN" devices 2>/dev/null | grep -q -i -E 'software|cpu|llvmpipe' || {
    echo "there is no software device"
    exit 77
}
dir=$(mktemp -d "${TMPDIR:-/tmp}/cherenkov-test-XXXXXX")
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$dir"' EXIT

fail() {
    echo "FAILED: $1"
    cat "$dir/log"
    exit 1
}

"$CHERENKOV_BIN" pack models/demo --output "$dir/demo" 2>/dev/null
CHERENKOV_DEVICE_FAULT=lost:12 "$CHERENKOV_BIN" serve "$dir/demo" --engine gpu --sequences 1 \
    --drafts 0 --listen 127.0.0.1:0 --no-ranking 2>"$dir/log" &
server=$!
until grep -q 'cherenkov: ready' "$dir/log"; do
    kill -0 "$server" || fail "no server"
    sleep 0.1
done
url=$(sed -n 's/.*listening on \(http[^;]*\);.*/\1/p' "$dir/log")

# What is said, or why not.
ask() {
    curl -sS "$url/v1/completions" \
        -d '{"prompt": "Once upon a time", "max_tokens": 3, "temperature": 0}' |
        sed -n 's/.*"text":"\([^"]*\)".*/\1/p; s/.*"message":"\([^"]*\)".*/\1/p'
}

want=$(ask) lost=
for _ in 1 2 3 4 5 6; do
    lost=$(ask)
    [ "$lost" = "$want" ] || break
done
case $lost in
*'the device is lost'*) ;;
*) fail "want the loss of the device, found '$lost'" ;;
esac
got=$(ask)
[ -n "$want" ] && [ "$got" = "$want" ] || fail "want '$want', found '$got'"
grep -q 'engine gpu was lost, and was opened again' "$dir/log" || fail "nothing was said of it"
echo "note: $lost"
