#!/bin/sh
# Runs build/CONFIG/test_* (or test_$T alone) one after another from the project's root.
# A test program exits 0 (passed), 77 (skipped, its last line says why) or anything else (failed).
# The last line printed is "N passed, N failed, N skipped"; the exit status is 1 if anything failed.
set -u
: "${B:=build/release}"
passed=0 failed=0 skipped=0
export CHERENKOV_BIN="$B/cherenkov" CHERENKOV_BUILD="$B"
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
for t in ${T:+"$B/test_$T"} $([ -n "${T:-}" ] || ls "$B"/test_* tests/test_*.sh 2>/dev/null); do
    case "$t" in *.o|*.d) continue ;; esac
    name=$(basename "$t" .sh)
    [ -x "$t" ] || [ -f "tests/$name.sh" ] && [ ! -x "$t" ] && t="tests/$name.sh"
    start=$(date +%s)
    "$t" >"$log" 2>&1
    rc=$?
    took=$(( $(date +%s) - start ))
    case $rc in
    0) passed=$((passed + 1)); echo "ok    $name (${took}s)"; grep -E '^(note|seed|worst):' "$log" | sed 's/^/      /' ;;
    77) skipped=$((skipped + 1)); echo "skip  $name: $(tail -n 1 "$log")" ;;
    *) failed=$((failed + 1)); echo "FAIL  $name (exit $rc)"; tail -n 60 "$log" | sed 's/^/      /' ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
