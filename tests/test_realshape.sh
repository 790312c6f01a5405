#!/bin/sh
# The released model's shapes, as BF16 and as 4-bit MLX: full-size checkpoints whose data are
# holes. inspect and pack --dry-run must give the byte counts of docs/format.md, in seconds, and a
# disk with too little room must be refused before anything is written.
set -eu
: "${CHERENKOV_BUILD:=build/release}" "${CHERENKOV_BIN:=$CHERENKOV_BUILD/cherenkov}"
dir=$(mktemp -d "${TMPDIR:-/tmp}/cherenkov-test-XXXXXX")
trap 'rm -rf "$dir"' EXIT
start=$(date +%s)

fail() {
    echo "FAILED: $1"
    exit 1
}

# has FILE LINE: FILE has a line that starts with LINE, blanks counted as one.
has() {
    tr -s ' ' <"$1" | grep -q -F -- "$2" || { cat "$1"; fail "want '$2'"; }
}

check() { # NAME LIST CONFIG ENCODING NORMS TENSORS BYTES VISION
    "$CHERENKOV_BUILD/tool_sparse" "tests/data/tensors/$2.tsv" "tests/data/vectors/$3" \
        "$dir/$1" >"$dir/log" || { cat "$dir/log"; fail "tool_sparse"; }
    "$CHERENKOV_BIN" pack --dry-run "$dir/$1" >"$dir/plan" 2>&1 || { cat "$dir/plan"; fail plan; }
    has "$dir/plan" "($4, $6 tensors, $7 bytes)"
    has "$dir/plan" "norms $5"
    has "$dir/plan" "dense.bin 2,930,271,040 bytes 2,491 tensors"
    has "$dir/plan" "experts.bin 69,466,062,848 bytes 49 layers of 512 records of 2,768,896 bytes"
    has "$dir/plan" "ngram.bin 32,000,153,600 bytes 320,001,536 rows of 100 bytes"
    has "$dir/plan" "total 104,396,487,488 bytes"
    has "$dir/plan" "tensors $8 vision, skipped"
    [ ! -e "$dir/$1/packed" ] || fail "--dry-run has written"
    "$CHERENKOV_BIN" inspect "$dir/$1" >"$dir/view" || fail inspect
    has "$dir/view" "packs to dense.bin 2,930,271,040 bytes"
    has "$dir/view" "model 48 layers (12 of attention), 1 draft, hidden 2560, vocabulary 248,320"
    ! grep -q -E '^(missing|unknown|unused|refused|undecided)' "$dir/view" || fail "problems"
}

check bf16 bf16 config.json BF16 raw: 1,658 359,999,963,128 333
check mlx4 mlx4-sawfwair config.mlx4.json "MLX 4-bit" folded: 3,817 104,741,817,208 501

free=$(df -Pk "$dir" | awk 'NR == 2 { print $4 }')
if [ "$free" -lt 100000000 ]; then
    status=0
    "$CHERENKOV_BIN" pack "$dir/mlx4" 2>"$dir/space" || status=$?
    [ "$status" = 1 ] || fail "status $status of a full disk"
    has "$dir/space" "want 104 GB for the store and a margin of 2.00 GB"
    [ ! -e "$dir/mlx4/packed" ] || fail "something was written"
else
    echo "note: the disk has room for the whole store, so that a lack of it is not tried"
fi

# A shard that is missing, and one that was cut, are named.
mv "$dir/mlx4/model-00077-of-00131.safetensors" "$dir/away"
status=0
"$CHERENKOV_BIN" inspect "$dir/mlx4" >"$dir/view" 2>&1 || status=$?
[ "$status" = 3 ] || fail "status $status without a shard"
has "$dir/view" "model-00077-of-00131.safetensors"
head -c 1000000 "$dir/away" >"$dir/mlx4/model-00077-of-00131.safetensors"
status=0
"$CHERENKOV_BIN" pack --dry-run "$dir/mlx4" >"$dir/view" 2>&1 || status=$?
[ "$status" = 3 ] || fail "status $status with a cut shard"
has "$dir/view" "model-00077-of-00131.safetensors"
echo "note: two checkpoints of full size in $(($(date +%s) - start)) s"
