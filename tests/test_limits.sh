#!/bin/sh
# The program where the system gives it less than it wants: standard streams that are closed, files
# that may not grow, few descriptors, little memory, and a terminal that hangs up.
set -eu
: "${CHERENKOV_BIN:=build/release/cherenkov}"
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
n=0

fail() {
    echo "$1: status $rc"
    cat "$room/err"
    exit 1
}

# try COMMANDS: runs them in a shell of their own; the status goes to rc, their words to $room/err.
try() {
    rc=0 n=$((n + 1))
    sh -c "$1" >"$room/out" 2>"$room/err" </dev/null || rc=$?
}

store=$room/packed ids=$room/rows.f32
try "$CHERENKOV_BIN pack models/demo --output $store"
[ $rc = 0 ] || fail "pack"

# A file that was opened first got the number of a closed stream, and messages were written into
# it: the dump of a run with 2>&- held a line of figures.
for closed in '' '2>&-' '<&-' '<&- 2>&-'; do
    rm -rf "$room/dump"
    try "CHERENKOV_DUMP=$room/dump $CHERENKOV_BIN logits $store --ids 3745,654,258 $closed"
    [ $rc = 0 ] || fail "logits $closed"
    [ -n "$closed" ] || cp "$room/dump/dump.bin" "$room/whole"
    cmp "$room/dump/dump.bin" "$room/whole"
done
try "$CHERENKOV_BIN logits $store --ids 1 >&-"
[ $rc = 1 ] && grep -q 'writing to standard output failed' "$room/err" || fail "closed output"
try "$CHERENKOV_BIN run $store - <&-"
[ $rc = 1 ] && grep -q 'reading standard input failed' "$room/err" || fail "closed input"

# The signal of ulimit -f ended every command but pack without a word, and left half a file.
try "ulimit -f 20; $CHERENKOV_BIN logits $store --ids 1,2,3,4 --f32 $ids"
[ $rc = 1 ] && grep -q 'File too large' "$room/err" && [ ! -e "$ids" ] || fail "file size"

# Too few descriptors for checksums.bin are no damage to the store.
found=0
for most in 4 5 6 7 8 9 10 12 16 32; do
    try "ulimit -n $most; exec $CHERENKOV_BIN verify $store"
    case $rc in
    0) found=$most && break ;;
    1 | 127) ;; # 127: the libraries could not be loaded
    *) fail "verify with $most descriptors" ;;
    esac
done
[ $found != 0 ] || fail "verify with 32 descriptors"

# Little memory: "no memory for 9437184 bytes" was all that one was told.
try "ulimit -v 60000; $CHERENKOV_BIN run $store x"
advice='this process may map 61.4 MB at most: raise that (ulimit -v), or ask for less (--memory'
grep -q -e "$advice" -e Sanitizer "$room/err" || fail "run in 60 MB" # a sanitizer maps terabytes

# A file that was cut while it was mapped ended the program by SIGBUS, without a word.
cut="truncate -s 4096 $store/experts.bin"
try "(echo Hello; until [ -s $room/told ]; do sleep 0.02; done; $cut; echo Again) |
    $CHERENKOV_BIN chat $store --engine cpu --pool map --max-tokens 3 >$room/told"
[ $rc = 1 ] && grep -q "error: $store/experts.bin: shrank, or its disk failed" "$room/err" ||
    fail "cut while mapped"
try "$CHERENKOV_BIN run $store x --pool map"
[ $rc = 3 ] && grep -q "experts.bin: has 4096 bytes, want" "$room/err" || fail "cut before"

echo "cases: $n"
