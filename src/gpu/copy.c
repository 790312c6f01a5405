/* Copies and fills within the device, by a kernel. */
#include "gpu/state.h"

/* Rows of a size, a workgroup each: the memory's rate wants many. */
static void copy_rows(struct gpu *g, const struct kernel *k, struct copy_params *p, u32 rows,
                      u32 words)
{
    p->words = p->from_stride = p->to_stride = words;
    tape_dispatch(g->tape, k, p, sizeof *p, (struct grid){1, rows, 1});
    p->to += (u64)rows * words * sizeof(u32);
    if (p->from)
        p->from += (u64)rows * words * sizeof(u32);
}

int gpu_copy(struct gpu *g, u64 from, u64 to, size_t words, struct err *e)
{
    enum { ROW = 1024, ROWS_MAX = 65535 };
    struct copy_params p = {.from = from, .to = to};
    const struct kernel *k;
    int rc = device_kernel(g->device, "copy", NULL, 0, &k, e);
    if (rc)
        return rc;
    size_t rows = words / ROW;
    for (size_t n; rows; rows -= n) {
        n = rows < ROWS_MAX ? rows : ROWS_MAX;
        copy_rows(g, k, &p, (u32)n, ROW);
    }
    if (words % ROW)
        copy_rows(g, k, &p, 1, (u32)(words % ROW));
    return 0;
}
