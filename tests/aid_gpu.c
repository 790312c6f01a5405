/* One kernel on a device: see aid_gpu.h. */
#include "tests/aid_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/aid_test.h"

static const uint8_t guard_byte = 0xa5;

void aid_gpu_open(struct aid_gpu *g)
{
    struct err e = {0};
    *g = (struct aid_gpu){0};
    setenv("CHERENKOV_DEVICE", "any", 0);
    setenv("CHERENKOV_DEVICE_CHECK", "1", 0);
    if (device_open(NULL, &g->device, &e)) {
        printf("%s\n", e.msg);
        exit(e.code == E_NOTFOUND || e.code == E_UNSUPPORTED ? 77 : 1);
    }
    if (!device_complaints(g->device)->watched)
        printf("note: without Vulkan's validation layer, which is not installed\n");
    assert_ok(tape_open(g->device, 2, &g->tape, &e), e);
}

void aid_gpu_close(struct aid_gpu *g)
{
    aid_gpu_reset(g);
    tape_close(g->tape);
    assert_int_equal(device_complaints(g->device)->n, 0);
    device_close(g->device);
    *g = (struct aid_gpu){0};
}

static uint64_t take(struct aid_gpu *g, const void *data, size_t n)
{
    struct err e = {0};
    uint8_t guard[AID_GPU_GUARD];
    memset(guard, guard_byte, sizeof guard);
    if (g->n == AID_GPU_BUFFERS)
        fail_msg("more than %d buffers in a test", AID_GPU_BUFFERS);
    struct device_buffer *b = &g->buffers[g->n];
    assert_ok(device_take(g->device, DEVICE_LOCAL, n + sizeof guard, b, &e), e);
    g->bytes[g->n++] = n;
    assert_ok(device_upload(g->device, b, 0, data, n, &e), e);
    assert_ok(device_upload(g->device, b, n, guard, sizeof guard, &e), e);
    return b->address;
}

uint64_t aid_gpu_put(struct aid_gpu *g, const void *data, size_t n)
{
    return take(g, data, n);
}

uint64_t aid_gpu_room(struct aid_gpu *g, size_t n)
{
    void *zeros = calloc(1, n);
    assert_non_null(zeros);
    uint64_t address = take(g, zeros, n);
    free(zeros);
    return address;
}

/* The buffer that holds n bytes at an address, and where in it. */
static const struct device_buffer *find(const struct aid_gpu *g, uint64_t address, size_t n,
                                        size_t *off)
{
    for (int i = 0; i < g->n; i++) {
        *off = address - g->buffers[i].address;
        if (address >= g->buffers[i].address && *off + n <= g->bytes[i])
            return &g->buffers[i];
    }
    fail_msg("no buffer of the test has these addresses");
    return NULL;
}

void aid_gpu_set(struct aid_gpu *g, uint64_t address, const void *data, size_t n)
{
    struct err e = {0};
    size_t off = 0;
    const struct device_buffer *b = find(g, address, n, &off);
    assert_ok(device_upload(g->device, b, off, data, n, &e), e);
}

void aid_gpu_get(struct aid_gpu *g, uint64_t address, void *data, size_t n)
{
    struct err e = {0};
    size_t off = 0;
    const struct device_buffer *b = find(g, address, n, &off);
    assert_ok(device_download(g->device, b, off, data, n, &e), e);
}

const struct kernel *aid_gpu_kernel(struct aid_gpu *g, const char *name, const uint32_t *constants,
                                    int n)
{
    struct err e = {0};
    const struct kernel *k;
    assert_ok(device_kernel(g->device, name, constants, n, &k, &e), e);
    return k;
}

void aid_gpu_begin(struct aid_gpu *g)
{
    tape_begin(g->tape);
    tape_stamp(g->tape);
}

void aid_gpu_end(struct aid_gpu *g)
{
    struct err e = {0};
    uint64_t value;
    tape_stamp(g->tape);
    assert_ok(tape_end(g->tape, &e), e);
    assert_ok(device_submit(g->device, g->tape, &value, &e), e);
    assert_ok(device_wait(g->device, value, &e), e);
    g->ns = tape_ns(g->tape, 0, 1);
}

void aid_gpu_run(struct aid_gpu *g, const struct kernel *k, const void *params, size_t bytes,
                 struct grid grid)
{
    aid_gpu_begin(g);
    tape_dispatch(g->tape, k, params, bytes, grid);
    aid_gpu_end(g);
}

static void check_guard(struct aid_gpu *g, int i)
{
    struct err e = {0};
    uint8_t guard[AID_GPU_GUARD];
    assert_ok(device_download(g->device, &g->buffers[i], g->bytes[i], guard, sizeof guard, &e), e);
    for (size_t k = 0; k < sizeof guard; k++)
        if (guard[k] != guard_byte)
            fail_msg("a kernel wrote %zu bytes behind buffer %d of %zu bytes", k + 1, i,
                     g->bytes[i]);
}

void aid_gpu_reset(struct aid_gpu *g)
{
    for (int i = 0; i < g->n; i++) {
        check_guard(g, i);
        device_free(g->device, &g->buffers[i]);
    }
    g->n = 0;
}

void aid_gpu_needs_near_buffers(void)
{
#ifdef __SANITIZE_ADDRESS__
    printf("the address sanitizer puts buffers too far apart for products\n");
    exit(77);
#endif
}
