/* The device of a build without Vulkan's headers or without glslc: there is none, and every
 * function that looks for one says so. See device.h. */
#include "gpu/device.h"

#ifndef HAVE_VULKAN

#include <assert.h>

static int absent(struct err *e)
{
    return ERR(e, E_UNSUPPORTED,
               "this program was built without the gpu engine: it needs Vulkan's headers and glslc "
               "(Debian: libvulkan-dev, glslc)");
}

const char *device_kind_name(enum device_kind k)
{
    (void)k;
    return "none";
}

int device_list(struct device_info out[DEVICES_MAX], int *n, struct err *e)
{
    (void)out;
    *n = 0;
    return absent(e);
}

int device_pick(const char *which, struct device_info *out, struct err *e)
{
    (void)which;
    (void)out;
    return absent(e);
}

int device_open(const char *which, struct device **out, struct err *e)
{
    (void)which;
    *out = NULL;
    return absent(e);
}

/* --- what takes a device: nobody has one --- */

void device_close(struct device *d)
{
    assert(!d);
}

const struct device_info *device_about(const struct device *d)
{
    assert(d);
    return NULL;
}

uint64_t device_free_bytes(const struct device *d)
{
    assert(d);
    return 0;
}

const struct device_complaints *device_complaints(const struct device *d)
{
    assert(d);
    return NULL;
}

int device_take(struct device *d, enum device_memory m, size_t bytes, struct device_buffer *out,
                struct err *e)
{
    (void)d, (void)m, (void)bytes, (void)out;
    return absent(e);
}

int device_import(struct device *d, void *pages, size_t bytes, struct device_buffer *out,
                  struct err *e)
{
    (void)d, (void)pages, (void)bytes, (void)out;
    return absent(e);
}

void device_free(struct device *d, struct device_buffer *b)
{
    (void)d;
    assert(!b->bytes);
}

int device_upload(struct device *d, const struct device_buffer *b, size_t off, const void *data,
                  size_t n, struct err *e)
{
    (void)d, (void)b, (void)off, (void)data, (void)n;
    return absent(e);
}

int device_upload_pieces(struct device *d, const struct device_buffer *b,
                         const struct device_piece *pieces, int n, struct err *e)
{
    (void)d, (void)b, (void)pieces, (void)n;
    return absent(e);
}

int device_download_pieces(struct device *d, const struct device_buffer *b,
                           const struct device_piece *pieces, int n, struct err *e)
{
    (void)d, (void)b, (void)pieces, (void)n;
    return absent(e);
}

int device_download(struct device *d, const struct device_buffer *b, size_t off, void *data,
                    size_t n, struct err *e)
{
    (void)d, (void)b, (void)off, (void)data, (void)n;
    return absent(e);
}

int device_kernel(struct device *d, const char *name, const uint32_t *constants, int n,
                  const struct kernel **out, struct err *e)
{
    (void)d, (void)name, (void)constants, (void)n;
    *out = NULL;
    return absent(e);
}

int device_kernels(const struct device *d)
{
    (void)d;
    return 0;
}

int tape_open(struct device *d, int n_stamps, struct tape **out, struct err *e)
{
    (void)d, (void)n_stamps;
    *out = NULL;
    return absent(e);
}

void tape_close(struct tape *t)
{
    assert(!t);
}

void tape_begin(struct tape *t)
{
    assert(t);
}

void tape_dispatch(struct tape *t, const struct kernel *k, const void *params, size_t bytes,
                   struct grid g)
{
    assert(t);
    (void)k, (void)params, (void)bytes, (void)g;
}

void tape_barrier(struct tape *t)
{
    assert(t);
}

int tape_stamp(struct tape *t)
{
    assert(t);
    return 0;
}

int tape_end(struct tape *t, struct err *e)
{
    (void)t;
    return absent(e);
}

double tape_ns(const struct tape *t, int i, int j)
{
    (void)t, (void)i, (void)j;
    return 0;
}

int device_submit(struct device *d, struct tape *t, uint64_t *value, struct err *e)
{
    (void)d, (void)t, (void)value;
    return absent(e);
}

int device_submit_ahead(struct device *d, struct tape *const *tapes, int n, const uint64_t *go,
                        uint64_t *value, struct err *e)
{
    (void)d, (void)tapes, (void)n, (void)go, (void)value;
    return absent(e);
}

int device_release(struct device *d, uint64_t go, struct err *e)
{
    (void)d, (void)go;
    return absent(e);
}

int device_wait(struct device *d, uint64_t value, struct err *e)
{
    (void)d, (void)value;
    return absent(e);
}

bool device_lost(const struct device *d)
{
    (void)d;
    return true;
}

bool device_done(struct device *d, uint64_t value)
{
    (void)d, (void)value;
    return true;
}

int device_copy(struct device *d, const struct device_copy *c, int n, uint64_t after,
                uint64_t *value, struct err *e)
{
    (void)d, (void)c, (void)n, (void)after, (void)value;
    return absent(e);
}

bool device_copied(struct device *d, uint64_t value)
{
    (void)d, (void)value;
    return true;
}

int device_wait_copied(struct device *d, uint64_t value, struct err *e)
{
    (void)d, (void)value;
    return absent(e);
}

void device_after_copies(struct device *d, uint64_t value)
{
    assert(d);
    (void)value;
}

#endif
