/* Copies and fills within the device, by a kernel. */
#include "gpu/state.h"

int gpu_copy(struct gpu *g, u64 from, u64 to, size_t words, struct err *e)
{
    enum { ROW = 1 << 29 }; /* words of a dispatch at most */
    const struct kernel *k;
    int rc = device_kernel(g->device, "copy", NULL, 0, &k, e);
    for (size_t at = 0; !rc && at < words; at += ROW) {
        u32 n = (u32)(words - at < ROW ? words - at : ROW);
        const struct copy_params p = {
            .from = from ? from + at * sizeof(u32) : 0, .to = to + at * sizeof(u32), .words = n};
        tape_dispatch(g->tape, k, &p, sizeof p,
                      (struct grid){(n + COPY_WORDS - 1) / COPY_WORDS, 1, 1});
    }
    return rc;
}
