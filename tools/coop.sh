#!/bin/sh
# Kernels on cooperative matrices need a newer compiler than Debian 12's glslc, so their SPIR-V is
# kept beside them, with the checksum of all that it was made from.
#
#   tools/coop.sh           does every src/gpu/coop/NAME.spv belong to its source?
#   tools/coop.sh make      makes them again; GLSLC: a glslc of 2023.8 or newer (Debian 13 has one)
set -eu
cd "$(dirname "$0")/.."
GLSLC=${GLSLC:-glslc}
sums=src/gpu/coop/sources.sum

parts() { # FILE: it, and all that it includes, once each
    todo=$1 seen=
    while [ -n "$todo" ]; do
        file=${todo%% *} rest=${todo#"${todo%% *}"}
        todo=${rest# }
        case " $seen " in *" $file "*) continue ;; esac
        seen="$seen $file"
        for i in $(sed -n 's/^#include "\(.*\)"/src\/\1/p' "$file"); do
            todo="$todo${todo:+ }$i"
        done
    done
    echo "$seen"
}

sum_of() { # FILE
    # shellcheck disable=SC2046 # names without spaces
    cat $(parts "$1") | sha256sum | cut -d ' ' -f 1
}

compile() { # SOURCE TO
    $GLSLC -fshader-stage=comp --target-env=vulkan1.3 -O0 -Werror -DGPU_GLSL -Isrc -o "$2" "$1"
}

bad=0
[ "${1-}" != make ] || : >$sums
for f in src/gpu/coop/*.comp; do
    name=$(basename "$f" .comp) to=${f%.comp}.spv
    if [ "${1-}" = make ]; then
        compile "$f" "$to"
        echo "$name $(sum_of "$f") $(sha256sum <"$to" | cut -d ' ' -f 1)" >>$sums
        continue
    fi
    want=$(sed -n "s/^$name //p" $sums)
    [ "$want" = "$(sum_of "$f") $(sha256sum <"$to" | cut -d ' ' -f 1)" ] || {
        echo "$to was not made from $f as it is now: run tools/coop.sh make with a newer glslc"
        bad=1
    }
done
exit $bad
