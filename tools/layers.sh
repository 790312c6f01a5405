#!/bin/sh
# Checks every #include "..." below src/ and include/ against tools/layers.txt, and the table
# itself. Prints each that is not allowed with file and line; exits 1 if there is one.
set -eu
cd "$(dirname "$0")/.."
awk '
function complain(text) { print text; bad = 1 }
function allow(who, list,   n, part, i) {
    n = split(list, part, " ")
    for (i = 1; i <= n; i++) {
        if (!(part[i] in rank))
            complain("tools/layers.txt: " who " names " part[i] ", which is not a folder above it")
        allowed[who, part[i]] = 1
    }
}
FILENAME == "tools/layers.txt" {
    if (/^#/ || !NF) next
    who = $1; sub(/:$/, "", who)
    list = $0; sub(/^[^:]*:/, "", list)
    allow(who, list)
    if (who !~ /\//) { rank[who] = ++n_rank; allowed[who, who] = 1 }
    next
}
FNR == 1 {
    split(FILENAME, dir, "/")
    folder = dir[1] == "include" ? "public" : dir[2]
    file = FILENAME; sub(/^src\//, "", file)
    if (!(folder in rank)) complain(FILENAME ": folder " folder " is not in tools/layers.txt")
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    to = quoted[2]
    if (to == "cherenkov.h") target = "public"
    else if (to ~ /^[a-z]+\/[a-z0-9_]+\.h$/) { target = to; sub(/\/.*/, "", target) }
    else { complain(FILENAME ":" FNR ": \"" to "\": write \"folder/file.h\""); next }
    if (!((folder, target) in allowed) && !((file, target) in allowed))
        complain(FILENAME ":" FNR ": " folder "/ may not include " target "/ (tools/layers.txt)")
}
END { exit bad }
' tools/layers.txt src/*/*.[ch] include/*.h
