#!/bin/sh
# Compares parts of the program with implementations published on npm: installs the packages of
# package.json below build/npm and runs every tests/npm/STEM.mjs, or that of $T, from the project's
# root, as many at once as there are processors. Needs node, npm and, the first time, the network.
# The last line printed is "N passed, N failed, N skipped".
#
#   B=build/release   the build, with the helper programs tool_STEM
set -u
cd "$(dirname "$0")/../.." || exit 1
: "${B:=build/release}" "${T:=}"
export B NPM_ROOT="$PWD/build/npm"

if [ "${1:-}" = --one ]; then
    name=$(basename "$2" .mjs)
    node "$2" >"$DIR/$name.log" 2>&1
    case $? in
    0) said=passed ;;
    77) said=skipped ;;
    *) said=failed ;;
    esac
    : >"$DIR/$name.$said"
    echo "npm $name $said" >>"$DIR/$name.log"
    echo "$DIR/$name.log"
    exit 0
fi

if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
    echo "node and npm are not installed"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
mkdir -p "$NPM_ROOT"
if ! cmp -s tests/npm/package.json "$NPM_ROOT/package.json" || [ ! -f "$NPM_ROOT/complete" ]; then
    rm -f "$NPM_ROOT/complete"
    cp tests/npm/package.json "$NPM_ROOT/package.json"
    (cd "$NPM_ROOT" && npm install --no-package-lock --ignore-scripts --no-audit --no-fund) ||
        { echo "npm could not install the packages of tests/npm/package.json"; exit 1; }
    : >"$NPM_ROOT/complete"
fi
DIR=$(mktemp -d) || exit 1
export DIR
trap 'rm -rf "$DIR"' EXIT
for script in tests/npm/*.mjs; do
    [ -z "$T" ] || [ "$T" = "$(basename "$script" .mjs)" ] || continue
    echo "$script"
done | xargs -r -P "$(getconf _NPROCESSORS_ONLN)" -n 1 tests/npm/run.sh --one | xargs -r -n 1 cat
passed=$(ls "$DIR" | grep -c '\.passed$')
failed=$(ls "$DIR" | grep -c '\.failed$')
skipped=$(ls "$DIR" | grep -c '\.skipped$')
[ $((passed + failed + skipped)) -gt 0 ] || echo "no comparison is called '$T'"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
