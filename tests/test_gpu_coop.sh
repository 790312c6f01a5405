#!/bin/sh
# The kept SPIR-V of src/gpu/coop is that of its sources; a source that has changed is noticed, also
# one that is only included.
# Needs no build.
set -eu
tools/coop.sh
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
mkdir -p "$room/tools" "$room/src"
cp -R src/gpu "$room/src/gpu"
cp tools/coop.sh "$room/tools"
"$room/tools/coop.sh"
cases=2
for f in tile.glsl params_linear.h coop/linear_coop.spv; do
    cp "src/gpu/$f" "$room/kept"
    echo "// changed" >>"$room/src/gpu/$f"
    ! "$room/tools/coop.sh" >"$room/said" || { echo "$f changed, and nobody noticed"; exit 1; }
    grep -q 'linear_coop.spv was not made from' "$room/said"
    cp "$room/kept" "$room/src/gpu/$f"
    cases=$((cases + 1))
done
echo "cases: $cases"
