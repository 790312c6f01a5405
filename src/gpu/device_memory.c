/* Memory of a device, and of the host as the device sees it; see device.h. */
#include "gpu/vulkan.h"

#ifdef HAVE_VULKAN

#include <assert.h>
#include <string.h>

#include "base/mem.h"

enum {
    LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    SEEN = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
};

/* Properties in the order of preference: all of `want`, none of `avoid`. */
struct preference {
    VkMemoryPropertyFlags want, avoid;
};

static int find_type(const struct device *d, uint32_t allowed, const struct preference *p, int n)
{
    for (int i = 0; i < n; i++)
        for (uint32_t t = 0; t < d->memory.memoryTypeCount; t++) {
            VkMemoryPropertyFlags has = d->memory.memoryTypes[t].propertyFlags;
            if ((allowed >> t & 1) && (has & p[i].want) == p[i].want && !(has & p[i].avoid))
                return (int)t;
        }
    return -1;
}

/* Local memory that the host does not see comes first: what it sees may be a small window. */
static int type_for(const struct device *d, enum device_memory m, uint32_t allowed)
{
    static const struct preference local[] = {
        {LOCAL, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT}, {LOCAL | SEEN, 0}, {LOCAL, 0}};
    static const struct preference shared[] = {{LOCAL | SEEN, 0}, {SEEN, CACHED}, {SEEN, 0}};
    static const struct preference back[] = {{SEEN | CACHED, LOCAL}, {SEEN | CACHED, 0}, {SEEN, 0}};
    static const struct preference unified[] = {{LOCAL | SEEN, 0}};
    if (d->found.info.unified && m == DEVICE_LOCAL)
        return find_type(d, allowed, unified, 1);
    return find_type(d, allowed, m == DEVICE_LOCAL ? local : m == DEVICE_SHARED ? shared : back, 3);
}

static VkResult create_buffer(struct device *d, size_t bytes, const void *next, VkBuffer *out)
{
    const uint32_t families[] = {d->found.family, d->found.copy_family};
    const bool two = families[0] != families[1];
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .pNext = next,
        .size = bytes,
        .sharingMode = two ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
        .queueFamilyIndexCount = two ? 2 : 0,
        .pQueueFamilyIndices = families,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    return d->vk.CreateBuffer(d->handle, &info, NULL, out);
}

static VkResult allocate(struct device *d, size_t bytes, int type, const void *next,
                         VkDeviceMemory *out)
{
    VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .pNext = next,
                                       .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .pNext = &flags,
                                 .allocationSize = bytes,
                                 .memoryTypeIndex = (uint32_t)type};
    return d->vk.AllocateMemory(d->handle, &info, NULL, out);
}

static VkResult bind(struct device *d, struct device_block *b, struct device_buffer *out)
{
    VkResult r = d->vk.BindBufferMemory(d->handle, b->buffer, b->memory, 0);
    if (r)
        return r;
    VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                      .buffer = b->buffer};
    out->address = d->vk.GetBufferDeviceAddress(d->handle, &info);
    return out->address ? VK_SUCCESS : VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static VkResult take(struct device *d, enum device_memory m, struct device_buffer *b)
{
    VkResult r = create_buffer(d, b->bytes, NULL, &b->block->buffer);
    if (r)
        return r;
    VkMemoryRequirements need;
    d->vk.GetBufferMemoryRequirements(d->handle, b->block->buffer, &need);
    int type = type_for(d, m, need.memoryTypeBits);
    if (type < 0)
        return VK_ERROR_FEATURE_NOT_PRESENT;
    r = allocate(d, need.size, type, NULL, &b->block->memory);
    if (!r)
        r = bind(d, b->block, b);
    if (!r && (d->memory.memoryTypes[type].propertyFlags & SEEN) == SEEN)
        r = d->vk.MapMemory(d->handle, b->block->memory, 0, VK_WHOLE_SIZE, 0, &b->host);
    return r;
}

int device_take(struct device *d, enum device_memory m, size_t bytes, struct device_buffer *out,
                struct err *e)
{
    static const char *const words[] = {"device memory", "memory shared with the host",
                                        "memory for results"};
    *out = (struct device_buffer){0};
    int rc = device_check(d, e);
    if (rc)
        return rc;
    assert(bytes > 0);
    if (bytes > d->found.buffer_bytes)
        return ERR(e, E_LIMIT, "%s: %zu bytes in one buffer, at most %llu", d->found.info.name,
                   bytes, (unsigned long long)d->found.buffer_bytes);
    struct device_buffer b = {.bytes = bytes, .block = mem_zalloc(1, sizeof *b.block)};
    if (!b.block)
        return ERR(e, E_NOMEM, "no memory for a buffer of the GPU");
    VkResult r = device_fault(d, FAULT_MEMORY) ? VK_ERROR_OUT_OF_DEVICE_MEMORY : take(d, m, &b);
    if (!r) {
        *out = b;
        return 0;
    }
    device_free(d, &b);
    if (r != VK_ERROR_OUT_OF_DEVICE_MEMORY && r != VK_ERROR_OUT_OF_HOST_MEMORY)
        return device_failed(d, r, "taking memory", e);
    return ERR(e, E_NOMEM, "%s: no room for %.1f MiB of %s (%.1f MiB of %.1f are free): %s",
               d->found.info.name, (double)bytes / 0x1p20, words[m],
               (double)device_free_bytes(d) / 0x1p20, (double)d->found.info.memory_bytes / 0x1p20,
               vulkan_says(r));
}

static VkResult import(struct device *d, void *pages, struct device_buffer *b)
{
    static const VkExternalMemoryHandleTypeFlagBits kind =
        VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    VkMemoryHostPointerPropertiesEXT p = {.sType =
                                              VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    VkResult r = d->vk.host_pointer(d->handle, kind, pages, &p);
    if (r)
        return r;
    VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, .handleTypes = kind};
    r = create_buffer(d, b->bytes, &external, &b->block->buffer);
    if (r)
        return r;
    VkMemoryRequirements need;
    d->vk.GetBufferMemoryRequirements(d->handle, b->block->buffer, &need);
    static const struct preference order[] = {{SEEN | CACHED, 0}, {SEEN, 0}, {0, 0}};
    int type = find_type(d, need.memoryTypeBits & p.memoryTypeBits, order, 3);
    if (type < 0 || need.size > b->bytes)
        return VK_ERROR_INVALID_EXTERNAL_HANDLE;
    VkImportMemoryHostPointerInfoEXT info = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .handleType = kind,
        .pHostPointer = pages};
    r = allocate(d, b->bytes, type, &info, &b->block->memory);
    return r ? r : bind(d, b->block, b);
}

int device_import(struct device *d, void *pages, size_t bytes, struct device_buffer *out,
                  struct err *e)
{
    *out = (struct device_buffer){0};
    int rc = device_check(d, e);
    if (rc)
        return rc;
    size_t align = d->found.info.import_align;
    if (!align || !d->vk.host_pointer)
        return ERR(e, E_UNSUPPORTED, "%s cannot use memory of the host in place (it lacks %s)",
                   d->found.info.name, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
    assert(bytes > 0 && bytes % align == 0 && (uintptr_t)pages % align == 0);
    if (bytes > d->found.buffer_bytes)
        return ERR(e, E_LIMIT, "%s: %zu bytes in one buffer, at most %llu", d->found.info.name,
                   bytes, (unsigned long long)d->found.buffer_bytes);
    struct device_buffer b = {
        .bytes = bytes, .host = pages, .block = mem_zalloc(1, sizeof *b.block)};
    if (!b.block)
        return ERR(e, E_NOMEM, "no memory for a buffer of the GPU");
    VkResult r =
        device_fault(d, FAULT_MEMORY) ? VK_ERROR_OUT_OF_DEVICE_MEMORY : import(d, pages, &b);
    if (r) {
        device_free(d, &b);
        return device_failed(d, r, "importing memory of the host", e);
    }
    *out = b;
    return 0;
}

void device_free(struct device *d, struct device_buffer *b)
{
    if (b->block && !d->stuck) {
        d->vk.DestroyBuffer(d->handle, b->block->buffer, NULL);
        d->vk.FreeMemory(d->handle, b->block->memory, NULL);
        mem_free(b->block);
    }
    *b = (struct device_buffer){0};
}

#endif
