#!/bin/bash
# This program and llama.cpp with the same weights on the same machine, in turn: what README and
# bench/results/peer.md quote.
#
#   bench/peer.sh WORK            everything: 40 GB of disk in WORK, 16 GB of memory, an hour
#   bench/peer.sh WORK PART...    prepare, resident, limited, sequences, drafts, depth, table
#
# The weights are made up (`cherenkov synth`): 8 layers of the released model's dimensions, its
# whole vocabulary, experts of 4 bits. Repetitions of the two programs alternate. One of llama.cpp
# during which it got less than 95 % of its threads' time is left out: somebody else was at work.
# Needs npm (for the prebuilt llama.cpp) and, for "limited" and "depth", root and a memory group.
#
# Its two forms: q4_1 has the same 4-bit values, q4_0 is what it repacks at load for speed.
#
# ROUNDS=3, THREADS=2, ENGINE=auto, QUANTS="q4_1 q4_0" (one at a time takes 14 GB less of disk),
# FRACTION=40 (per cent of the expert bytes that fit, for "limited"), DEPTH_EXPERTS=384 (of a
# layer of the full-depth store: 30 GB), BUILD=build/release.
set -euo pipefail
cd "$(dirname "$0")/.."
work=${1:?usage: bench/peer.sh WORK [PART...]}
shift
parts=${*:-prepare resident limited sequences drafts depth table}
rounds=${ROUNDS:-3} threads=${THREADS:-2} fraction=${FRACTION:-40} build=${BUILD:-build/release}
quants=${QUANTS:-q4_1 q4_0} engine=${ENGINE:-auto}
package=@node-llama-cpp/linux-x64 version=3.22.1
config=tests/data/vectors/config.json
mkdir -p "$work"
work=$(cd "$work" && pwd)
lib=$work/npm/node_modules/$package/bins/linux-x64
log=$work/figures.txt # lines "PART NAME WHAT FIGURE"
ours=$build/cherenkov

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
note() { printf '%s\n' "$*" | tee -a "$log" >&2; }
load() { say "load $(cut -d' ' -f1-3 /proc/loadavg)"; }

# Takes the best of each half and the shares out of what `cherenkov bench` printed.
ours_figures() { # PART NAME
    awk -v p="$1" -v n="$2" '
        /tok\/s best/ { what = $1; print p, n, what, $2; print p, n, what "_median", $5 }
        /in memory:/ { print p, n, what "_memory_share", $(NF - 3) }
        /from disk a token/ {
            print p, n, what "_read", $1 " " $2
            print p, n, what "_disk_share", $10
            print p, n, what "_hits", $NF
        }
        /peak memory/ { print p, n, "peak", $(NF - 1) " " $NF }
        /accepted/ { print p, n, "accepted", $(NF - 1) }
        /^machine/ { print p, n, "memory_rate", $3 " " $4; print p, n, "disk_rate", $6 " " $7 }
        /^logits/ { print p, n, "hash", $2 }' | tee -a "$log" >&2
}
ours_run() { # PART NAME STORE flags of bench
    local part=$1 name=$2 store=$3
    shift 3
    say "ours: bench $(basename "$store") $*"
    "$ours" bench "$store" --engine "$engine" --threads "$threads" "$@" |
        tee -a "$work/raw.txt" | ours_figures "$part" "$name"
}
peer_figures() { # PART NAME
    tr -d '",{}:' | awk -v p="$1" -v n="$2" '
        $8 >= 0.95 { print p, n, $2, $6 }
        $8 < 0.95 { print p, n, $2 "_disturbed", $6 }' |
        tee -a "$log" >&2
}
peer_run() { # PART NAME MODEL flags
    local part=$1 name=$2 model=$3
    shift 3
    say "llama.cpp: $(basename "$model") $*"
    "$build/peer_llama" bench "$lib" "$model" -t "$threads" "$@" |
        tee -a "$work/raw.txt" | peer_figures "$part" "$name"
}

# Runs a command under a limit of MB that counts the page cache that it fills.
with_memory() {
    local mb=$1 own group limit
    shift
    own=$(awk -F: '$2 ~ /(^|,)memory(,|$)/ { print $3 }' /proc/self/cgroup)
    if [ -n "$own" ]; then
        group=/sys/fs/cgroup/memory${own%/}/peer_$$ limit=memory.limit_in_bytes
    else
        own=$(awk -F: '$1 == "0" { print $3 }' /proc/self/cgroup)
        group=/sys/fs/cgroup${own%/}/peer_$$ limit=memory.max
    fi
    mkdir "$group"
    echo $((mb * 1048576)) > "$group/$limit"
    bash -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$group" "$@"
    for _ in 1 2 3 4 5 6 7 8; do rmdir "$group" 2>/dev/null && break || sleep 0.5; done
}

bytes() { stat -c %s "$1"; }

prepare() {
    make -s CONFIG="$(basename "$build")" all "$build/peer_gguf" "$build/peer_llama"
    if [ ! -d "$lib" ]; then
        mkdir -p "$work/npm"
        (cd "$work/npm" && npm init -y >/dev/null &&
            npm install --no-audit --no-fund --ignore-scripts "$package@$version")
    fi
    [ -f "$work/full8/manifest.json" ] ||
        "$ours" synth $config "$work/full8" --layers 8 --mtp no --ngram-base 20011 \
            --tokenizer models/demo
    for q in $quants; do
        [ -f "$work/$q.gguf" ] || "$build/peer_gguf" "$work/full8" "$work/$q.gguf" "${q/q4_1/same}"
    done
    [ -f "$work/demo/manifest.json" ] || "$ours" pack models/demo --output "$work/demo"
}

resident() {
    for i in $(seq "$rounds"); do
        load
        ours_run resident ours "$work/full8" --prompt-tokens 512 --tokens 48 --repetitions 3
        for q in $quants; do
            peer_run resident "$q" "$work/$q.gguf" -p 512 -n 48 -r 2
        done
    done
}

# Memory for the dense part, FRACTION per cent of the expert bytes, and 600 MB of buffers.
limited() {
    local experts mb model theirs
    experts=$(bytes "$work/full8/experts.bin")
    mb=$((($(bytes "$work/full8/dense.bin") + experts / 100 * fraction) / 1048576 + 600))
    for i in $(seq "$rounds"); do
        load
        say "limit $mb MB"
        with_memory $mb "$ours" bench "$work/full8" --engine "$engine" --threads "$threads" \
            --prompt-tokens 128 --tokens 48 --repetitions 2 |
            tee -a "$work/raw.txt" | ours_figures limited ours
        for q in $quants; do
            model=$(bytes "$work/$q.gguf")
            theirs=$((8 * 512 * 4915200 / 32 * $([ "$q" = q4_1 ] && echo 20 || echo 18)))
            local limit=$(((model - theirs + theirs / 100 * fraction) / 1048576 + 600))
            say "limit $limit MB"
            with_memory $limit "$build/peer_llama" bench "$lib" "$work/$q.gguf" -t "$threads" \
                -p 128 -n 32 -r 2 --no-repack | sed 's/"share": [0-9.]*/"share": 1/' |
                tee -a "$work/raw.txt" | peer_figures limited "$q"
        done
    done
}

sequences() {
    local slots=$((512 * 8 * fraction / 100))
    local few="--tokens 32 --repetitions 3"
    load
    for n in 1 8; do
        ours_run sequences "resident_$n" "$work/full8" --prompt-tokens 512 --sequences $n $few
        ours_run sequences "disk_$n" "$work/full8" --prompt-tokens 64 --sequences $n $few \
            --pool-slots $slots
        if [ -f "$work/skew8/manifest.json" ]; then
            ours_run sequences "skew_$n" "$work/skew8" --prompt-tokens 64 --sequences $n $few \
                --pool-slots $slots
        fi
    done
}

# The demonstration model: its draft head on a story, prompt lookup on a text that repeats.
drafts() {
    local story='Once upon a time there was a little girl who'
    local line='one two three four five six seven eight nine ten. '
    local few="--tokens 200 --repetitions 7"
    load
    for n in 0 1 2 3; do
        ours_run drafts "head_$n" "$work/demo" --text "$story" --drafts $n $few
        ours_run drafts "lookup_$n" "$work/demo" --text "$(printf "$line%.0s" $(seq 20))" \
            --drafts $n $([ $n = 0 ] || echo --lookup) $few
    done
}

depth() {
    local store=$work/depth48
    [ -f "$store/manifest.json" ] ||
        "$ours" synth $config "$store" --experts "${DEPTH_EXPERTS:-384}" --experts-bits 2 --mtp no \
            --ngram-base 20011 --tokenizer models/demo
    load
    for i in $(seq "$rounds"); do
        say "limit 8 GB"
        with_memory 8192 "$ours" bench "$store" --engine "$engine" --threads "$threads" \
            --experts 2 --memory 8G --prompt-tokens 64 --tokens 24 --repetitions 2 |
            tee -a "$work/raw.txt" | ours_figures depth ours
    done
}

# The best of each figure; ratios are made by whoever reads them.
table() {
    awk '{ key = $1 " " $2 " " $3; value = $4
           if (!(key in order)) { order[key] = ++n; name[n] = key; unit[key] = $5 }
           if (!(key in best) || value + 0 > best[key] + 0) best[key] = value }
         END { print "| part | what | figure | best |"; print "|---|---|---|---|"
               for (i = 1; i <= n; i++) {
                   split(name[i], k, " ")
                   printf "| %s | %s | %s | %s %s |\n", k[1], k[2], k[3], best[name[i]],
                       unit[name[i]] } }' "$log"
}

for part in $parts; do $part; done
