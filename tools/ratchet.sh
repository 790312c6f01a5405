#!/bin/sh
# Lengths: a function has at most 70 lines and 6 parameters, a file 1000 lines (from 600 on it is
# listed, as a question), a line 100 columns. tools/ratchet.txt holds the exceptions and what each
# measures; one that has become smaller must be written down smaller.
#
#   tools/ratchet.sh            check; exits 1 if something grew
#   tools/ratchet.sh --shrink   write down what the exceptions measure now, where that is less
#
# Relies on the form that clang-format gives: a function's braces stand alone in the first column.
set -eu
cd "$(dirname "$0")/.."
recorded=tools/ratchet.txt
measured=$(mktemp)
trap 'rm -f "$measured"' EXIT

LC_ALL=C awk '
function over(kind, place, value, most) {
    if (value > most) print kind, place, value
}
# The commas of a parameter list, those inside inner parentheses left out; 0 for (void).
function parameters(s,   i, c, depth, n, any) {
    sub(/^[^(]*\(/, "", s)
    sub(/\)[^)]*$/, "", s)
    if (s ~ /^[ \t]*(void)?[ \t]*$/) return 0
    n = 1
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        if (c == "(") depth++
        if (c == ")") depth--
        if (c == "," && depth == 0) n++
    }
    return n
}
function end_file() { if (file != "") over("file", file, lines, file ~ /\.[ch]$/ ? 600 : 1000) }
FNR == 1 { end_file(); file = FILENAME; head = ""; start = 0; inside = 0 }
{
    lines = FNR
    width = $0
    gsub(/[\200-\277]/, "", width)
    if (length(width) > 100) print "line", FILENAME ":" FNR, length(width)
}
FILENAME !~ /\.[ch]$/ { next }
inside {
    if (/^}/) { over("function", FILENAME ":" name, FNR - start + 1, 70); inside = 0; head = "" }
    next
}
/^{/ && head != "" {
    name = head
    sub(/\(.*/, "", name); sub(/^.*[ *]/, "", name)
    over("parameters", FILENAME ":" name, parameters(head), 6)
    inside = 1
    next
}
/^[A-Za-z_]/ && !/;$/ && !/[={]$/ { head = $0; start = FNR; next }
/^[ \t]/ && head != "" { head = head " " $0; if (/;$/) head = ""; next }
{ head = "" }
END { end_file() }
' $(git ls-files -co --exclude-standard -- 'src/*.[ch]' 'include/*.h' 'tests/*.[ch]' 'fuzz/*.[ch]' \
    'bench/*.[ch]' '*.sh' Makefile .ci/run | sort -u) >"$measured"

if [ "${1:-}" = --shrink ]; then
    awk 'FILENAME != "'"$recorded"'" { now[$1, $2] = $3; next }
         /^#/ || !NF { print; next }
         ($1, $2) in now { print $1, $2, (now[$1, $2] < $3 ? now[$1, $2] : $3) }' \
        "$measured" "$recorded" >"$recorded.new"
    mv "$recorded.new" "$recorded"
fi

awk '
BEGIN { most["function"] = 70; most["file"] = 1000; most["parameters"] = 6; most["line"] = 100 }
FILENAME == "'"$recorded"'" { if (!/^#/ && NF) old[$1, $2] = $3; next }
{
    now[$1, $2] = 1
    if (!(($1, $2) in old)) {
        if ($1 == "file" && $3 <= 1000) {
            print "note: " $2 " has " $3 " lines: is it one topic?"
            next
        }
        print $2 ": " $1 " of " $3 "; the most is " most[$1]
        bad = 1
    } else if ($3 > old[$1, $2]) {
        print $2 ": " $1 " has grown from " old[$1, $2] " to " $3; bad = 1
    } else if ($3 < old[$1, $2]) {
        print $2 ": " $1 " shrank to " $3 ", well done: run tools/ratchet.sh --shrink"; bad = 1
    }
}
END {
    for (k in old) if (!(k in now)) {
        split(k, part, SUBSEP)
        print part[2] ": is no longer too long: run tools/ratchet.sh --shrink"; bad = 1
    }
    exit bad
}' "$recorded" "$measured"
