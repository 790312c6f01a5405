/* Opening a device, starting tapes on it, waiting for them, and what happens when it fails; see
 * device.h.
 *
 * Three timelines order everything. `tapes` and `copies` count what ended on the two queues; `go`
 * is the host's, and holds back tapes that were submitted ahead. The host never blocks without a
 * limit: a wait looks at its timeline often for spin_ns, because a blocking wait costs 27 us more
 * on an H200, then sleeps in slices until patience_ns have passed.
 *
 *     open --submit, wait--> open --lost or late--> failed (every call says why) --> closed */
#include "gpu/vulkan.h"

#ifdef HAVE_VULKAN

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"

static const uint64_t second_ns = 1000000000, slice_ns = 50000000;

/* --- failing --- */

bool device_fault(struct device *d, enum device_fault f)
{
    if (d->fault[f] > 1)
        d->fault[f]--;
    else if (d->fault[f] == 1)
        return true;
    return false;
}

/* CHERENKOV_DEVICE_FAULT */
static int faults_read(struct device *d, struct err *e)
{
    static const char *const names[FAULT_COUNT] = {"memory", "kernel", "lost", "late"};
    const char *s = env_get(ENV_DEVICE_FAULT);
    while (s && *s) {
        size_t n = strcspn(s, ":");
        int f = 0;
        while (f < FAULT_COUNT && (strlen(names[f]) != n || strncmp(s, names[f], n) != 0))
            f++;
        char *end = NULL;
        long nth = s[n] ? strtol(s + n + 1, &end, 10) : 0;
        if (f == FAULT_COUNT || nth < 1 || (*end && *end != ','))
            return ERR(e, E_ARG, "%s: '%s' is not NAME:N with memory, kernel, lost or late",
                       env_name(ENV_DEVICE_FAULT), s);
        d->fault[f] = nth;
        s = *end ? end + 1 : end;
    }
    return 0;
}

/* Whether all that was submitted has ended, or can no longer run, within limit_ns. */
static bool drain(struct device *d, uint64_t limit_ns)
{
    const VkSemaphore all[] = {d->tapes.semaphore, d->copies.semaphore};
    const uint64_t values[] = {d->tapes.started, d->copies.started};
    if (!values[0] && !values[1])
        return true;
    VkSemaphoreWaitInfo w = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                             .semaphoreCount = 2,
                             .pSemaphores = all,
                             .pValues = values};
    return d->vk.WaitSemaphores(d->handle, &w, limit_ns) != VK_TIMEOUT;
}

static void release(struct device *d, uint64_t go)
{
    if (go <= d->released)
        return;
    VkSemaphoreSignalInfo s = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = d->go, .value = go};
    if (d->vk.SignalSemaphore(d->handle, &s) == VK_SUCCESS)
        d->released = go;
}

int device_give_up(struct device *d, VkResult r, const char *doing, struct err *e)
{
    if (!d->failed.code) {
        err_set(&d->failed, E_IO, "%s: %s: %s; the gpu engine must be opened again",
                d->found.info.name, doing, vulkan_says(r));
        release(d, d->promised);
        d->stuck = !drain(d, 2 * second_ns);
    }
    return device_check(d, e);
}

int device_failed(struct device *d, VkResult r, const char *doing, struct err *e)
{
    if (r == VK_ERROR_DEVICE_LOST)
        return device_give_up(d, r, doing, e);
    bool memory = r == VK_ERROR_OUT_OF_DEVICE_MEMORY || r == VK_ERROR_OUT_OF_HOST_MEMORY;
    return ERR(e, memory ? E_NOMEM : E_IO, "%s: %s: %s", d->found.info.name, doing, vulkan_says(r));
}

int device_check(const struct device *d, struct err *e)
{
    return d->failed.code ? ERR(e, d->failed.code, "%s", d->failed.msg) : 0;
}

/* --- opening --- */

static int create_device(struct device *d, struct err *e)
{
    const bool matrix = d->found.info.matrix.m != 0;
    struct features has, on;
    features_init(&has, matrix);
    d->vk.GetPhysicalDeviceFeatures2(d->found.handle, &has.base);
    features_wanted(&has, &on);
    const char *extensions[2];
    uint32_t n = 0;
    if (d->found.info.import_align)
        extensions[n++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
    if (matrix)
        extensions[n++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
    float priority = 1;
    const uint32_t families[] = {d->found.family, d->found.copy_family};
    VkDeviceQueueCreateInfo queues[2];
    for (int i = 0; i < 2; i++)
        queues[i] = (VkDeviceQueueCreateInfo){.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                              .queueFamilyIndex = families[i],
                                              .queueCount = 1,
                                              .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &on.base,
                               .queueCreateInfoCount = families[0] != families[1] ? 2 : 1,
                               .pQueueCreateInfos = queues,
                               .enabledExtensionCount = n,
                               .ppEnabledExtensionNames = extensions};
    VkResult r = d->vk.CreateDevice(d->found.handle, &info, NULL, &d->handle);
    if (r)
        return device_failed(d, r, "opening the device", e);
    int rc = vulkan_find_device(&d->vk, d->handle, e);
    if (rc)
        return rc;
    d->vk.GetDeviceQueue(d->handle, families[0], 0, &d->queue);
    d->vk.GetDeviceQueue(d->handle, families[1], 0, &d->copy_queue);
    VkPhysicalDeviceMemoryProperties2 m = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    d->vk.GetPhysicalDeviceMemoryProperties2(d->found.handle, &m);
    d->memory = m.memoryProperties;
    return 0;
}

static VkResult create_timeline(struct device *d, VkSemaphore *out)
{
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    return d->vk.CreateSemaphore(d->handle, &info, NULL, out);
}

static int create_objects(struct device *d, struct err *e)
{
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                                 .size = DEVICE_PARAMS_MAX};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    VkPipelineCacheCreateInfo cache = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = d->found.family};
    VkResult r = create_timeline(d, &d->tapes.semaphore);
    if (!r)
        r = create_timeline(d, &d->copies.semaphore);
    if (!r)
        r = create_timeline(d, &d->go);
    if (!r)
        r = d->vk.CreatePipelineLayout(d->handle, &layout, NULL, &d->layout);
    if (!r)
        r = d->vk.CreatePipelineCache(d->handle, &cache, NULL, &d->cache);
    if (!r)
        r = d->vk.CreateCommandPool(d->handle, &pool, NULL, &d->pool);
    if (!r)
        r = copies_open(d);
    return r ? device_failed(d, r, "opening the device", e) : 0;
}

static int settle(struct device *d, struct err *e)
{
    bool software = d->found.info.kind == DEVICE_SOFTWARE;
    long seconds = software ? 600 : 60;
    const char *s = env_get(ENV_DEVICE_SECONDS);
    if (s) {
        char *end;
        seconds = strtol(s, &end, 10);
        if (*end || seconds < 1 || seconds > 86400)
            return ERR(e, E_ARG, "%s: '%s' is not a number of seconds, 1 to 86400",
                       env_name(ENV_DEVICE_SECONDS), s);
    }
    d->patience_ns = (uint64_t)seconds * second_ns;
    /* A device that the processor plays needs the processor that would look. */
    d->spin_ns = software || os_cpu_count() < 2 ? 0 : 4000000;
    int rc = times_open(d, e);
    return rc ? rc : faults_read(d, e);
}

int device_open(const char *which, struct device **out, struct err *e)
{
    *out = NULL;
    struct device *d = mem_zalloc(1, sizeof *d);
    struct found *all = mem_zalloc(DEVICES_MAX, sizeof *all);
    int n = 0, at = 0;
    int rc = d && all ? vulkan_open(&d->vk, e) : ERR(e, E_NOMEM, "no memory to open a GPU");
    if (!rc)
        rc = found_list(&d->vk, all, &n, e);
    if (!rc)
        rc = found_pick(all, n, which, &at, e);
    if (!rc) {
        d->found = all[at];
        rc = settle(d, e);
    }
    if (!rc)
        rc = create_device(d, e);
    if (!rc)
        rc = create_objects(d, e);
    mem_free(all);
    if (rc)
        device_close(d);
    else
        *out = d;
    return rc;
}

static void destroy(struct device *d)
{
    struct vulkan *v = &d->vk;
    upload_close(d);
    copies_close(d);
    kernel_free_all(d);
    v->DestroyCommandPool(d->handle, d->pool, NULL);
    v->DestroyPipelineCache(d->handle, d->cache, NULL);
    v->DestroyPipelineLayout(d->handle, d->layout, NULL);
    v->DestroySemaphore(d->handle, d->go, NULL);
    v->DestroySemaphore(d->handle, d->copies.semaphore, NULL);
    v->DestroySemaphore(d->handle, d->tapes.semaphore, NULL);
    v->DestroyDevice(d->handle, NULL);
}

void device_close(struct device *d)
{
    if (!d)
        return;
    if (d->handle && d->vk.DestroyDevice) {
        release(d, d->promised);
        if (!d->stuck && drain(d, d->patience_ns)) {
            times_close(d);
            destroy(d);
        } else {
            log_say(LOG_WARN, "%s does not come to an end; its memory stays taken",
                    d->found.info.name);
            return; /* what still runs uses all of it */
        }
    }
    vulkan_close(&d->vk);
    mem_free(d);
}

const struct device_info *device_about(const struct device *d)
{
    return &d->found.info;
}

uint64_t device_free_bytes(const struct device *d)
{
    return found_free_bytes(&d->vk, &d->found);
}

const struct device_complaints *device_complaints(const struct device *d)
{
    return &d->vk.complaints;
}

/* --- running --- */

enum { AHEAD_MAX = 256 };

int device_submit(struct device *d, struct tape *t, uint64_t *value, struct err *e)
{
    static const uint64_t at_once = 0;
    return device_submit_ahead(d, &t, 1, &at_once, value, e);
}

/* A tape as Vulkan takes it, with points of timelines: two to wait for, one to reach. */
struct start {
    VkSubmitInfo2 *info;
    VkCommandBufferSubmitInfo commands;
    VkSemaphoreSubmitInfo wait[2], reach;
};

static void fill_start(struct device *d, struct tape *t, uint64_t go, uint64_t copies,
                       struct start *s)
{
    uint32_t n = 0;
    if (go)
        s->wait[n++] = timeline_point(d->go, go);
    if (copies)
        s->wait[n++] = timeline_point(d->copies.semaphore, copies);
    s->reach = timeline_point(d->tapes.semaphore, t->value);
    s->commands = (VkCommandBufferSubmitInfo){.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO,
                                              .commandBuffer = t->commands};
    *s->info = (VkSubmitInfo2){.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
                               .waitSemaphoreInfoCount = n,
                               .pWaitSemaphoreInfos = s->wait,
                               .commandBufferInfoCount = 1,
                               .pCommandBufferInfos = &s->commands,
                               .signalSemaphoreInfoCount = 1,
                               .pSignalSemaphoreInfos = &s->reach};
}

int device_submit_ahead(struct device *d, struct tape *const *tapes, int n, const uint64_t *go,
                        uint64_t *value, struct err *e)
{
    VkSubmitInfo2 info[AHEAD_MAX];
    struct start s[AHEAD_MAX];
    assert(n >= 1 && n <= AHEAD_MAX);
    int rc = device_check(d, e);
    if (rc)
        return rc;
    if (device_fault(d, FAULT_LOST))
        return device_give_up(d, VK_ERROR_DEVICE_LOST, "starting work", e);
    uint64_t promised = d->promised;
    for (int i = 0; i < n; i++) {
        assert(device_done(d, tapes[i]->value)); /* its last run has ended */
        assert(go[i] == 0 || go[i] >= promised);
        promised = go[i] ? go[i] : promised;
        times_collect(tapes[i]);
        tapes[i]->value = d->tapes.started + (uint64_t)i + 1;
        s[i].info = &info[i];
        fill_start(d, tapes[i], go[i], i ? 0 : d->awaited, &s[i]);
    }
    VkResult r = d->vk.QueueSubmit2(d->queue, (uint32_t)n, info, VK_NULL_HANDLE);
    if (r) {
        for (int i = 0; i < n; i++)
            tapes[i]->value = 0;
        return device_failed(d, r, "starting work", e);
    }
    d->promised = promised;
    d->seen = d->awaited ? d->awaited : d->seen;
    d->awaited = 0;
    *value = d->tapes.started += (uint64_t)n;
    return 0;
}

int device_release(struct device *d, uint64_t go, struct err *e)
{
    int rc = device_check(d, e);
    if (rc)
        return rc;
    release(d, go);
    return d->released < go ? device_give_up(d, VK_ERROR_DEVICE_LOST, "releasing work", e) : 0;
}

bool device_lost(const struct device *d)
{
    return d->failed.code != 0;
}

/* Reads the counter. A lost device may leave it at any value. */
static VkResult look(struct device *d, struct timeline *t)
{
    uint64_t now = 0;
    VkResult r = d->vk.GetSemaphoreCounterValue(d->handle, t->semaphore, &now);
    if (!r && now > t->started)
        r = VK_ERROR_DEVICE_LOST;
    if (!r && now > t->reached)
        t->reached = now;
    return r;
}

bool timeline_done(struct device *d, struct timeline *t, uint64_t value)
{
    if (value <= t->reached || d->failed.code)
        return true;
    return look(d, t) != VK_SUCCESS || value <= t->reached;
}

bool device_done(struct device *d, uint64_t value)
{
    return timeline_done(d, &d->tapes, value);
}

static VkResult wait_for(struct device *d, struct timeline *t, uint64_t value)
{
    uint64_t start = clock_ns();
    VkResult r = VK_SUCCESS;
    while (!r && t->reached < value && clock_ns() - start < d->spin_ns)
        r = look(d, t);
    VkSemaphoreWaitInfo w = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                             .semaphoreCount = 1,
                             .pSemaphores = &t->semaphore,
                             .pValues = &value};
    while (!r && t->reached < value) {
        r = d->vk.WaitSemaphores(d->handle, &w, slice_ns);
        if (r == VK_SUCCESS || r == VK_TIMEOUT)
            r = look(d, t);
        if (!r && t->reached < value && clock_ns() - start > d->patience_ns)
            r = VK_TIMEOUT;
    }
    return r;
}

int timeline_wait(struct device *d, struct timeline *t, uint64_t value, struct err *e)
{
    int rc = device_check(d, e);
    if (rc)
        return rc;
    assert(value <= t->started);
    VkResult r = device_fault(d, FAULT_LATE) ? VK_TIMEOUT : wait_for(d, t, value);
    if (r)
        return device_give_up(d, r, "waiting for it", e);
    if (d->vk.complaints.n)
        return ERR(e, E_IO, "Vulkan's validation layer: %s", d->vk.complaints.first);
    return 0;
}

int device_wait(struct device *d, uint64_t value, struct err *e)
{
    return timeline_wait(d, &d->tapes, value, e);
}

#endif
