/* One kernel on a device: buffers with guards behind them, a dispatch, what it wrote. For tests of
 * kernels (tests/test_gpu_*.c); failures end the test.
 *
 *     static struct aid_gpu g;
 *     aid_gpu_open(&g);                                  (the program skips without a device)
 *     uint64_t x = aid_gpu_put(&g, values, sizeof values), y = aid_gpu_room(&g, bytes);
 *     aid_gpu_run(&g, aid_gpu_kernel(&g, "copy", NULL, 0), &p, sizeof p, (struct grid){1, 1, 1});
 *     aid_gpu_get(&g, y, result, bytes);
 *     aid_gpu_reset(&g);                                 (checks guards, gives all back)
 *     aid_gpu_close(&g);                                 (and that the validation layer was silent)
 */
#ifndef TESTS_AID_GPU_H
#define TESTS_AID_GPU_H

#include "gpu/device.h"

enum { AID_GPU_BUFFERS = 64, AID_GPU_GUARD = 4096 };

struct aid_gpu {
    struct device *device;
    struct tape *tape;
    struct device_buffer buffers[AID_GPU_BUFFERS]; /* each with AID_GPU_GUARD bytes behind it */
    size_t bytes[AID_GPU_BUFFERS];                 /* without the guard */
    int n;
    double ns; /* time of the last run on the device */
};

/* Any device, software too; CHERENKOV_DEVICE says another. Exits 77 where there is none. With the
 * validation layer where it is installed. */
void aid_gpu_open(struct aid_gpu *g);
void aid_gpu_close(struct aid_gpu *g);
/* For products, whose weights and scales lie within 64 GiB of one another: ends the program with 77
 * in builds that spread a software device's buffers over all addresses. */
void aid_gpu_needs_near_buffers(void);
/* A buffer with these bytes; one of zeros. Their address on the device. n may be any number, at
 * least 1: the guard begins right behind. */
uint64_t aid_gpu_put(struct aid_gpu *g, const void *data, size_t n);
uint64_t aid_gpu_room(struct aid_gpu *g, size_t n);
/* Other bytes into a buffer, out of one; address: what put or room gave, or a place inside. */
void aid_gpu_set(struct aid_gpu *g, uint64_t address, const void *data, size_t n);
void aid_gpu_get(struct aid_gpu *g, uint64_t address, void *data, size_t n);
const struct kernel *aid_gpu_kernel(struct aid_gpu *g, const char *name, const uint32_t *constants,
                                    int n);
void aid_gpu_run(struct aid_gpu *g, const struct kernel *k, const void *params, size_t bytes,
                 struct grid grid);
/* For host functions that record themselves: begin, then record on g->tape, then this. */
void aid_gpu_begin(struct aid_gpu *g);
void aid_gpu_end(struct aid_gpu *g);
void aid_gpu_reset(struct aid_gpu *g);

#endif
