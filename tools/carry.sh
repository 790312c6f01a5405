#!/bin/sh
# Makes a folder that holds programs of a build and the shared libraries they need, for a machine
# that has neither these libraries nor a compiler, but the same processor family and C library: a
# rented one with a GPU, say.
#
#   tools/carry.sh DIR [PROGRAM...]     B=build/release
#
# DIR/run PROGRAM [ARGUMENT...] starts one there. Without names: the program, and the tests and
# measurements of the gpu engine that are built. The C library, the compiler's and Vulkan's loader
# and drivers are the machine's own. Tests read tests/data: run them from the project's root.
set -eu
: "${B:=build/release}"
[ $# -ge 1 ] || { echo "usage: tools/carry.sh DIR [PROGRAM...]" >&2; exit 2; }
dir=$1
shift
if [ $# -eq 0 ]; then
    for p in "$B"/cherenkov "$B"/test_gpu* "$B"/test_devices "$B"/bench_gpu_*; do
        case $p in *.*) ;; *) [ ! -x "$p" ] || set -- "$@" "$p" ;; esac
    done
fi
mkdir -p "$dir/bin" "$dir/lib"
for p in "$@"; do
    strip -o "$dir/bin/$(basename "$p")" "$p"
    ldd "$p" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
done | sort -u | while read -r lib; do
    case $(basename "$lib") in
    libc.so* | libm.so* | libdl.so* | libpthread.so* | libgcc_s.so* | ld-linux*) ;;
    *) cp -L "$lib" "$dir/lib/" ;;
    esac
done
cat >"$dir/run" <<'END'
#!/bin/sh
# run PROGRAM [ARGUMENT...]: a program of bin/ with the libraries of lib/.
here=$(cd "$(dirname "$0")" && pwd)
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export CHERENKOV_BIN="$here/bin/cherenkov"
program=$here/bin/$1
shift
exec "$program" "$@"
END
chmod +x "$dir/run"
du -sh "$dir" | sed 's/\t.*//;s/^/size: /'
ls "$dir/bin"
