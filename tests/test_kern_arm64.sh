#!/bin/sh
# The tests of kernels and number formats on 64-bit ARM: cross-compiled, run by qemu-user.
# Needs no build.
set -eu
cross=aarch64-linux-gnu-gcc
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) ||
    { echo "no qemu-aarch64 here (make deps-ci installs it)"; exit 77; }
command -v $cross >/dev/null || { echo "no $cross here (make deps-ci installs it)"; exit 77; }
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
echo 'int main(void) { return 0; }' >"$room/empty.c"
$cross -static "$room/empty.c" -o "$room/empty" 2>/dev/null ||
    { echo "$cross has no C library (make deps-ci installs it)"; exit 77; }

# $(CC) may begin with ccache.
case ${CC:-} in
ccache\ *) cross="ccache $cross" ;;
esac
flags="-std=c11 -D_GNU_SOURCE -Itests/arm64 -Isrc -I. -O1 -Wall -Wextra -Werror -ffp-contract=off"
flags="$flags -fno-math-errno"
base="src/base/cpuid.c src/base/env.c src/base/err.c src/base/utf8.c tests/aid_kern.c"
# shellcheck disable=SC2086 # words
ls $base src/kern/*.c src/quant/*.c |
    xargs -P 2 -I{} sh -c "$cross $flags -c {} -o $room/\$(echo {} | tr / _).o"

# The tier that is asked for must be there: without it the program fails.
n=0
for stem in kern kern_float kv8 cpuid; do
    # shellcheck disable=SC2086 # words
    $cross $flags -static "tests/test_$stem.c" "$room"/*.o -lm -o "$room/$stem"
    CHERENKOV_CPU=neon "$qemu" "$room/$stem" >"$room/said" ||
        { echo "test_$stem on arm64:"; cat "$room/said"; exit 1; }
    grep '^worst:' "$room/said" || true
    n=$((n + $(grep -c OK "$room/said")))
done
echo "cases: $n"
