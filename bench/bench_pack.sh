#!/bin/sh
# Packing beside a plain copy of the same files, in one run: two layers of the released model's
# shapes (2.6 GB of 4-bit MLX with 256 experts a layer, 3.9 GB of BF16 with 64), written to
# ${BENCH_DIR:-$TMPDIR} and synced, ROUNDS times each and in turn, since disks have moods: the last
# line of each kind compares the sums. With COLD=1 (root) the page cache is dropped before each
# measurement. The aim is at least 0.7 of the copy for the bit-exact path.
set -eu
: "${CHERENKOV_BUILD:=build/release}" "${CHERENKOV_BIN:=$CHERENKOV_BUILD/cherenkov}"
: "${COLD:=0}" "${ROUNDS:=5}"
dir=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/cherenkov-bench-XXXXXX")
trap 'rm -rf "$dir"' EXIT
echo "disk: $(df -h "$dir" | awk 'NR == 2 { print $1 ", " $4 " free" }')"

now() { date +%s.%N; }
sum() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a + b }'; }
settle() {
    sync
    [ "$COLD" = 0 ] || echo 3 >/proc/sys/vm/drop_caches
}

compare() { # NAME BYTES COPY_SECONDS PACK_SECONDS
    awk -v name="$1" -v n="$2" -v copy="$3" -v pack="$4" 'BEGIN {
        printf "%s: copy %.2f GB in %.1f s, %.2f GB/s; pack %.1f s, %.2f GB/s of source: " \
               "%.2f of the copy\n", name, n / 1e9, copy, n / 1e9 / copy, pack, n / 1e9 / pack,
               copy / pack }'
}

measure() { # NAME SOURCE
    bytes=$(cat "$2"/*.safetensors | wc -c)
    copies=0 packs=0
    for round in $(seq "$ROUNDS"); do
        settle
        mkdir "$dir/copy"
        a=$(now)
        cp "$2"/*.safetensors "$dir/copy"
        sync "$dir"/copy/*
        b=$(now)
        rm -rf "$dir/copy"
        settle
        c=$(now)
        "$CHERENKOV_BIN" pack "$2" --output "$dir/store" 2>"$dir/log"
        d=$(now)
        copy=$(sum "$b" "-$a") pack=$(sum "$d" "-$c")
        copies=$(sum "$copies" "$copy") packs=$(sum "$packs" "$pack")
        compare "$1, round $round" "$bytes" "$copy" "$pack"
        [ "$round" != "$ROUNDS" ] || "$CHERENKOV_BIN" verify "$dir/store" 2>&1 | tail -n 1
        rm -rf "$dir/store"
    done
    compare "$1, all rounds" "$((bytes * ROUNDS))" "$copies" "$packs"
    tail -n 1 "$dir/log"
}

source() { # FORM KEY=NUMBER...
    form=$1
    shift
    "$CHERENKOV_BUILD/tool_source" tests/data/vectors/config.json "$dir/source" "$form+nomtp" 4 \
        num_hidden_layers=2 ngram_vocab_size_base=200000 "$@"
}

source mlx num_experts=256
measure "4-bit MLX" "$dir/source"
rm -rf "$dir/source"
source bf16 num_experts=64 num_experts_per_tok=8
measure "BF16" "$dir/source"
