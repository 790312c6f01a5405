#!/bin/sh
# Runs the measuring programs bench/bench_STEM (and scripts bench/bench_STEM.sh) of build $B, or
# those of $T, one after another: nothing else should run on the machine meanwhile. Says what
# machine it is.
set -u
: "${B:=build/release}" "${T:=}"
export CHERENKOV_BIN="$B/cherenkov" CHERENKOV_BUILD="$B"
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
echo "machine: ${cpu:-$(uname -m)}, $(getconf _NPROCESSORS_ONLN) processors; $(uname -sr)"
echo "revision: $("$B/cherenkov" version)"
ran=0 failed=0
for source in bench/bench_*.c bench/bench_*.sh; do
    [ -f "$source" ] || continue
    name=$(basename "${source%.*}")
    [ -z "$T" ] || [ "$name" = "bench_$T" ] || continue
    program=$source
    [ "${source%.c}" = "$source" ] || program=$B/$name
    echo
    echo "== $name"
    "$program" || failed=$((failed + 1))
    ran=$((ran + 1))
done
[ $ran -gt 0 ] || echo "no bench is called '$T'"
[ $ran -gt 0 ] && [ $failed -eq 0 ]
