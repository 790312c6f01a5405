#!/bin/sh
# Every kernel is valid SPIR-V for Vulkan 1.3, rounds each sum and product, and can be translated to
# Metal's language, but those listed here with the reason. Translated text is not compiled: there is
# no Metal compiler here.
# Needs no build.
set -eu

# KERNEL  why spirv-cross of Debian 12 cannot translate it
untranslated='
head_best    an atomic through an address; the one of Debian 13 knows them
hyper_down   the same
hyper_norm   the same
qsa_prepare  the same
'

for tool in glslc spirv-val spirv-dis spirv-cross; do
    command -v $tool >/dev/null || { echo "$tool is not installed (make deps-ci)"; exit 77; }
done
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

flags=$(sed -n 's/^GLSLFLAGS *:= *//p' Makefile)

compile() { # KERNEL, further flags
    k=$1
    shift
    # shellcheck disable=SC2086 # words
    glslc $flags "$@" -o "$room/$k.spv" "src/gpu/$k.comp"
}

# Sums and products of floats that a device may contract. An H200 gave other last bits than the
# model of the tests: glslc -O had unrolled loops, lost their NoContraction and made fma() of them.
contractible() { # KERNEL
    spirv-dis --no-color "$room/$1.spv" | awk '
        $1 == "OpDecorate" && $3 == "NoContraction" { exact[$2] = 1 }
        $3 ~ /^OpF(Add|Sub|Mul)$/ && !($1 in exact)'
}

bad=0 cases=0
for f in src/gpu/*.comp; do
    name=$(basename "$f" .comp)
    compile "$name"
    spirv-val --target-env vulkan1.3 "$room/$name.spv" || { echo "$f: not valid"; bad=1; }
    [ -z "$(contractible "$name")" ] || { echo "$f: not precise:"; contractible "$name"; bad=1; }
    reason=$(echo "$untranslated" | sed -n "s/^$name  *//p")
    compile "$name" -DGPU_PLAIN_DOT
    if spirv-cross --msl --msl-version 20300 --output "$room/$name.metal" "$room/$name.spv" \
        >"$room/said" 2>&1; then
        [ -z "$reason" ] || { echo "$f: is listed, but can be translated"; bad=1; }
        grep -q '^kernel void' "$room/$name.metal" || { echo "$f: no kernel in it"; bad=1; }
    elif [ -z "$reason" ]; then
        echo "$f: cannot be translated to Metal's language: $(cat "$room/said")"
        bad=1
    fi
    cases=$((cases + 2))
done
# A check that accepts everything would not see a broken kernel.
printf '\003\002\043\007' >"$room/broken.spv"
! spirv-val "$room/broken.spv" >/dev/null 2>&1 || { echo "spirv-val accepts nonsense"; bad=1; }
echo "cases: $cases"
exit $bad
