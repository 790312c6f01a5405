/* Behind the logits on a device: see head.h. */
#include "gpu/head.h"

static u32 parts_of(int vocab)
{
    return ((u32)vocab + HEAD_PART - 1) / HEAD_PART;
}

size_t gpu_best_room(int R, int vocab)
{
    return (size_t)R * parts_of(vocab) * 16;
}

int gpu_best_record(const struct gpu_best *x, struct err *e)
{
    const struct head_best_params p = {.logits = x->logits,
                                       .parts = x->parts,
                                       .best = x->best,
                                       .bad = x->bad,
                                       .vocab = (u32)x->vocab,
                                       .limit = (u32)x->limit,
                                       .n_parts = parts_of(x->vocab),
                                       .first = (u32)x->first};
    for (u32 last = 0; last < (x->best ? 2 : 1); last++) {
        const struct kernel *k;
        int rc = device_kernel(x->d, "head_best", &last, 1, &k, e);
        if (rc)
            return rc;
        tape_dispatch(x->t, k, &p, sizeof p, (struct grid){last ? 1 : p.n_parts, (u32)x->R, 1});
        tape_barrier(x->t);
    }
    return 0;
}

struct best gpu_best_of(const void *parts, int r, int vocab)
{
    const u32 n = parts_of(vocab);
    const struct head_part *part = (const struct head_part *)parts + (size_t)r * n;
    struct head_part most = part[0];
    uint64_t hash = 0;
    for (u32 i = 0; i < n; i++) {
        if (part[i].order > most.order || (part[i].order == most.order && part[i].id < most.id))
            most = part[i];
        hash += part[i].hash[0] | (uint64_t)part[i].hash[1] << 32;
    }
    return (struct best){(int32_t)most.id, hash};
}
