#!/bin/sh
# Lines by folder: all, and those that are neither blank nor only comment. C, shell and Makefile.
set -eu
cd "$(dirname "$0")/.."
git ls-files -co --exclude-standard -- '*.c' '*.h' '*.sh' '*.mjs' '*.js' '*.py' Makefile .ci/run |
    grep -v -e '^tests/data/' -e '^models/' | while read -r f; do
    [ -f "$f" ] || continue
    case $f in
    src/*/*) d=$(echo "$f" | cut -d / -f 1-2) ;;
    */*) d=${f%%/*} ;;
    *) d=. ;;
    esac
    awk -v d="$d" '
    {
        all++
        line = $0
        sub(/^[ \t]+/, "", line)
        if (inside) { if (index(line, "*/")) inside = 0; next }
        if (line ~ /^\/\*/) {
            if (!index(line, "*/")) inside = 1
            else if (line !~ /\*\/$/) code++
            next
        }
        if (line != "" && line !~ /^(#[^a-z]|#$|\/\/)/) code++
    }
    END { print d, all + 0, code + 0 }' "$f"
done | awk '
{ files[$1]++; all[$1] += $2; code[$1] += $3; F++; A += $2; C += $3 }
END {
    printf "%-16s %6s %8s %8s\n", "folder", "files", "lines", "code"
    for (d in files) printf "%-16s %6d %8d %8d\n", d, files[d], all[d], code[d] | "sort"
    close("sort")
    printf "%-16s %6d %8d %8d\n", "all", F, A, C
}'
