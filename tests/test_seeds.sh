#!/bin/sh
# Every fuzz target survives its seeds, and the crashes that fuzzing has left among them, in this
# build.
set -u
: "${CHERENKOV_BUILD:=build/release}"
targets=0 inputs=0
for source in fuzz/fuzz_*.c; do
    [ -f "$source" ] || continue
    stem=$(basename "$source" .c)
    stem=${stem#fuzz_}
    seeds=fuzz/seeds/$stem
    [ -d "$seeds" ] || { echo "$source has no seeds: put some into $seeds"; exit 1; }
    said=$("$CHERENKOV_BUILD/replay_$stem" "$seeds" 2>&1) || { echo "$stem: $said"; exit 1; }
    targets=$((targets + 1))
    inputs=$((inputs + ${said%% *}))
done
[ $targets -gt 0 ] || { echo "no fuzz targets yet"; exit 77; }
echo "cases: $targets"
echo "note: $inputs inputs over $targets fuzz targets"
