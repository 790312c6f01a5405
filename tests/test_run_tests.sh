#!/bin/sh
# tools/run-tests.sh: counts, statuses, skips, hangs, and output that stays together.
# Needs no build.
set -eu
here=$PWD
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
mkdir "$room/tools" "$room/tests" "$room/b"
cp tools/run-tests.sh "$room/tools/"
cd "$room"

write() { # NAME, with the script's body on standard input
    { echo '#!/bin/sh'; cat; } >"tests/test_$1.sh"
    chmod +x "tests/test_$1.sh"
}
# Runs the runner for the test named $1, or all; its output goes to said, its status to $rc.
run() {
    rc=0
    B=b T="${1:-}" J=3 LIMIT=3 WRAP="" tools/run-tests.sh >said 2>&1 || rc=$?
}
cases=0
want() { # a line that must be there; seconds are written Ns
    cases=$((cases + 1))
    sed 's/ [0-9][0-9]*s)$/ Ns)/' said | grep -qxF -- "$1" && return
    echo "no line '$1' in:"
    cat said
    exit 1
}
status() {
    cases=$((cases + 1))
    [ $rc -eq "$1" ] || { echo "exit $rc, want $1:"; cat said; exit 1; }
}

run
status 1
want "0 passed, 0 failed, 0 skipped"

echo 'echo "note: seen"; echo unseen' | write good
echo 'echo "cases: 12"; cat' | write counted # standard input is empty: this ends
echo 'echo because; exit 77' | write absent
run
status 0
want "ok    test_good (1 cases, Ns)"
want "      note: seen"
want "ok    test_counted (12 cases, Ns)"
want "skip  test_absent: because"
want "2 passed, 0 failed, 1 skipped"
! grep -q unseen said || { echo "the output of a test that passed was shown"; exit 1; }

echo 'echo the reason; exit 3' | write bad
echo 'sleep 60' | write hangs
echo 'kill -SEGV $$' | write dies
run
status 1
want "FAIL  test_bad (exit 3)"
want "      the reason"
want "FAIL  test_hangs (stopped after 3 s)"
grep -q '^FAIL  test_dies (exit 1[0-9][0-9])$' said || { cat said; exit 1; }
want "failed: test_bad"
[ "$(tail -n 1 said)" = "2 passed, 3 failed, 1 skipped" ] || { cat said; exit 1; }

rm tests/test_hangs.sh
run counted
status 0
[ "$(tail -n 1 said)" = "1 passed, 0 failed, 0 skipped" ] || { cat said; exit 1; }
run absent
status 0
run nothing
status 1
want "no test of b is called 'nothing'"

# A program is run only while its source is there, and cmocka's cases are counted.
printf '#!/bin/sh\necho "[       OK ] a"\necho "[       OK ] b"\n' >b/test_c
chmod +x b/test_c
run c
status 1
touch tests/test_c.c
run c
want "ok    test_c (2 cases, Ns)"

# Three tests at once, each with many lines when it fails: the lines of one stay together.
rm tests/* b/*
for t in x y z; do
    echo "for i in 1 2 3 4 5 6 7 8 9; do echo $t; sleep 0.0\$i; done; exit 1" | write $t
done
run
[ "$(grep -x '      [xyz]' said | uniq | wc -l)" -eq 3 ] || { cat said; exit 1; }
cd "$here"
echo "cases: $cases"
