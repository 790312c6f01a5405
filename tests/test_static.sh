#!/bin/sh
# No name of ours is one of a library that we link. It was: utf8_encode was jansson's too, which a
# shared library keeps to itself and a static one does not, so that neither the program nor one that
# uses the library could be linked statically.
set -eu
: "${CHERENKOV_BUILD:=build/release}"
libs="jansson pcre2-8 utf8proc xxhash edit uring microhttpd config ncurses tinfo"
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

names() {
    nm -g --defined-only "$1" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u
}

names "$CHERENKOV_BUILD/internal.a" >"$room/ours"
[ "$(wc -l <"$room/ours")" -gt 500 ] || { echo "internal.a has hardly any names"; exit 1; }
compared=0 clash=0
for lib in $libs; do
    archive=$(cc -print-file-name="lib$lib.a")
    case $archive in */*) ;; *) continue ;; esac
    names "$archive" >"$room/theirs"
    [ -s "$room/theirs" ] || { echo "$archive: no names found"; exit 1; }
    compared=$((compared + 1))
    if comm -12 "$room/ours" "$room/theirs" | grep .; then
        echo "names of ours are names of lib$lib"
        clash=1
    fi
done
[ $compared -gt 0 ] || { echo "no static library is installed"; exit 77; }
[ $clash = 0 ] || exit 1
echo "note: names compared with those of $compared libraries"

# Sanitized objects need their runtime's flags.
case $CHERENKOV_BUILD in */release | */debug) ;; *) echo "cases: 1"; exit 0 ;; esac
static() {
    pkg-config --libs jansson libpcre2-8 libutf8proc libxxhash libedit libmicrohttpd libconfig |
        sed 's/-ljansson/-l:libjansson.a/'
    [ ! -e "$(cc -print-file-name=liburing.so)" ] || echo -luring
    ! pkg-config --exists ncurses || pkg-config --libs ncurses
}
# shellcheck disable=SC2046 # words
cc "$CHERENKOV_BUILD/src/cli/main.o" "$CHERENKOV_BUILD/internal.a" $(static) -lm -lpthread \
    -o "$room/program"
"$room/program" version >/dev/null
# shellcheck disable=SC2046
cc -Iinclude tests/example.c "$CHERENKOV_BUILD/libcherenkov.a" $(static) -lm -lpthread \
    -o "$room/example"
echo "cases: 3"
