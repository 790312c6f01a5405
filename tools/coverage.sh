#!/bin/sh
# After the tests of CONFIG=cov: how many lines of each file of src/ ran, and of each folder.
set -eu
: "${B:=build/cov}"
find "$B/src" -name '*.gcno' | sort | xargs gcov -n 2>/dev/null | awk '
/^File / { file = $2; gsub(/\047/, "", file) }
/^Lines executed:/ && file ~ /^src\// {
    split($0, part, /[:% ]+/)            # Lines executed 83.33 of 12
    lines = part[5]; ran = lines * part[3] / 100
    if (lines < best[file]) next         # a header is reported once for each user: keep the largest
    best[file] = lines; got[file] = ran
}
{ if (/^Lines executed:/) file = "" }
END {
    for (f in best) {
        split(f, dir, "/")
        n[dir[2]] += best[f]; r[dir[2]] += got[f]; total += best[f]; reached += got[f]
        printf "  %5.1f %% of %5d  %s\n", 100 * got[f] / best[f], best[f], f | "sort -k5"
    }
    close("sort -k5")
    print "by folder:"
    for (d in n) printf "  %5.1f %% of %5d  %s\n", 100 * r[d] / n[d], n[d], d | "sort -k5"
    close("sort -k5")
    if (total) printf "lines reached: %.1f %% of %d\n", 100 * reached / total, total
}'
