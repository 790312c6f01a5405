#!/bin/sh
# Prints a C file with the compiled kernels as arrays, named by their files: see struct kernel_code
# in src/gpu/vulkan.h.
#
#   tools/embed.sh BUILD/src/gpu/*.spv >kernels.c
set -eu
echo '#include "gpu/vulkan.h"'
for f in "$@"; do
    name=$(basename "$f" .spv)
    echo "static const uint32_t code_$name[] = {"
    od -An -v -tx4 "$f" | sed 's/  *\([0-9a-f]\{8\}\)/0x\1,/g'
    echo "};"
done
echo 'const struct kernel_code kernel_codes[] = {'
for f in "$@"; do
    name=$(basename "$f" .spv)
    echo "    {\"$name\", code_$name, sizeof code_$name},"
done
echo '    {0},'
echo '};'
