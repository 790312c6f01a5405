/* Makes a golden's checkpoint again from the numbers its weights are seeded with.
 *
 *   tool_golden NAME OUTDIR      writes the safetensors files; OUTDIR must exist
 *
 * Says whether they are the pinned ones, where tests/data/goldens/checksums.tsv lists the golden.
 * Runs in the project's root. Exit 1: could not, or they differ. */
#include <stdio.h>

#include "tests/aid_golden.h"

int main(int argc, char **argv)
{
    struct err e = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: tool_golden NAME OUTDIR\n");
        return 2;
    }
    int rc = aid_golden_write(argv[1], argv[2], &e);
    if (!rc)
        rc = aid_golden_check(argv[1], argv[2], &e);
    if (rc && e.code != E_NOTFOUND) {
        fprintf(stderr, "tool_golden: %s\n", e.msg);
        return 1;
    }
    printf("%s: %s\n", argv[1], rc ? "written; no checksum is known" : "written; as pinned");
    return 0;
}
