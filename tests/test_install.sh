#!/bin/sh
# make install puts five files where it says, a program can be built against them with pkg-config
# alone, and make uninstall takes them away again.
set -eu
: "${CHERENKOV_BUILD:=build/release}"
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
config=${CHERENKOV_BUILD#build/}

make -s CONFIG="$config" PREFIX=/opt/c DESTDIR="$room/stage" install >"$room/log" 2>&1 || {
    cat "$room/log"
    exit 1
}
(cd "$room/stage" && find . -type f | sort) >"$room/found"
cat >"$room/want" <<'EOF2'
./opt/c/bin/cherenkov
./opt/c/include/cherenkov.h
./opt/c/lib/libcherenkov.a
./opt/c/lib/pkgconfig/cherenkov.pc
./opt/c/share/man/man1/cherenkov.1
EOF2
diff "$room/want" "$room/found"
grep -q '^prefix=/opt/c$' "$room/stage/opt/c/lib/pkgconfig/cherenkov.pc"
"$room/stage/opt/c/bin/cherenkov" version >/dev/null
make -s CONFIG="$config" PREFIX=/opt/c DESTDIR="$room/stage" uninstall >"$room/log" 2>&1
left=$(find "$room/stage" -type f)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }

# Sanitized objects need their runtime's flags, which pkg-config does not know.
case $config in release | debug) ;; *) echo "cases: 2"; exit 0 ;; esac
make -s CONFIG="$config" PREFIX="$room/inst" install >"$room/log" 2>&1
export PKG_CONFIG_PATH="$room/inst/lib/pkgconfig"
"$room/inst/bin/cherenkov" version | grep -q "^cherenkov $(pkg-config --modversion cherenkov) "
if [ -f tests/example.c ]; then
    # shellcheck disable=SC2046
    cc -Wall -Wextra -Werror tests/example.c -o "$room/example" \
        $(pkg-config --cflags --libs cherenkov)
fi
echo "cases: 4"
