/* Writes a checkpoint of full size that takes no room on disk.
 *
 *   tool_sparse TENSORS.tsv CONFIG.json OUTDIR [N_SHARDS]
 *
 * E.g. tests/data/tensors/bf16.tsv with tests/data/vectors/config.json, or mlx4-sawfwair.tsv with
 * config.mlx4.json. OUTDIR is made if it is missing; tests/aid_sparse.h says what is in it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "tests/aid_sparse.h"

int main(int argc, char **argv)
{
    struct err e = {0};
    int shards = argc == 5 ? (int)strtol(argv[4], NULL, 10) : AID_SPARSE_SHARDS;
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: tool_sparse TENSORS.tsv CONFIG.json OUTDIR [N_SHARDS]\n");
        return 2;
    }
    if (file_make_dir(argv[3], &e) || aid_sparse_write(argv[1], argv[2], argv[3], shards, &e)) {
        fprintf(stderr, "tool_sparse: %s\n", e.msg);
        return 1;
    }
    printf("%s: a checkpoint in %d shards\n", argv[3], shards);
    return 0;
}
