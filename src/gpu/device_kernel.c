/* Kernels: pipelines from the code that the build embedded; see device.h. */
#include "gpu/vulkan.h"

#ifdef HAVE_VULKAN

#include <assert.h>
#include <string.h>

#include "base/mem.h"

enum { CONSTANTS_MAX = 16 };

static VkResult create(struct device *d, const struct kernel_code *code, struct kernel *k)
{
    uint32_t values[CONSTANTS_MAX + 1];
    VkSpecializationMapEntry map[CONSTANTS_MAX + 1];
    values[0] = (uint32_t)d->found.info.subgroup;
    memcpy(values + 1, k->constants, (size_t)k->n * sizeof values[0]);
    for (int i = 0; i <= k->n; i++)
        map[i] = (VkSpecializationMapEntry){(uint32_t)i, (uint32_t)i * 4, 4};
    VkSpecializationInfo special = {.mapEntryCount = (uint32_t)k->n + 1,
                                    .pMapEntries = map,
                                    .dataSize = ((size_t)k->n + 1) * 4,
                                    .pData = values};
    VkShaderModuleCreateInfo module = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                       .codeSize = code->bytes,
                                       .pCode = code->words};
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = values[0]};
    bool choice = d->found.info.subgroup_min != d->found.info.subgroup_max;
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = choice ? &size : NULL,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .pName = "main",
                  .pSpecializationInfo = &special},
        .layout = d->layout};
    VkResult r = d->vk.CreateShaderModule(d->handle, &module, NULL, &info.stage.module);
    if (r)
        return r;
    r = d->vk.CreateComputePipelines(d->handle, d->cache, 1, &info, NULL, &k->pipeline);
    d->vk.DestroyShaderModule(d->handle, info.stage.module, NULL);
    return r;
}

static const struct kernel_code *find_code(const char *name)
{
    const struct kernel_code *c = kernel_codes;
    while (c->name && strcmp(c->name, name) != 0)
        c++;
    return c->name ? c : NULL;
}

/* Blocks ask for their kernels whenever they record, hundreds of times for a step. */
static uint32_t kernel_hash(const char *name, const uint32_t *constants, int n)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    for (int i = 0; i < n; i++)
        h = (h ^ constants[i]) * 16777619u;
    return (h ^ h >> 16) % KERNEL_BUCKETS;
}

int device_kernel(struct device *d, const char *name, const uint32_t *constants, int n,
                  const struct kernel **out, struct err *e)
{
    *out = NULL;
    int rc = device_check(d, e);
    if (rc)
        return rc;
    assert(n >= 0 && n <= CONSTANTS_MAX);
    size_t bytes = (size_t)n * sizeof constants[0];
    struct kernel **bucket = &d->kernels[kernel_hash(name, constants, n)];
    for (struct kernel *k = *bucket; k; k = k->next)
        if (strcmp(k->name, name) == 0 && k->n == n &&
            (!n || memcmp(k->constants, constants, bytes) == 0)) {
            *out = k;
            return 0;
        }
    const struct kernel_code *code = find_code(name);
    if (!code)
        return ERR(e, E_NOTFOUND, "there is no kernel src/gpu/%s.comp in this build", name);
    struct kernel *k = mem_zalloc(1, sizeof *k + bytes);
    if (!k)
        return ERR(e, E_NOMEM, "no memory for kernel %s", name);
    k->name = code->name;
    k->n = n;
    if (n)
        memcpy(k->constants, constants, bytes);
    VkResult r = device_fault(d, FAULT_KERNEL) ? VK_ERROR_OUT_OF_HOST_MEMORY : create(d, code, k);
    if (r) {
        mem_free(k);
        device_failed(d, r, "compiling a kernel", e);
        return err_prefix(e, "%s", name);
    }
    k->next = *bucket;
    *out = *bucket = k;
    return 0;
}

int device_kernels(const struct device *d)
{
    int n = 0;
    for (int i = 0; i < KERNEL_BUCKETS; i++)
        for (const struct kernel *k = d->kernels[i]; k; k = k->next)
            n++;
    return n;
}

void kernel_free_all(struct device *d)
{
    for (int i = 0; i < KERNEL_BUCKETS; i++)
        while (d->kernels[i]) {
            struct kernel *k = d->kernels[i];
            d->kernels[i] = k->next;
            d->vk.DestroyPipeline(d->handle, k->pipeline, NULL);
            mem_free(k);
        }
}

#endif
