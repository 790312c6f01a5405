#!/bin/sh
# tests/example.c, which uses nothing but cherenkov.h, built with the library and run.
set -eu
: "${CHERENKOV_BUILD:=build/release}" "${CHERENKOV_BIN:=build/release/cherenkov}"
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
config=${CHERENKOV_BUILD#build/}
case $config in
release | debug) ;;
*)
    echo "this library needs its sanitizer's flags, which a user's program does not have"
    exit 77
    ;;
esac
uring=$(pkg-config --exists liburing && echo liburing || true)
# shellcheck disable=SC2086
libs=$(pkg-config --libs jansson libpcre2-8 libutf8proc libxxhash $uring)
# shellcheck disable=SC2086
cc -std=c11 -Wall -Wextra -Werror -Iinclude tests/example.c "$CHERENKOV_BUILD/libcherenkov.a" \
    $libs -lpthread -lm -o "$room/example"
"$CHERENKOV_BIN" pack models/demo --output "$room/packed" >"$room/log" 2>&1 || {
    cat "$room/log"
    exit 1
}

"$room/example" "$room/packed" 'Hello!' >"$room/out"
echo 'Hello! Shall I tell you a story?' | diff - "$room/out"
rc=0
"$room/example" "$room/nothing" 'Hello!' >"$room/out" 2>&1 || rc=$?
[ "$rc" = 1 ] && grep -q "opening the store: .*$room/nothing" "$room/out"
rc=0
printf '\377' | xargs -0 "$room/example" "$room/packed" >"$room/out" 2>&1 || rc=$?
[ "$rc" != 0 ] && grep -q "feeding the question: .*UTF-8" "$room/out"
echo "cases: 3"
