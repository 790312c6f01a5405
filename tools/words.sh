#!/bin/sh
# Checks that the words of tools/words.txt appear in src/ only where that table says. Exits 1
# otherwise.
set -eu
cd "$(dirname "$0")/.."
awk '
FILENAME == "tools/words.txt" {
    if (/^#/ || !NF) next
    split($0, part, / *: */)
    n = split(part[1], word, " ")
    for (i = 1; i <= n; i++) {
        files[word[i]] = " " part[2] " "
        why[word[i]] = part[3] part[4]
    }
    next
}
FNR == 1 {
    file = FILENAME; sub(/^src\//, "", file)
    folder = file; sub(/\/.*/, "/", folder)
    comment = 0
}
{
    line = $0
    gsub(/\\./, "", line)
    gsub(/"[^"]*"/, "\"\"", line)
    if (comment) { if (!sub(/^.*\*\//, "", line)) next; comment = 0 }
    gsub(/\/\*[^*]*\*+([^\/*][^*]*\*+)*\//, " ", line)
    if (sub(/\/\*.*$/, "", line)) comment = 1
    sub(/\/\/.*$/, "", line)
    if (line ~ /^[ \t]*#/) next
    while (match(line, /[A-Za-z_][A-Za-z0-9_]*[ \t]*\(/)) {
        before = substr(line, 1, RSTART - 1)
        w = substr(line, RSTART, RLENGTH); sub(/[ \t]*\($/, "", w)
        line = substr(line, RSTART + RLENGTH)
        if (!(w in files) || before ~ /(\.|->)$/) continue
        if (index(files[w], " " file " ") || index(files[w], " " folder " ")) continue
        print FILENAME ":" FNR ": " w " does not belong here: " why[w]
        bad = 1
    }
}
END { exit bad }
' tools/words.txt src/*/*.[ch]
