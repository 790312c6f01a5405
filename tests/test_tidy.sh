#!/bin/sh
# The checkers of `make tidy` that need only sh, awk and git: this tree passes them, and each finds
# what it is for in a tree that breaks every rule once.
# Needs no build.
set -eu
here=$PWD
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
cases=0

for check in layers words ratchet; do
    tools/$check.sh >"$room/said" 2>&1 || {
        echo "tools/$check.sh on this tree:"
        cat "$room/said"
        exit 1
    }
    cases=$((cases + 1))
done

mkdir -p "$room/tree/src/base" "$room/tree/src/text" "$room/tree/src/cli" "$room/tree/include"
cp -r tools "$room/tree/"
cd "$room/tree"
git init -q .
touch Makefile include/cherenkov.h src/base/a.c

# Runs checker $1, which must fail and say the line $2; or, without $2, must be content.
check() {
    cases=$((cases + 1))
    rc=0
    "tools/$1.sh" >"$room/said" 2>&1 || rc=$?
    if [ -n "${2-}" ]; then
        [ $rc -eq 1 ] && grep -qF -- "$2" "$room/said" && return
        echo "tools/$1.sh (exit $rc) should have said: $2"
    else
        [ $rc -eq 0 ] && return
        echo "tools/$1.sh should be content (exit $rc)"
    fi
    cat "$room/said"
    exit 1
}
c() { # FILE, contents on standard input
    cat >"$1"
}

echo '#include "text/x.h"' | c src/base/a.c
check layers 'src/base/a.c:1: base/ may not include text/'
echo '#include "a.h"' | c src/base/a.c
check layers 'write "folder/file.h"'
echo '#include "base/a.h"' | c src/base/a.c
check layers
mkdir src/extra
echo 'int x;' >src/extra/x.c
check layers 'folder extra is not in tools/layers.txt'
rm -r src/extra
cp tools/layers.txt "$room/layers"
sed 's/^base:/base: text/' "$room/layers" >tools/layers.txt
check layers 'base names text, which is not a folder above it'
cp "$room/layers" tools/layers.txt

echo 'int f(void) { return getenv("x") != 0; }' | c src/text/a.c
check words 'src/text/a.c:1: getenv does not belong here'
printf '/* getenv(\n * malloc( */ char *s = "exit(1)"; // free(\nint x = o->open(1);\n' |
    c src/text/a.c
check words
echo 'void f(void) { exit(1); }' | c src/cli/a.c
check words
cp src/cli/a.c src/base/a.c
check words 'src/base/a.c:1: exit does not'
: >src/base/a.c

sed -i.bak '/^[a-z]/d' tools/ratchet.txt
check ratchet
{
    printf 'int f(int a, int b, void (*g)(int, int), int c, int d,\n      int e)\n{\n'
    yes '    x();' | head -n 66
    printf '}\n'
} >src/base/a.c
check ratchet # 70 lines, 6 parameters
sed -i.bak 's/^{$/{\n    x();/; s/int e)/int e, int h)/' src/base/a.c
check ratchet 'src/base/a.c:f: function of 71; the most is 70'
check ratchet 'src/base/a.c:f: parameters of 7; the most is 6'
printf 'function src/base/a.c:f 71\nparameters src/base/a.c:f 7\n' >>tools/ratchet.txt
check ratchet
sed -i.bak 's/^{$/{\n    x();/' src/base/a.c
check ratchet 'src/base/a.c:f: function has grown from 71 to 72'
sed -i.bak '4,9d' src/base/a.c
check ratchet 'src/base/a.c:f: is no longer too long: run tools/ratchet.sh --shrink'
tools/ratchet.sh --shrink || { echo "--shrink did not mend it"; exit 1; }
check ratchet
! grep -q '^function' tools/ratchet.txt || { echo "the exception is still there"; exit 1; }
yes 'int x;' | head -n 601 >src/base/a.c
sed -i.bak '/^parameters/d' tools/ratchet.txt
check ratchet
grep -q 'note: src/base/a.c has 601 lines' "$room/said" || { echo "no question asked"; exit 1; }
yes 'int x;' | head -n 1001 >src/base/a.c
check ratchet 'src/base/a.c: file of 1001; the most is 1000'
{ printf '/* '; yes 'é' | head -n 95 | tr -d '\n'; echo ' */'; } >src/base/a.c # 196 bytes
check ratchet 'src/base/a.c:1: line of 101; the most is 100'
cd "$here"
echo "cases: $cases"
