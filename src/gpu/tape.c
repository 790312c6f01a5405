/* Tapes: command buffers that are recorded once and run often; see device.h.
 *
 * Every tape begins with a barrier against all that was submitted before it and against what the
 * host wrote, and ends with one that lets the host see its results: so tapes are in order without
 * the caller's doing. */
#include "gpu/vulkan.h"

#ifdef HAVE_VULKAN

#include <assert.h>
#include <string.h>

#include "base/mem.h"

static void barrier(struct tape *t, VkPipelineStageFlags2 from, VkPipelineStageFlags2 to,
                    VkAccessFlags2 sees)
{
    VkMemoryBarrier2 m = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
                          .srcStageMask = from,
                          .srcAccessMask = VK_ACCESS_2_MEMORY_WRITE_BIT,
                          .dstStageMask = to,
                          .dstAccessMask = sees};
    VkDependencyInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .memoryBarrierCount = 1, .pMemoryBarriers = &m};
    t->d->vk.CmdPipelineBarrier2(t->commands, &info);
}

int tape_open(struct device *d, int n_stamps, struct tape **out, struct err *e)
{
    *out = NULL;
    int rc = device_check(d, e);
    if (rc)
        return rc;
    struct tape *t = mem_zalloc(1, sizeof *t);
    if (!t)
        return ERR(e, E_NOMEM, "no memory for a tape");
    t->d = d;
    t->stamps_max = d->found.info.tick_ns > 0 ? n_stamps : 0;
    VkCommandBufferAllocateInfo c = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                     .commandPool = d->pool,
                                     .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                     .commandBufferCount = 1};
    VkQueryPoolCreateInfo q = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                               .queryType = VK_QUERY_TYPE_TIMESTAMP,
                               .queryCount = (uint32_t)t->stamps_max};
    VkResult r = d->vk.AllocateCommandBuffers(d->handle, &c, &t->commands);
    if (!r && t->stamps_max)
        r = d->vk.CreateQueryPool(d->handle, &q, NULL, &t->stamps);
    if (r) {
        tape_close(t);
        return device_failed(d, r, "making a tape", e);
    }
    times_open_tape(t);
    *out = t;
    return 0;
}

void tape_close(struct tape *t)
{
    if (!t)
        return;
    struct device *d = t->d;
    if (!d->stuck) {
        assert(device_done(d, t->value));
        times_close_tape(t);
        d->vk.DestroyQueryPool(d->handle, t->stamps, NULL);
        if (t->commands)
            d->vk.FreeCommandBuffers(d->handle, d->pool, 1, &t->commands);
    }
    mem_free(t);
}

void tape_begin(struct tape *t)
{
    struct device *d = t->d;
    err_clear(&t->failed);
    if (device_check(d, &t->failed))
        return;
    assert(device_done(d, t->value));
    t->n_stamps = 0;
    t->bound = NULL;
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkResult r = d->vk.BeginCommandBuffer(t->commands, &info);
    if (r) {
        device_failed(d, r, "recording a tape", &t->failed);
        return;
    }
    if (t->stamps_max)
        d->vk.CmdResetQueryPool(t->commands, t->stamps, 0, (uint32_t)t->stamps_max);
    times_begin(t);
    barrier(t, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_2_HOST_BIT,
            VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
            VK_ACCESS_2_MEMORY_READ_BIT | VK_ACCESS_2_MEMORY_WRITE_BIT);
}

void tape_dispatch(struct tape *t, const struct kernel *k, const void *params, size_t bytes,
                   struct grid g)
{
    struct vulkan *v = &t->d->vk;
    assert(bytes <= DEVICE_PARAMS_MAX && bytes % 4 == 0);
    assert(g.x <= 65535 && g.y <= 65535 && g.z <= 65535);
    if (t->failed.code || !g.x || !g.y || !g.z)
        return;
    if (t->bound != k)
        v->CmdBindPipeline(t->commands, VK_PIPELINE_BIND_POINT_COMPUTE, k->pipeline);
    t->bound = k;
    if (bytes)
        v->CmdPushConstants(t->commands, t->d->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                            (uint32_t)bytes, params);
    v->CmdDispatch(t->commands, g.x, g.y, g.z);
    times_dispatch(t, k, g);
}

void tape_barrier(struct tape *t)
{
    if (t->failed.code)
        return;
    times_barrier(t);
    barrier(t, VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT,
            VK_ACCESS_2_SHADER_READ_BIT | VK_ACCESS_2_SHADER_WRITE_BIT);
}

int tape_stamp(struct tape *t)
{
    int i = t->n_stamps++;
    if (!t->failed.code && i < t->stamps_max)
        t->d->vk.CmdWriteTimestamp2(t->commands, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, t->stamps,
                                    (uint32_t)i);
    return i;
}

int tape_end(struct tape *t, struct err *e)
{
    if (t->failed.code)
        return ERR(e, t->failed.code, "%s", t->failed.msg);
    times_end(t);
    barrier(t, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_2_HOST_BIT,
            VK_ACCESS_2_HOST_READ_BIT);
    VkResult r = t->d->vk.EndCommandBuffer(t->commands);
    return r ? device_failed(t->d, r, "recording a tape", e) : 0;
}

double tape_ns(const struct tape *t, int i, int j)
{
    uint64_t at[2];
    const int stamps[2] = {i, j};
    for (int k = 0; k < 2; k++) {
        if (stamps[k] >= t->stamps_max ||
            t->d->vk.GetQueryPoolResults(t->d->handle, t->stamps, (uint32_t)stamps[k], 1,
                                         sizeof at[k], &at[k], sizeof at[k],
                                         VK_QUERY_RESULT_64_BIT))
            return 0;
    }
    return ((double)at[1] - (double)at[0]) * t->d->found.info.tick_ns;
}

#endif
