#!/bin/sh
# CHERENKOV_DUMP and `cherenkov check` on the packed demonstration model: the reference engine
# equals itself and its own dump; another prompt or a damaged dump is found and named.
set -eu
: "${CHERENKOV_BIN:=build/release/cherenkov}"
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
n=0

# expect STATUS WORDS COMMAND...: its exit status, and words of its output.
expect() {
    want=$1 words=$2 rc=0
    shift 2
    "$@" >"$room/out" 2>&1 || rc=$?
    n=$((n + 1))
    if [ "$rc" != "$want" ] || ! grep -q -- "$words" "$room/out"; then
        echo "case $n: $*: status $rc, want $want; want '$words' in:"
        cat "$room/out"
        exit 1
    fi
}

store=$room/packed

check() {
    "$CHERENKOV_BIN" check "$store" --engine reference "$@"
}

dump() {
    CHERENKOV_DUMP="$room/dump" "$CHERENKOV_BIN" logits "$store" --engine reference "$@"
}

expect 0 '' "$CHERENKOV_BIN" pack models/demo --output "$store"
expect 0 '^equal$' check --against reference
expect 0 '^equal within the tolerance$' check --against cpu
expect 0 '^equal$' check --ids 3745,654,258,559 --tolerance 0 --against reference

# A sound engine and a small model: rounding was called a difference.
expect 0 '' "$CHERENKOV_BIN" pack tests/data/goldens/micro/mlx4 --output "$room/micro"
for ids in 7,7,7,7,7,7 1,2,3,4,5,6,7,8,9,10,11,12; do
    expect 0 'tolerance 0.7' "$CHERENKOV_BIN" check "$room/micro" --ids $ids --against cpu
done

expect 0 '' dump --ids 3745,654,258,559
expect 0 '^equal$' check --ids 3745,654,258,559 --against "$room/dump"
expect 0 '^equal$' check 'Once upon a' --against "$room/dump"
expect 4 'first: embed, position 2, element 0' \
    check --ids 3745,654,259 --against "$room/dump"
expect 3 'nothing to compare at position 4' \
    check --ids 3745,654,258,559,1 --against "$room/dump"
expect 2 'is there already' \
    dump --ids 1

head -c 5000 "$room/dump/dump.bin" >"$room/cut" && mv "$room/cut" "$room/dump/dump.bin"
expect 3 'was cut or damaged' check --ids 1 --against "$room/dump"
expect 3 'dump.bin' check --ids 1 --against "$room"
expect 2 'no engine .quantum' check --against quantum
expect 2 'exclude one another' check 'a b' --ids 1
expect 2 'token 1 has the id 9999' check --ids 1,9999
expect 3 'no such file' check nonsense
echo "cases: $n"
