/* Bytes from the host to a buffer and back; see device.h. Where the host sees the buffer it writes
 * there; else they go through two halves of a staging buffer, one filled while the other is
 * copied. */
#include "gpu/vulkan.h"

#ifdef HAVE_VULKAN

#include <assert.h>
#include <string.h>

#include "base/mem.h"

enum { HALF = 16 << 20, PARTS = 64 };

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

/* Parts of pieces that go through one half, one behind another. */
struct load {
    int n;
    struct {
        char *data;
        VkBufferCopy back; /* from the buffer to the staging buffer */
    } part[PARTS];
};

/* What is left of the pieces. */
struct rest {
    const struct device_piece *piece;
    int n;
    size_t done; /* of the first */
};

static void fill(const struct upload *u, struct rest *r, struct load *l)
{
    size_t used = 0;
    for (l->n = 0; r->n && used < HALF && l->n < PARTS;) {
        size_t left = r->piece->bytes - r->done;
        size_t part = left < HALF - used ? left : HALF - used;
        if (part) {
            l->part[l->n].data = (char *)r->piece->data + r->done;
            l->part[l->n++].back = (VkBufferCopy){.srcOffset = r->piece->off + r->done,
                                                  .dstOffset = (size_t)u->next * HALF + used,
                                                  .size = part};
        }
        used += part;
        r->done += part;
        if (part == left)
            *r = (struct rest){r->piece + 1, r->n - 1, 0};
    }
}

static char *staged(const struct upload *u, const struct load *l, int i)
{
    return (char *)u->staging.host + l->part[i].back.dstOffset;
}

/* Starts the copies of a load. */
static int copy(struct device *d, const struct device_buffer *b, const struct load *l, bool back,
                struct err *e)
{
    struct upload *u = d->upload;
    struct tape *t = u->tape[u->next];
    VkBuffer host = u->staging.block->buffer, device = b->block->buffer;
    VkBufferCopy regions[PARTS];
    for (int i = 0; i < l->n; i++) {
        const VkBufferCopy *r = &l->part[i].back;
        regions[i] = back ? *r
                          : (VkBufferCopy){.srcOffset = r->dstOffset,
                                           .dstOffset = r->srcOffset,
                                           .size = r->size};
    }
    tape_begin(t);
    d->vk.CmdCopyBuffer(t->commands, back ? device : host, back ? host : device, (uint32_t)l->n,
                        regions);
    int rc = tape_end(t, e);
    uint64_t value;
    return rc ? rc : device_submit(d, t, &value, e);
}

static int upload_staged(struct device *d, const struct device_buffer *b, struct rest r,
                         struct err *e)
{
    struct load l;
    int rc = upload_open(d, e);
    for (struct upload *u = d->upload; !rc && r.n; u->next ^= 1) {
        fill(u, &r, &l);
        rc = l.n ? device_wait(d, u->tape[u->next]->value, e) : 0;
        if (rc || !l.n)
            break;
        for (int i = 0; i < l.n; i++)
            memcpy(staged(u, &l, i), l.part[i].data, l.part[i].back.size);
        rc = copy(d, b, &l, false, e);
    }
    return rc;
}

static int download_staged(struct device *d, const struct device_buffer *b, struct rest r,
                           struct err *e)
{
    struct load l;
    int rc = upload_open(d, e);
    while (!rc && r.n) {
        fill(d->upload, &r, &l);
        if (!l.n)
            break;
        rc = copy(d, b, &l, true, e);
        rc = rc ? rc : device_wait(d, d->tapes.started, e);
        for (int i = 0; !rc && i < l.n; i++)
            memcpy(l.part[i].data, staged(d->upload, &l, i), l.part[i].back.size);
    }
    return rc;
}

static void check_pieces(const struct device_buffer *b, const struct device_piece *p, int n)
{
    for (int i = 0; i < n; i++)
        assert(p[i].off <= b->bytes && p[i].bytes <= b->bytes - p[i].off);
    (void)b, (void)p;
}

int device_upload_pieces(struct device *d, const struct device_buffer *b,
                         const struct device_piece *pieces, int n, struct err *e)
{
    check_pieces(b, pieces, n);
    int rc = device_check(d, e);
    if (rc)
        return rc;
    if (!b->host)
        return upload_staged(d, b, (struct rest){pieces, n, 0}, e);
    for (int i = 0; i < n; i++)
        memcpy((char *)b->host + pieces[i].off, pieces[i].data, pieces[i].bytes);
    return 0;
}

int device_download_pieces(struct device *d, const struct device_buffer *b,
                           const struct device_piece *pieces, int n, struct err *e)
{
    check_pieces(b, pieces, n);
    int rc = device_wait(d, d->tapes.started, e);
    if (rc)
        return rc;
    if (!b->host)
        return download_staged(d, b, (struct rest){pieces, n, 0}, e);
    for (int i = 0; i < n; i++)
        memcpy(pieces[i].data, (const char *)b->host + pieces[i].off, pieces[i].bytes);
    return 0;
}

int device_upload(struct device *d, const struct device_buffer *b, size_t off, const void *data,
                  size_t n, struct err *e)
{
    const struct device_piece all = {off, (void *)data, n};
    return device_upload_pieces(d, b, &all, 1, e);
}

int device_download(struct device *d, const struct device_buffer *b, size_t off, void *data,
                    size_t n, struct err *e)
{
    const struct device_piece all = {off, data, n};
    return device_download_pieces(d, b, &all, 1, e);
}

#endif
