#!/bin/bash
# The gpu engine beside llama.cpp's Vulkan build with the same weights on the same device, in turn:
# what bench/results/gpu.md quotes. For a machine without compilers or a network the programs are
# brought there (tools/carry.sh), and llama.cpp's libraries beside them.
#
#   bench/gpu.sh WORK LIBRARIES [PART...]     parts: resident sequences rows tiers handshake
#
# LIBRARIES holds llama.cpp's shared objects (bins/linux-x64-vulkan of the package that
# bench/peer/README.md names); "-" leaves llama.cpp out. WORK takes 25 GB of disk at 8 layers.
#
# B=build/release (the programs), LAYERS=8, ROUNDS=3, PROMPT=4096, TOKENS=64
set -euo pipefail
cd "$(dirname "$0")/.."
work=${1:?usage: bench/gpu.sh WORK LIBRARIES [PART...]}
lib=${2:?usage: bench/gpu.sh WORK LIBRARIES [PART...]}
shift 2
: "${B:=build/release}" "${LAYERS:=8}" "${ROUNDS:=3}" "${PROMPT:=4096}" "${TOKENS:=64}"
mkdir -p "$work"
store=$work/full$LAYERS gguf=$work/full$LAYERS.gguf
bench=("$B/cherenkov" bench "$store" --engine gpu)

say() { printf '== %s\n' "$*"; }

make_store() {
    [ -f "$store/manifest.json" ] ||
        "$B/cherenkov" synth tests/data/vectors/config.json "$store" --layers "$LAYERS" --mtp no \
            --ngram-base 20011 --tokenizer models/demo
    [ "$lib" = - ] || [ -f "$gguf" ] || "$B/peer_gguf" "$store" "$gguf" same
}

resident() {
    for round in $(seq "$ROUNDS"); do
        say "round $round: ours, prompt $PROMPT, $TOKENS tokens"
        "${bench[@]}" --no-machine --prompt-tokens "$PROMPT" --tokens "$TOKENS" --repetitions 3
        [ "$lib" != - ] || continue
        say "round $round: llama.cpp"
        "$B/peer_llama" bench "$lib" "$gguf" -ngl 99 -p "$PROMPT" -n "$TOKENS" -r 3
    done
}

sequences() {
    for n in 1 2 4 8 16; do
        say "ours, $n sequences"
        "${bench[@]}" --no-machine --prompt-tokens 64 --tokens "$TOKENS" --sequences "$n" \
            --repetitions 3
    done
}

# Experts in two and three tiers; LAYERS=24 makes 34 GB of them. The disk is measured in the same
# call.
tiers() {
    say "ours, 12 GB of the device, all in the host's memory"
    "${bench[@]}" --no-machine --prompt-tokens 64 --tokens 384 --repetitions 2 \
        --device-memory 12G --memory 64G
    say "ours, 24 GB of the device, 6 GB of the host, the rest on the disk"
    "${bench[@]}" --prompt-tokens 64 --tokens 192 --repetitions 1 --device-memory 24G --memory 6G
}

# What each kernel takes, beside what the device's memory gives.
rows() { "$B/bench_gpu_kernels"; }
handshake() { "$B/bench_gpu_seam"; }

make_store
for part in ${*:-resident sequences rows handshake}; do $part; done
