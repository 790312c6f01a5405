/* Bytes from the host to a buffer and back; see device.h. Where the host sees the buffer it writes
 * there; else they go through two halves of a staging buffer, one filled while the other is
 * copied. */
#include "gpu/vulkan.h"

#ifdef HAVE_VULKAN

#include <assert.h>
#include <string.h>

#include "base/mem.h"

enum { HALF = 16 << 20 };

struct upload {
    struct device_buffer staging;
    struct tape *tape[2];
    int next; /* the half to use */
};

void upload_close(struct device *d)
{
    if (!d->upload)
        return;
    for (int i = 0; i < 2; i++)
        tape_close(d->upload->tape[i]);
    device_free(d, &d->upload->staging);
    mem_free(d->upload);
    d->upload = NULL;
}

static int upload_open(struct device *d, struct err *e)
{
    if (d->upload)
        return 0;
    d->upload = mem_zalloc(1, sizeof *d->upload);
    if (!d->upload)
        return ERR(e, E_NOMEM, "no memory for copies to the GPU");
    int rc = device_take(d, DEVICE_BACK, 2 * HALF, &d->upload->staging, e);
    for (int i = 0; !rc && i < 2; i++)
        rc = tape_open(d, 0, &d->upload->tape[i], e);
    if (rc)
        upload_close(d);
    return rc;
}

/* Starts a copy of n bytes between a half and b + off. */
static int copy(struct device *d, const struct device_buffer *b, size_t off, size_t n, bool back,
                struct err *e)
{
    struct upload *u = d->upload;
    struct tape *t = u->tape[u->next];
    size_t half = (size_t)u->next * HALF;
    VkBufferCopy region = {
        .srcOffset = back ? off : half, .dstOffset = back ? half : off, .size = n};
    VkBuffer host = u->staging.block->buffer, device = b->block->buffer;
    tape_begin(t);
    d->vk.CmdCopyBuffer(t->commands, back ? device : host, back ? host : device, 1, &region);
    int rc = tape_end(t, e);
    uint64_t value;
    return rc ? rc : device_submit(d, t, &value, e);
}

int device_upload(struct device *d, const struct device_buffer *b, size_t off, const void *data,
                  size_t n, struct err *e)
{
    assert(off <= b->bytes && n <= b->bytes - off);
    int rc = device_check(d, e);
    if (rc)
        return rc;
    if (b->host) {
        memcpy((char *)b->host + off, data, n);
        return 0;
    }
    rc = upload_open(d, e);
    for (size_t at = 0, part; !rc && at < n; at += part) {
        struct upload *u = d->upload;
        part = n - at < HALF ? n - at : HALF;
        rc = device_wait(d, u->tape[u->next]->value, e);
        if (rc)
            break;
        memcpy((char *)u->staging.host + (size_t)u->next * HALF, (const char *)data + at, part);
        rc = copy(d, b, off + at, part, false, e);
        u->next ^= 1;
    }
    return rc;
}

int device_download(struct device *d, const struct device_buffer *b, size_t off, void *data,
                    size_t n, struct err *e)
{
    assert(off <= b->bytes && n <= b->bytes - off);
    int rc = device_wait(d, d->tapes.started, e);
    if (rc)
        return rc;
    if (b->host) {
        memcpy(data, (const char *)b->host + off, n);
        return 0;
    }
    rc = upload_open(d, e);
    for (size_t at = 0, part; !rc && at < n; at += part) {
        struct upload *u = d->upload;
        part = n - at < HALF ? n - at : HALF;
        rc = copy(d, b, off + at, part, true, e);
        if (!rc)
            rc = device_wait(d, d->tapes.started, e);
        if (!rc)
            memcpy((char *)data + at, (char *)u->staging.host + (size_t)u->next * HALF, part);
    }
    return rc;
}

#endif
