#!/bin/sh
# The tests of what kernels do, once for each tier of this processor, masked as a user masks it.
set -eu
: "${CHERENKOV_BUILD:=build/release}"
for stem in kern kern_float; do
    [ -x "$CHERENKOV_BUILD/test_$stem" ] || { echo "test_$stem is not built: make tests"; exit 77; }
done
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
n=0 ran=""
for tier in ref avx2 avx512 neon; do
    # A processor without the tier says so by name, at the first kernel.
    if ! CHERENKOV_CPU=$tier "$CHERENKOV_BUILD/test_kern" >"$room/said" 2>&1; then
        grep -q "this processor has no $tier" "$room/said" && continue
        cat "$room/said"
        exit 1
    fi
    CHERENKOV_CPU=$tier "$CHERENKOV_BUILD/test_kern_float" >"$room/float" 2>&1 ||
        { cat "$room/float"; exit 1; }
    ran="$ran $tier"
    n=$((n + $(cat "$room/said" "$room/float" | grep -c '^\[       OK \]')))
done
echo "note: tiers of this processor:$ran"
case $ran in *ref*) ;; *) exit 1 ;; esac
echo "cases: $n"
