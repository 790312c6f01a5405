#!/bin/sh
# Runs the tests of one build from the project's root, a few at a time: every $B/test_STEM and
# tests/test_STEM.sh, or those of $T alone.
#
#   B=build/release   the build          T=stem    one test          J=2    how many at once
#   LIMIT=120         seconds a test may take: one that hangs has failed
#   WRAP=1            run test programs under valgrind (scripts are left out)
#
# A test exits 0 (passed), 77 (skipped: its last line says why) or anything else (failed). Its
# output is kept whole and shown when it fails; lines that begin with note:, seed: or worst: are
# always shown. The last line printed is "N passed, N failed, N skipped"; the exit status is 1 if
# anything failed or nothing ran. A script with the line "# Needs no build." and a test with the
# line "Runs in release alone." (what takes long, and runs code that other tests run too) do that,
# unless $T names them.
set -u
: "${B:=build/release}" "${T:=}" "${WRAP:=}"
export B WRAP CHERENKOV_BIN="$B/cherenkov" CHERENKOV_BUILD="$B"

# Sanitizers and valgrind are slow, and so is a machine that does other things.
case $B$WRAP in
*/asan | */tsan | */ubsan | */cov) : "${LIMIT:=400}" ;;
*1) : "${LIMIT:=900}" ;;
esac
: "${LIMIT:=300}"
export LIMIT
export LSAN_OPTIONS="suppressions=$PWD/tools/leaks.txt:print_suppressions=0"

valgrind_words="valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite"

# One test: leaves its result in $DIR/NAME.STATUS, and says which file holds its lines. One process
# then shows the lines of all: two that write to one file at a time can mix lines, or write over
# each other's (cat copies by copy_file_range, which moves a shared offset without a lock).
run_one() {
    t=$1 name=$(basename "$1" .sh)
    log=$DIR/$name.log
    limit="timeout -k 10 $LIMIT"
    command -v timeout >/dev/null || limit=""
    wrap=""
    [ -z "$WRAP" ] || wrap=$valgrind_words
    start=$(date +%s)
    # shellcheck disable=SC2086 # words
    $limit $wrap "$t" >"$log" 2>&1 </dev/null
    rc=$?
    took=$(($(date +%s) - start))
    cases=$(grep -c '^\[       OK \]' "$log")
    [ "$cases" -gt 0 ] || cases=$(sed -n 's/^cases: \([0-9][0-9]*\)$/\1/p' "$log" | tail -n 1)
    case $rc in
    0)
        echo "${cases:-1}" >"$DIR/$name.passed"
        text="ok    $name (${cases:-1} cases, ${took}s)
$(grep -E '^(note|seed|worst):' "$log" | sed 's/^/      /')"
        ;;
    77)
        : >"$DIR/$name.skipped"
        text="skip  $name: $(tail -n 1 "$log")"
        ;;
    *)
        : >"$DIR/$name.failed"
        why="exit $rc"
        [ $rc -ne 124 ] && [ $rc -ne 137 ] || why="stopped after $LIMIT s"
        text="FAIL  $name ($why)
$(tail -n 80 "$log" | sed 's/^/      /')"
        ;;
    esac
    printf '%s\n' "$text" | sed '/^$/d' >"$log.shown"
    echo "$log.shown"
}

release_alone='^(#| \*) (Needs no build|Runs in release alone)\.'
list() { # the scripts first: the longest are among them, and should not be what is left at the end
    for t in tests/test_*.sh "$B"/test_*; do
        case $t in *.o | *.d | *'*'*) continue ;; esac
        case $t in
        tests/*) source=$t ;;
        *) source=tests/$(basename "$t").c ;;
        esac
        [ -f "$source" ] || continue # left over from a test that was renamed
        [ -z "$WRAP" ] || [ "$source" != "$t" ] || continue
        case $B in
        */release) ;;
        *) [ -n "$T" ] || ! grep -q -E "$release_alone" "$source" || continue ;;
        esac
        [ -z "$T" ] || [ "$(basename "$t" .sh)" = "test_$T" ] || continue
        echo "$t"
    done
}

if [ "${1:-}" = --one ]; then
    run_one "$2"
    exit 0
fi

DIR=$(mktemp -d) || exit 1
export DIR
trap 'rm -rf "$DIR"' EXIT
trap 'exit 130' INT TERM
: "${J:=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}"
start=$(date +%s)
list | xargs -r -P "$J" -n 1 "$0" --one | xargs -r -n 1 cat
count() {
    ls "$DIR" | grep -c "\.$1$"
}
passed=$(count passed) failed=$(count failed) skipped=$(count skipped)
cases=$(cat "$DIR"/*.passed 2>/dev/null | awk '{ n += $1 } END { print n + 0 }')
echo
for t in "$DIR"/*.failed; do
    [ ! -f "$t" ] || echo "failed: $(basename "$t" .failed)"
done
ran=$((passed + failed + skipped))
[ $ran -gt 0 ] || echo "no test of $B is called '$T'"
echo "$ran programs, $cases cases passed, $(($(date +%s) - start)) s"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ $ran -gt 0 ]
