/* Copies beside the tapes; see device.h.
 *
 * Each is a command buffer of its own, from a ring, with a value of its own: who waits for one does
 * not wait for those behind it. They are copy commands, which run on engines of their own: 47 to
 * 50 GB/s from the host's memory to an H200, as fast as a kernel reads there
 * (bench/results/gpu.md), and no kernel is slower for it. */
#include "gpu/vulkan.h"

#ifdef HAVE_VULKAN

#include <assert.h>

#include "base/mem.h"

enum { RING = 4 * DEVICE_COPIES_MAX };

struct copies {
    VkCommandPool pool;
    VkCommandBuffer commands[RING];
    uint64_t value[RING]; /* of the last run */
    int next;
};

VkResult copies_open(struct device *d)
{
    struct copies *x = d->beside = mem_zalloc(1, sizeof *x);
    if (!x)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = d->found.copy_family};
    VkResult r = d->vk.CreateCommandPool(d->handle, &pool, NULL, &x->pool);
    VkCommandBufferAllocateInfo c = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                     .commandPool = x->pool,
                                     .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                     .commandBufferCount = RING};
    return r ? r : d->vk.AllocateCommandBuffers(d->handle, &c, x->commands);
}

void copies_close(struct device *d)
{
    if (d->beside)
        d->vk.DestroyCommandPool(d->handle, d->beside->pool, NULL);
    mem_free(d->beside);
    d->beside = NULL;
}

static VkResult record(struct device *d, VkCommandBuffer commands, const struct device_copy *c)
{
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkBufferCopy region = {.srcOffset = c->from_off, .dstOffset = c->to_off, .size = c->bytes};
    VkResult r = d->vk.BeginCommandBuffer(commands, &info);
    if (r)
        return r;
    d->vk.CmdCopyBuffer(commands, c->from->block->buffer, c->to->block->buffer, 1, &region);
    return d->vk.EndCommandBuffer(commands);
}

static VkResult start(struct device *d, const VkCommandBuffer *commands, int n, uint64_t after)
{
    VkSubmitInfo2 info[DEVICE_COPIES_MAX];
    VkSemaphoreSubmitInfo wait = timeline_point(d->tapes.semaphore, after),
                          reach[DEVICE_COPIES_MAX];
    VkCommandBufferSubmitInfo c[DEVICE_COPIES_MAX];
    for (int i = 0; i < n; i++) {
        reach[i] = timeline_point(d->copies.semaphore, d->copies.started + (uint64_t)i + 1);
        c[i] = (VkCommandBufferSubmitInfo){.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO,
                                           .commandBuffer = commands[i]};
        info[i] = (VkSubmitInfo2){.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
                                  .waitSemaphoreInfoCount = after != 0,
                                  .pWaitSemaphoreInfos = &wait,
                                  .commandBufferInfoCount = 1,
                                  .pCommandBufferInfos = &c[i],
                                  .signalSemaphoreInfoCount = 1,
                                  .pSignalSemaphoreInfos = &reach[i]};
    }
    return d->vk.QueueSubmit2(d->copy_queue, (uint32_t)n, info, VK_NULL_HANDLE);
}

int device_copy(struct device *d, const struct device_copy *c, int n, uint64_t after,
                uint64_t *value, struct err *e)
{
    struct copies *x = d->beside;
    VkCommandBuffer commands[DEVICE_COPIES_MAX];
    assert(n >= 1 && n <= DEVICE_COPIES_MAX && after <= d->tapes.started);
    int rc = device_check(d, e), first = x->next;
    if (!rc && device_fault(d, FAULT_LOST))
        return device_give_up(d, VK_ERROR_DEVICE_LOST, "starting a copy", e);
    VkResult r = VK_SUCCESS;
    for (int i = 0; !rc && !r && i < n; i++) {
        int at = (first + i) % RING;
        if (!device_copied(d, x->value[at]))
            rc = device_wait_copied(d, x->value[at], e);
        commands[i] = x->commands[at];
        r = rc ? r : record(d, commands[i], &c[i]);
    }
    if (!rc && !r)
        r = start(d, commands, n, after);
    if (rc || r)
        return rc ? rc : device_failed(d, r, "starting a copy", e);
    for (int i = 0; i < n; i++)
        x->value[(first + i) % RING] = d->copies.started + (uint64_t)i + 1;
    x->next = (first + n) % RING;
    *value = d->copies.started += (uint64_t)n;
    return 0;
}

bool device_copied(struct device *d, uint64_t value)
{
    return timeline_done(d, &d->copies, value);
}

int device_wait_copied(struct device *d, uint64_t value, struct err *e)
{
    return timeline_wait(d, &d->copies, value, e);
}

void device_after_copies(struct device *d, uint64_t value)
{
    assert(value <= d->copies.started);
    if (value > d->seen && value > d->awaited)
        d->awaited = value;
}

#endif
