/* What kernels take, for CHERENKOV_DEVICE_TIMES: a stamp at every barrier of every tape, and at the
 * end of the device a table by kernel and grid. See vulkan.h.
 *
 * A stage is what lies between two barriers. It counts under the first kernel that it starts; those
 * that run beside it are in its time. Times are read when a tape that has run is used again. */
#include "gpu/vulkan.h"

#ifdef HAVE_VULKAN

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "base/mem.h"

enum { STAGES_MAX = 4096, KINDS_MAX = 512 };

struct stage {
    const char *kernel; /* NULL: nothing was started */
    struct grid grid;
    int beside; /* kernels that it starts besides */
};

/* Of one tape: stamp i is taken before stage i. */
struct stages {
    VkQueryPool stamps;
    int n;
    bool recorded;
    struct stage at[STAGES_MAX];
    uint64_t tick[STAGES_MAX + 1];
};

struct kind {
    struct stage stage;
    uint64_t runs;
    double ns;
};

struct times {
    int n;
    double other_ns; /* of kinds for which there was no place */
    struct kind kind[KINDS_MAX];
};

int times_open(struct device *d, struct err *e)
{
    if (!env_get(ENV_DEVICE_TIMES) || d->found.info.tick_ns <= 0)
        return 0;
    d->times = mem_zalloc(1, sizeof *d->times);
    return d->times ? 0 : ERR(e, E_NOMEM, "no memory for the times of kernels");
}

void times_open_tape(struct tape *t)
{
    VkQueryPoolCreateInfo q = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                               .queryType = VK_QUERY_TYPE_TIMESTAMP,
                               .queryCount = STAGES_MAX + 1};
    struct stages *s = t->d->times ? mem_zalloc(1, sizeof *s) : NULL;
    if (s && t->d->vk.CreateQueryPool(t->d->handle, &q, NULL, &s->stamps)) {
        mem_free(s);
        s = NULL;
    }
    t->stages = s;
}

static void stamp(struct tape *t)
{
    t->d->vk.CmdWriteTimestamp2(t->commands, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                                t->stages->stamps, (uint32_t)t->stages->n);
}

void times_begin(struct tape *t)
{
    struct stages *s = t->stages;
    if (!s)
        return;
    times_collect(t);
    s->recorded = false;
    s->n = 0;
    s->at[0] = (struct stage){0};
    t->d->vk.CmdResetQueryPool(t->commands, s->stamps, 0, STAGES_MAX + 1);
    stamp(t);
}

void times_dispatch(struct tape *t, const struct kernel *k, struct grid g)
{
    struct stage *at = t->stages ? &t->stages->at[t->stages->n] : NULL;
    if (at && at->kernel)
        at->beside++;
    else if (at)
        *at = (struct stage){k->name, g, 0};
}

/* A tape with more stages than there is room for has all the rest in its last. */
void times_barrier(struct tape *t)
{
    struct stages *s = t->stages;
    if (!s || !s->at[s->n].kernel || s->n == STAGES_MAX - 1)
        return;
    s->n++;
    s->at[s->n] = (struct stage){0};
    stamp(t);
}

void times_end(struct tape *t)
{
    struct stages *s = t->stages;
    if (!s)
        return;
    if (s->at[s->n].kernel) {
        s->n++;
        stamp(t);
    }
    s->recorded = true;
}

static void add(struct times *all, const struct stage *s, double ns)
{
    int i = 0;
    while (i < all->n && (strcmp(all->kind[i].stage.kernel, s->kernel) != 0 ||
                          memcmp(&all->kind[i].stage.grid, &s->grid, sizeof s->grid) != 0))
        i++;
    if (i == KINDS_MAX) {
        all->other_ns += ns;
        return;
    }
    if (i == all->n)
        all->kind[all->n++].stage = *s;
    all->kind[i].runs++;
    all->kind[i].ns += ns;
}

void times_collect(struct tape *t)
{
    struct stages *s = t->stages;
    struct device *d = t->d;
    if (!s || !s->recorded || !s->n || !t->value || !device_done(d, t->value) ||
        d->vk.GetQueryPoolResults(d->handle, s->stamps, 0, (uint32_t)s->n + 1,
                                  ((size_t)s->n + 1) * sizeof s->tick[0], s->tick,
                                  sizeof s->tick[0], VK_QUERY_RESULT_64_BIT))
        return;
    for (int i = 0; i < s->n; i++)
        add(d->times, &s->at[i], (double)(s->tick[i + 1] - s->tick[i]) * d->found.info.tick_ns);
}

void times_close_tape(struct tape *t)
{
    if (!t->stages)
        return;
    times_collect(t);
    t->d->vk.DestroyQueryPool(t->d->handle, t->stages->stamps, NULL);
    mem_free(t->stages);
    t->stages = NULL;
}

static int longest_first(const void *a, const void *b)
{
    double x = ((const struct kind *)a)->ns, y = ((const struct kind *)b)->ns;
    return (x < y) - (x > y);
}

void times_close(struct device *d)
{
    struct times *t = d->times;
    if (!t)
        return;
    double sum = t->other_ns;
    for (int i = 0; i < t->n; i++)
        sum += t->kind[i].ns;
    qsort(t->kind, (size_t)t->n, sizeof t->kind[0], longest_first);
    log_say(LOG_INFO, "kernels took %.3f ms on %s", sum * 1e-6, d->found.info.name);
    for (int i = 0; i < t->n; i++) {
        const struct kind *k = &t->kind[i];
        log_say(LOG_INFO, "%5.1f %%  %9.2f us x %-8llu %s, %u x %u x %u groups, %d beside",
                k->ns / sum * 100, k->ns / (double)k->runs * 1e-3, (unsigned long long)k->runs,
                k->stage.kernel, k->stage.grid.x, k->stage.grid.y, k->stage.grid.z,
                k->stage.beside);
    }
    mem_free(t);
    d->times = NULL;
}

#endif
