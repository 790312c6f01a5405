/* Which devices there are, what they can do, and which one is meant; see device.h. */
#include "gpu/vulkan.h"

#ifdef HAVE_VULKAN

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"

/* What kernels and tapes cannot do without, and what they use where it is there. */
static const struct {
    const char *name;
    size_t at; /* in struct features */
    bool need;
} table[] = {
#define NEED(part, name)                                                                           \
    {                                                                                              \
#name, offsetof(struct features, part.name), true                                          \
    }
#define MAY(part, name)                                                                            \
    {                                                                                              \
#name, offsetof(struct features, part.name), false                                         \
    }
    NEED(base.features, shaderInt64),
    NEED(base.features, shaderInt16),
    NEED(v11, storageBuffer16BitAccess),
    NEED(v12, storageBuffer8BitAccess),
    NEED(v12, shaderInt8),
    NEED(v12, bufferDeviceAddress),
    NEED(v12, timelineSemaphore),
    NEED(v12, scalarBlockLayout),
    NEED(v13, synchronization2),
    NEED(v13, subgroupSizeControl),
    NEED(v13, shaderIntegerDotProduct),
    NEED(v13, maintenance4),
    MAY(v12, shaderFloat16),
    MAY(v12, vulkanMemoryModel),
    MAY(v12, vulkanMemoryModelDeviceScope),
#undef NEED
#undef MAY
};
enum { N_TABLE = sizeof table / sizeof table[0], EXTENSIONS_MAX = 512 };

static VkBool32 *feature(const struct features *f, int i)
{
    return (VkBool32 *)((char *)(uintptr_t)f + table[i].at);
}

void features_init(struct features *f, bool matrix)
{
    *f = (struct features){
        .base = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &f->v11},
        .v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &f->v12},
        .v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &f->v13},
        .v13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                .pNext = matrix ? &f->matrix : NULL},
        .matrix = {.sType = (VkStructureType)
                       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR},
    };
}

void features_wanted(const struct features *has, struct features *on)
{
    features_init(on, has->v13.pNext != NULL);
    on->matrix.cooperativeMatrix = has->matrix.cooperativeMatrix;
    for (int i = 0; i < N_TABLE; i++)
        *feature(on, i) = *feature(has, i);
}

const char *device_kind_name(enum device_kind k)
{
    static const char *const names[] = {"software", "integrated", "discrete"};
    return names[k];
}

static enum device_kind kind_of(VkPhysicalDeviceType t)
{
    switch (t) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: /* a share of one */
        return DEVICE_DISCRETE;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return DEVICE_SOFTWARE;
    default:
        return DEVICE_INTEGRATED;
    }
}

static void add_reason(struct device_info *info, const char *words)
{
    size_t n = strlen(info->why_not);
    snprintf(info->why_not + n, sizeof info->why_not - n, "%s%s", n ? ", " : "lacks ", words);
}

static bool has_extension(const VkExtensionProperties *all, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(all[i].extensionName, name) == 0)
            return true;
    return false;
}

/* The largest heap of device memory, and what of it this process may still take. */
static void measure_memory(const struct vulkan *v, const struct found *f, uint64_t *bytes,
                           uint64_t *left)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 m = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = f->budget ? &budget : NULL};
    v->GetPhysicalDeviceMemoryProperties2(f->handle, &m);
    *bytes = *left = 0;
    for (uint32_t i = 0; i < m.memoryProperties.memoryHeapCount; i++) {
        const VkMemoryHeap *h = &m.memoryProperties.memoryHeaps[i];
        if (!(h->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) || h->size <= *bytes)
            continue;
        *bytes = *left = h->size;
        if (f->budget)
            *left = budget.heapBudget[i] > budget.heapUsage[i]
                        ? budget.heapBudget[i] - budget.heapUsage[i]
                        : 0;
    }
}

uint64_t found_free_bytes(const struct vulkan *v, const struct found *f)
{
    uint64_t bytes, left;
    measure_memory(v, f, &bytes, &left);
    return left;
}

/* Whether there is a type of memory with all these properties, of the largest device heap. */
static bool has_memory(const struct vulkan *v, const struct found *f, VkMemoryPropertyFlags want)
{
    VkPhysicalDeviceMemoryProperties2 m = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    v->GetPhysicalDeviceMemoryProperties2(f->handle, &m);
    for (uint32_t i = 0; i < m.memoryProperties.memoryTypeCount; i++)
        if ((m.memoryProperties.memoryTypes[i].propertyFlags & want) == want)
            return true;
    return false;
}

static bool find_family(const struct vulkan *v, struct found *f, bool *clock)
{
    VkQueueFamilyProperties all[32];
    uint32_t n = 32;
    v->GetPhysicalDeviceQueueFamilyProperties(f->handle, &n, all);
    bool found = false;
    for (uint32_t i = 0; i < n; i++) {
        VkQueueFlags q = all[i].queueFlags;
        if (!f->info.copy_queue && (q & VK_QUEUE_TRANSFER_BIT) &&
            !(q & (VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT))) {
            f->info.copy_queue = true;
            f->copy_family = i;
        }
        if (!found && (q & VK_QUEUE_COMPUTE_BIT)) {
            found = true;
            f->family = i;
            *clock = all[i].timestampValidBits != 0;
        }
    }
    if (!f->info.copy_queue)
        f->copy_family = f->family;
    return found;
}

struct properties {
    VkPhysicalDeviceProperties2 base;
    VkPhysicalDeviceVulkan11Properties v11;
    VkPhysicalDeviceVulkan12Properties v12;
    VkPhysicalDeviceVulkan13Properties v13;
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT import;
};

static void properties_read(const struct vulkan *v, VkPhysicalDevice handle, bool import,
                            struct properties *p)
{
    *p = (struct properties){
        .base = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &p->v11},
        .v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, .pNext = &p->v12},
        .v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES, .pNext = &p->v13},
        .v13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES,
                .pNext = import ? &p->import : NULL},
        .import = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT}};
    v->GetPhysicalDeviceProperties2(handle, &p->base);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void describe(struct device_info *info, const struct properties *p, bool import)
{
    const VkPhysicalDeviceLimits *l = &p->base.properties.limits;
    snprintf(info->name, sizeof info->name, "%s", p->base.properties.deviceName);
    snprintf(info->driver, sizeof info->driver, "%.120s %.120s", p->v12.driverName,
             p->v12.driverInfo);
    info->kind = kind_of(p->base.properties.deviceType);
    info->buffer_bytes_max =
        least(least(p->v11.maxMemoryAllocationSize, p->v13.maxBufferSize), (uint64_t)4 << 30);
    info->workgroup_bytes = l->maxComputeSharedMemorySize;
    info->import_align = import ? p->import.minImportedHostPointerAlignment : 0;
    info->subgroup_min = (int)p->v13.minSubgroupSize;
    info->subgroup_max = (int)p->v13.maxSubgroupSize;
    bool any = p->v13.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT;
    info->subgroup =
        any && info->subgroup_min <= 32 && info->subgroup_max >= 32 ? 32 : (int)p->v11.subgroupSize;
    info->tick_ns = l->timestampPeriod;
    info->dot = p->v13.integerDotProduct4x8BitPackedSignedAccelerated;
    if (l->maxPushConstantsSize < DEVICE_PARAMS_MAX)
        add_reason(info, "128 bytes of push constants");
}

/* The largest matrices that the kernels of src/gpu/coop can be made of: units of 16 bytes, at most
 * a group of weights deep, elements that a subgroup shares evenly. */
static void find_matrix(const struct vulkan *v, struct found *f, const struct features *has)
{
    enum { MOST = 256, UNIT = 16, DEPTH_MOST = 64, SIDE_MOST = 16 };
    VkCooperativeMatrixPropertiesKHR all[MOST];
    uint32_t n = MOST, subgroup = (uint32_t)f->info.subgroup, best = 0;
    if (!has->matrix.cooperativeMatrix || !has->v12.vulkanMemoryModel || !v->matrices ||
        env_get(ENV_DEVICE_NO_MATRIX))
        return;
    for (uint32_t i = 0; i < MOST; i++)
        all[i] = (VkCooperativeMatrixPropertiesKHR){
            .sType = (VkStructureType)VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR};
    if (v->matrices(f->handle, &n, all) < 0)
        return;
    for (uint32_t i = 0; i < n; i++) {
        const VkCooperativeMatrixPropertiesKHR *p = &all[i];
        bool types = p->AType == VK_COMPONENT_TYPE_SINT8_KHR &&
                     p->BType == VK_COMPONENT_TYPE_SINT8_KHR &&
                     p->CType == VK_COMPONENT_TYPE_SINT32_KHR &&
                     p->ResultType == VK_COMPONENT_TYPE_SINT32_KHR;
        if (!types || p->scope != VK_SCOPE_SUBGROUP_KHR || p->saturatingAccumulation ||
            p->MSize > SIDE_MOST || SIDE_MOST % p->MSize || p->NSize > SIDE_MOST ||
            SIDE_MOST % p->NSize || p->KSize % UNIT || DEPTH_MOST % p->KSize ||
            p->MSize * p->NSize % subgroup || p->MSize * p->NSize * p->KSize <= best)
            continue;
        best = p->MSize * p->NSize * p->KSize;
        f->info.matrix = (struct device_matrix){(int)p->MSize, (int)p->NSize, (int)p->KSize};
    }
}

/* One device. Those of a version before 1.3 are told apart by name alone. */
static void inspect(const struct vulkan *v, VkPhysicalDevice handle, struct found *f)
{
    *f = (struct found){.handle = handle};
    struct device_info *info = &f->info;
    VkPhysicalDeviceProperties2 base = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    v->GetPhysicalDeviceProperties2(handle, &base);
    if (base.properties.apiVersion < VK_API_VERSION_1_3) {
        snprintf(info->name, sizeof info->name, "%s", base.properties.deviceName);
        info->kind = kind_of(base.properties.deviceType);
        snprintf(info->why_not, sizeof info->why_not, "its driver has Vulkan %u.%u, want 1.3",
                 VK_API_VERSION_MAJOR(base.properties.apiVersion),
                 VK_API_VERSION_MINOR(base.properties.apiVersion));
        measure_memory(v, f, &info->memory_bytes, &info->free_bytes);
        return;
    }
    VkExtensionProperties extensions[EXTENSIONS_MAX];
    uint32_t n = EXTENSIONS_MAX;
    if (v->EnumerateDeviceExtensionProperties(handle, NULL, &n, extensions) < 0)
        n = 0;
    bool import = has_extension(extensions, n, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
    f->budget = has_extension(extensions, n, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    struct properties p;
    properties_read(v, handle, import, &p);
    describe(info, &p, import);
    f->buffer_bytes = p.v13.maxBufferSize;
    measure_memory(v, f, &info->memory_bytes, &info->free_bytes);
    struct features has;
    features_init(&has, has_extension(extensions, n, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME));
    v->GetPhysicalDeviceFeatures2(handle, &has.base);
    for (int i = 0; i < N_TABLE; i++)
        if (table[i].need && !*feature(&has, i))
            add_reason(info, table[i].name);
    info->half = has.v12.shaderFloat16;
    find_matrix(v, f, &has);
    bool clock = false;
    if (!find_family(v, f, &clock))
        add_reason(info, "a queue for kernels");
    if (!clock)
        info->tick_ns = 0;
    VkMemoryPropertyFlags shared = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                                   VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                   VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    info->shared_local = has_memory(v, f, shared);
    info->unified = info->kind != DEVICE_DISCRETE && info->shared_local;
}

static bool better(const struct device_info *a, const struct device_info *b)
{
    return a->kind != b->kind ? a->kind > b->kind : a->memory_bytes > b->memory_bytes;
}

int found_list(struct vulkan *v, struct found out[DEVICES_MAX], int *n, struct err *e)
{
    VkPhysicalDevice handles[DEVICES_MAX];
    uint32_t count = DEVICES_MAX;
    VkResult r = v->EnumeratePhysicalDevices(v->instance, &count, handles);
    *n = 0;
    if (r == VK_ERROR_INITIALIZATION_FAILED) /* what some loaders say where no driver is */
        count = 0;
    else if (r < 0)
        return ERR(e, E_IO, "Vulkan does not list its devices: %s", vulkan_says(r));
    for (uint32_t i = 0; i < count; i++) {
        struct found f;
        inspect(v, handles[i], &f);
        int at = (*n)++;
        for (; at > 0 && better(&f.info, &out[at - 1].info); at--)
            out[at] = out[at - 1];
        out[at] = f;
    }
    for (int i = 0; i < *n; i++)
        out[i].info.number = i;
    return 0;
}

static bool holds(const char *text, const char *part)
{
    size_t n = strlen(part);
    for (; *text; text++) {
        size_t i = 0;
        while (i < n && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
            i++;
        if (i == n)
            return true;
    }
    return false;
}

/* Whether the ith device is one that `which` means. */
static bool means(const char *which, const struct device_info *info, int i)
{
    char *end;
    if (!which)
        return info->kind != DEVICE_SOFTWARE && !info->why_not[0];
    if (strcmp(which, "any") == 0)
        return !info->why_not[0];
    for (int k = DEVICE_SOFTWARE; k <= DEVICE_DISCRETE; k++)
        if (strcmp(which, device_kind_name(k)) == 0)
            return info->kind == (enum device_kind)k;
    long number = strtol(which, &end, 10);
    return *end ? holds(info->name, which) : number == i;
}

/* "; there is: 0 NVIDIA H200, 1 llvmpipe (software)" behind a message. */
static void say_all(const struct found *all, int n, char *room, size_t size)
{
    size_t at = 0;
    room[0] = '\0';
    for (int i = 0; i < n && at < size; i++)
        at +=
            (size_t)snprintf(room + at, size - at, "%s%d %s (%s%s%s)", i ? ", " : "; there is: ", i,
                             all[i].info.name, device_kind_name(all[i].info.kind),
                             all[i].info.why_not[0] ? ", " : "", all[i].info.why_not);
}

int found_pick(const struct found *all, int n, const char *which, int *index, struct err *e)
{
    if (!which)
        which = env_get(ENV_DEVICE);
    for (*index = 0; *index < n; ++*index)
        if (means(which, &all[*index].info, *index))
            break;
    char rest[700];
    say_all(all, n, rest, sizeof rest);
    if (*index == n && !which && n)
        return ERR(
            e, E_NOTFOUND,
            "no GPU that the engine can use%s; CHERENKOV_DEVICE=software takes a device that "
            "the processor plays, which is slower than --engine cpu",
            rest);
    if (*index == n)
        return ERR(e, E_NOTFOUND, "no Vulkan device%s%s%s%s", which ? " is meant by '" : "",
                   which ? which : "", which ? "'" : "", rest);
    const struct device_info *info = &all[*index].info;
    if (info->why_not[0])
        return ERR(e, E_UNSUPPORTED, "%s cannot run the gpu engine: it %s", info->name,
                   info->why_not);
    return 0;
}

int device_list(struct device_info out[DEVICES_MAX], int *n, struct err *e)
{
    struct vulkan v;
    struct found all[DEVICES_MAX];
    *n = 0;
    int rc = vulkan_open(&v, e);
    if (rc)
        return rc;
    rc = found_list(&v, all, n, e);
    for (int i = 0; i < *n; i++)
        out[i] = all[i].info;
    vulkan_close(&v);
    return rc;
}

int device_pick(const char *which, struct device_info *out, struct err *e)
{
    struct vulkan v;
    struct found all[DEVICES_MAX];
    int n, at, rc = vulkan_open(&v, e);
    if (rc)
        return rc;
    rc = found_list(&v, all, &n, e);
    if (!rc)
        rc = found_pick(all, n, which, &at, e);
    if (!rc)
        *out = all[at].info;
    vulkan_close(&v);
    return rc;
}

#endif
