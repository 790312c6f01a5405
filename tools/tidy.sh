#!/bin/sh
# Every check of form, one after another; says which failed. T=name runs one. See CONTRIBUTING.md.
set -u
cd "$(dirname "$0")/.."
: "${B:=build/release}" "${CC:=cc}" "${T:=}"
flags="-std=c11 -D_GNU_SOURCE -Isrc -Iinclude -I. -Wall -Wextra -Werror"

check_format() { tools/format.sh; }
check_layers() { tools/layers.sh; }
check_words() { tools/words.sh; }
check_ratchet() { tools/ratchet.sh; }

# Every header compiles alone, the public one also as C++.
check_headers() {
    bad=0
    for h in include/*.h src/*/*.h tests/*.h; do
        # shellcheck disable=SC2086
        $CC $flags -Wno-unused-function -Wno-unused-const-variable -fsyntax-only -x c "$h" || bad=1
    done
    if command -v c++ >/dev/null; then
        c++ -Wall -Wextra -Werror -fsyntax-only -x c++ include/cherenkov.h || bad=1
    fi
    return $bad
}

# No object but those of base/ has data that can change, unless tools/globals.txt says why.
check_globals() {
    nm -f sysv "$B"/src/*/*.o 2>/dev/null | awk -F'[|]' -v b="$B/src/" '
        FILENAME == "tools/globals.txt" { if (!/^#/) { sub(/ .*/, ""); allowed[$0] = 1 }; next }
        /^Symbols from/ {
            file = $0
            sub(/^.*from /, "", file); sub(/:.*$/, "", file); sub(b, "", file)
            next
        }
        NF >= 7 && $7 ~ /^ *\.(data|bss|tdata|tbss)(\.[^r]|$)/ && $7 !~ /\.data\.rel\.ro/ {
            name = $1; gsub(/ /, "", name); sub(/\.[0-9]+$/, "", name)
            place = file; sub(/\.o$/, ".c", place)
            if (place ~ /^base\// || (place ":" name) in allowed || name ~ /^(__|\.)/) next
            print "src/" place ": " name ": mutable data outside base/ (tools/globals.txt)"
            bad = 1
        }
        END { exit bad }' tools/globals.txt -
}

# Nothing but cherenkov_* leaves the library.
check_exports() {
    nm -g "$B/libcherenkov.a" | awk '
        $2 ~ /^[TDBRVW]$/ && $3 !~ /^cherenkov_/ { print "libcherenkov.a exports " $3; bad = 1 }
        END { exit bad }'
}

check_env() {
    "$B/cherenkov" env --markdown | cmp - docs/env.md || { echo "run make docs"; return 1; }
}

# Every command has its section in docs/cli.md and its place in the manual page, and no others do;
# the manual page has every flag.
check_commands() {
    "$B/cherenkov" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | sort >"$room/program"
    sed -n 's/^## \([a-z]*\)$/\1/p' docs/cli.md | sort >"$room/page"
    sed -n '/^.SH COMMANDS/,/^.SH EXIT/s/^\.BR* \([a-z][a-z]*\).*/\1/p' docs/cherenkov.1 |
        sort >"$room/manual"
    diff "$room/program" "$room/page" | sed 's|$|   (< help, > docs/cli.md)|'
    diff "$room/program" "$room/manual" | sed 's|$|   (< help, > docs/cherenkov.1)|'
    B=$B tools/man.sh | cmp - docs/cherenkov.1 || { echo "run make docs"; return 1; }
    cmp -s "$room/program" "$room/page" && cmp -s "$room/program" "$room/manual"
}

check_scripts() {
    for s in tools/*.sh tests/*.sh bench/*.sh .ci/run; do
        [ ! -f "$s" ] || case $(head -n 1 "$s") in
        *bash*) bash -n "$s" || return 1 ;;
        *) sh -n "$s" || return 1 ;;
        esac
    done
}

room=$(mktemp -d) || exit 1
trap 'rm -rf "$room"' EXIT
failed=""
for name in format layers words ratchet headers globals exports env commands scripts; do
    [ -z "$T" ] || [ "$T" = $name ] || continue
    said=$(check_$name 2>&1) && ok=ok || ok=FAIL
    echo "$ok $name"
    [ -z "$said" ] || echo "$said" | sed 's/^/     /'
    [ $ok = ok ] || failed="$failed $name"
done
[ -z "$failed" ] || { echo "tidy: failed:$failed"; exit 1; }
echo "tidy: clean"
