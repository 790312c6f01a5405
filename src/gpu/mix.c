/* What the kernels that mix rows can do: see mix.h. */
#include "gpu/mix.h"

enum {
    HEAD_MAX = 512, /* a DeltaNet head's columns have an invocation each; attention's queries lie in
                       shared memory */
    INDEX_HEADS_MAX = 16,
};

/* Value heads of a workgroup of the scan must fill whole groups of activations. */
static int scan_columns(int dv)
{
    int cols = dv;
    while (cols % 64)
        cols += dv;
    return cols;
}

static int too_large(const char *what, int found, const char *want, struct err *e)
{
    return ERR(e, E_UNSUPPORTED, "%s %d: the gpu engine's kernels want %s; use --engine cpu", what,
               found, want);
}

int mix_check(const struct config *c, struct err *e)
{
    if (c->dk > HEAD_MAX)
        return too_large("linear_key_head_dim", c->dk, "at most 512", e);
    if (scan_columns(c->dv) > HEAD_MAX)
        return too_large("linear_value_head_dim", c->dv,
                         "a number of which some multiple up to 512 is one of 64", e);
    if (c->head_dim > HEAD_MAX || c->head_dim % 32)
        return too_large("head_dim", c->head_dim, "a multiple of 32, at most 512", e);
    if (c->index_dim > HEAD_MAX)
        return too_large("indexer_head_dim", c->index_dim, "at most 512", e);
    if (c->index_heads > INDEX_HEADS_MAX)
        return too_large("indexer_n_heads", c->index_heads, "at most 16", e);
    return 0;
}
