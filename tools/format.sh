#!/bin/sh
# Checks the form of all C files with clang-format 14 (other versions differ in small things), or
# with -i rewrites them.
set -eu
cd "$(dirname "$0")/.."
tool=clang-format-14
command -v $tool >/dev/null || tool=clang-format
$tool --version 2>/dev/null | grep -q 'version 14\.' || {
    echo "format: needs clang-format 14 (make deps-ci), found $($tool --version 2>&1)"
    exit 1
}
mode="--dry-run -Werror"
[ "${1:-}" != -i ] || mode=-i
# shellcheck disable=SC2086
git ls-files -co --exclude-standard -- 'src/*.[ch]' 'include/*.h' 'tests/*.[ch]' 'fuzz/*.[ch]' \
    'bench/*.[ch]' | xargs $tool $mode
