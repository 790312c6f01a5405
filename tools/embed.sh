#!/bin/sh
# Prints a C file with other files as arrays, so that the program needs none of them when it runs.
#
#   tools/embed.sh kernels BUILD/src/gpu/*.spv   struct kernel_code of src/gpu/vulkan.h
#   tools/embed.sh page src/server/page/*        struct page_file of src/server/page.h
set -eu
what=$1
shift

kernels() {
    echo '#include "gpu/vulkan.h"'
    for f in "$@"; do
        echo "static const uint32_t code_$(basename "$f" .spv)[] = {"
        od -An -v -tx4 "$f" | sed 's/  *\([0-9a-f]\{8\}\)/0x\1,/g'
        echo "};"
    done
    echo 'const struct kernel_code kernel_codes[] = {'
    for f in "$@"; do
        name=$(basename "$f" .spv)
        echo "    {\"$name\", code_$name, sizeof code_$name},"
    done
}

page() {
    echo '#include "server/page.h"'
    n=0
    for f in "$@"; do
        n=$((n + 1))
        echo "static const unsigned char file_$n[] = {"
        od -An -v -tx1 "$f" | sed 's/  *\([0-9a-f][0-9a-f]\)/0x\1,/g'
        echo "};"
    done
    echo 'const struct page_file page_files[] = {'
    n=0
    for f in "$@"; do
        n=$((n + 1))
        echo "    {\"$(basename "$f")\", file_$n, sizeof file_$n},"
    done
}

"$what" "$@"
echo '    {0},'
echo '};'
