/* The seam between the gpu engine and a GPU: devices, memory with addresses, kernels, tapes.
 *
 * Blocks record dispatches of named kernels on tapes and know nothing of the API behind them. What
 * is here is Vulkan (device_*.c, tape.c), found with dlopen when a device is opened, so that one
 * program runs with and without a driver; built without Vulkan's headers or glslc, every function
 * that opens says so (device_stub.c).
 *
 *     device_open -> device_take, device_kernel, tape_open        at open of an engine
 *     tape_begin -> tape_dispatch, tape_barrier ... -> tape_end   once for a form of a step
 *     device_submit -> device_wait                                every step
 *     device_copy -> device_after_copies                          beside them
 *
 * Kernels get their data by 64-bit addresses in their parameters (gpu/params.h), never by
 * bindings. Submissions run in order, each sees all that those before it wrote; within a tape that
 * takes a tape_barrier. What the host wrote before device_submit, or before device_release of a
 * submission that waits for it, is seen; what a device wrote is there for the host when device_wait
 * has returned.
 *
 * A device that is lost, or late, stays in error: every later call fails with the first message,
 * E_IO, and nothing but device_close is of use. The process lives on. Everything of a device is
 * used by one thread at a time. */
#ifndef GPU_DEVICE_H
#define GPU_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* --- devices --- */

enum device_kind { DEVICE_SOFTWARE, DEVICE_INTEGRATED, DEVICE_DISCRETE }; /* best last */
const char *device_kind_name(enum device_kind k);

enum { DEVICES_MAX = 16, DEVICE_PARAMS_MAX = 128 };

/* A product of matrices that a subgroup computes together: [m][k] times [k][n]. */
struct device_matrix {
    int m, n, k;
};

struct device_info {
    char name[256], driver[256]; /* "NVIDIA H200", "NVIDIA 580.159.04" */
    int number;                  /* its place in device_list */
    enum device_kind kind;
    uint64_t memory_bytes;     /* device local */
    uint64_t free_bytes;       /* of these, what the driver would give this process now; where it
                                    does not say, memory_bytes */
    uint64_t buffer_bytes_max; /* so much in one buffer is promised; what is larger the
                                    driver may refuse */
    uint64_t workgroup_bytes;  /* shared memory of a workgroup */
    size_t import_align;       /* of device_import, address and bytes; 0: cannot import */
    int subgroup;              /* the size that kernels get as constant 0 */
    int subgroup_min, subgroup_max;
    double tick_ns;              /* of stamps; 0: none */
    bool unified;                /* its memory is the host's */
    bool shared_local;           /* DEVICE_SHARED lies in device memory: the host may write it
                                    while a submission runs (below, device_release) */
    bool dot;                    /* integer dot products are fast */
    bool half;                   /* 16-bit floats in kernels */
    bool copy_queue;             /* copies can run beside kernels */
    struct device_matrix matrix; /* of signed bytes, with 32-bit sums; zeros: none */
    char why_not[256];           /* "", or what it lacks that kernels need, by name */
};

/* All devices of this machine, n of at most DEVICES_MAX. E_UNSUPPORTED: no Vulkan in this build, or
 * no loader on this machine; none at all is n = 0. Some milliseconds to half a second. */
int device_list(struct device_info out[DEVICES_MAX], int *n, struct err *e);

/* Which device `which` means: NULL the value of CHERENKOV_DEVICE, and where that is unset the best
 * that is no software: discrete before integrated, then the larger memory. "any": the same, but
 * software before none. "software", "integrated", "discrete": the best of a kind. A number: its
 * place in device_list, from 0. Else a part of the name. out gets what device_open would open.
 * E_NOTFOUND: no such device; E_UNSUPPORTED: it lacks what why_not says, or no Vulkan. */
int device_pick(const char *which, struct device_info *out, struct err *e);

struct device;
int device_open(const char *which, struct device **out, struct err *e);
/* Waits for what runs. Kernels go with it; buffers and tapes must be gone before. NULL is fine. */
void device_close(struct device *d);
const struct device_info *device_about(const struct device *d); /* free_bytes is that of open */
uint64_t device_free_bytes(const struct device *d);             /* the same, now */

/* With CHERENKOV_DEVICE_CHECK set and the validation layer installed: how many complaints it had,
 * and the first ("" without). watched: whether it watches. */
struct device_complaints {
    bool watched;
    long n;
    char first[512];
};
const struct device_complaints *device_complaints(const struct device *d);

/* --- memory --- */

enum device_memory {
    DEVICE_LOCAL,  /* the device's own; host NULL, unless it is the host's too */
    DEVICE_SHARED, /* the host writes, also while the device reads; reading it is slow */
    DEVICE_BACK,   /* the device writes, the host reads; also good for copies to the device */
};

struct device_block;
struct device_buffer {
    uint64_t address; /* on the device; a multiple of 256, of import_align after device_import */
    void *host;       /* where the host sees it, or NULL */
    size_t bytes;
    struct device_block *block; /* of device_memory.c */
};

/* Not zeroed. E_NOMEM says how much was asked for and what is left; E_LIMIT: more than a buffer of
 * this driver can have. After a failure *out is zeros. */
int device_take(struct device *d, enum device_memory m, size_t bytes, struct device_buffer *out,
                struct err *e);
/* Memory of the host as the device's own buffer, both multiples of import_align. The pages stay the
 * caller's and must outlive the buffer. E_UNSUPPORTED where import_align is 0. */
int device_import(struct device *d, void *pages, size_t bytes, struct device_buffer *out,
                  struct err *e);
void device_free(struct device *d, struct device_buffer *b); /* zeros are fine; becomes zeros */

/* Copies n bytes to b + off; data is the caller's again on return, and submissions from then on see
 * the bytes. No submission that reads them may be running or waiting for device_release. */
int device_upload(struct device *d, const struct device_buffer *b, size_t off, const void *data,
                  size_t n, struct err *e);
/* The other way; waits for all that was submitted. For saves and tests. */
int device_download(struct device *d, const struct device_buffer *b, size_t off, void *data,
                    size_t n, struct err *e);

/* The same for many pieces of a buffer at once. */
struct device_piece {
    size_t off; /* in the buffer */
    void *data; /* on the host; not written by an upload */
    size_t bytes;
};
int device_upload_pieces(struct device *d, const struct device_buffer *b,
                         const struct device_piece *pieces, int n, struct err *e);
int device_download_pieces(struct device *d, const struct device_buffer *b,
                           const struct device_piece *pieces, int n, struct err *e);

/* --- kernels --- */

struct kernel;
/* The kernel of src/gpu/NAME.comp; constants[i] is its specialisation constant i + 1 (constant 0 is
 * the subgroup size). Made once for a name and constants, then found; borrowed until device_close.
 * Compiling takes milliseconds to seconds: all kernels are made at open. E_NOTFOUND, E_IO. */
int device_kernel(struct device *d, const char *name, const uint32_t *constants, int n,
                  const struct kernel **out, struct err *e);

int device_kernels(const struct device *d); /* made so far; for tests */

/* --- tapes --- */

/* A recorded list of dispatches, submitted as often as wanted. */
struct tape;
/* n_stamps: how many tape_stamp there may be, 0 and up. */
int tape_open(struct device *d, int n_stamps, struct tape **out, struct err *e);
void tape_close(struct tape *t); /* NULL is fine; must not be running */
/* What fails between begin and end is reported by end. A tape that runs must not be begun. */
void tape_begin(struct tape *t);
/* Workgroups in each direction, 1 to 65,535; a grid with a 0 is no dispatch. */
struct grid {
    uint32_t x, y, z;
};
/* params: bytes <= DEVICE_PARAMS_MAX, a multiple of 4, copied. Dispatches without a barrier between
 * them may run side by side. */
void tape_dispatch(struct tape *t, const struct kernel *k, const void *params, size_t bytes,
                   struct grid g);
void tape_barrier(struct tape *t); /* what follows sees what was written before */
/* The time when all before it is done. Returns the stamp's number, 0 for the first of a tape. */
int tape_stamp(struct tape *t);
int tape_end(struct tape *t, struct err *e);
/* Nanoseconds from stamp i to stamp j of the tape's last run, which device_wait must have seen end.
 * 0 where the device has no clock (tick_ns). */
double tape_ns(const struct tape *t, int i, int j);

/* --- running --- */

/* Starts a tape after all that was submitted before; *value is what to wait for (values ascend by
 * one with each tape). A tape may be submitted again when its last run has been waited for. */
int device_submit(struct device *d, struct tape *t, uint64_t *value, struct err *e);
/* n tapes in one call; the ith starts not before device_release(go[i]) (go[i] 0: no such wait) and
 * gets *value - (n - 1 - i). Values of go are the caller's choice, ascending over the life of the
 * device, 1 or more. Between the submission and its release the host may write only memory whose
 * last reader was an earlier tape that has been waited for, and on a device without shared_local
 * only lines of 128 bytes that no tape of the same call reads before. */
int device_submit_ahead(struct device *d, struct tape *const *tapes, int n, const uint64_t *go,
                        uint64_t *value, struct err *e);
/* Lets all that waits for go, or less, start. Every value given to device_submit_ahead must be
 * released, after a failure too: wait, or device_close, would not return before. */
int device_release(struct device *d, uint64_t go, struct err *e);
/* Waits until the tape of this value has ended: looks often for some milliseconds, then sleeps.
 * E_IO: the device is lost, or has been at it for longer than CHERENKOV_DEVICE_SECONDS. */
int device_wait(struct device *d, uint64_t value, struct err *e);
bool device_lost(const struct device *d);           /* or given up: only closing is left */
bool device_done(struct device *d, uint64_t value); /* looks once; true when the device is lost */

/* --- copies beside the tapes --- */

/* bytes from one buffer to another; like the offsets a multiple of 4. */
struct device_copy {
    const struct device_buffer *from, *to;
    size_t from_off, to_off, bytes;
};
enum { DEVICE_COPIES_MAX = 16 };
/* Starts 1 to DEVICE_COPIES_MAX copies, of what the host wrote before or tapes up to `after` did:
 * on a queue of their own where the device has one (copy_queue), else in line with the tapes. None
 * begins before the tape of the value `after` (0: any) has ended. The ith gets
 * *value - (n - 1 - i); these values ascend by one with each copy, apart from those of tapes. Until
 * a copy has ended nothing else may write what it reads, or touch what it writes. Waits for
 * earlier ones where many are under way. */
int device_copy(struct device *d, const struct device_copy *c, int n, uint64_t after,
                uint64_t *value, struct err *e);
bool device_copied(struct device *d, uint64_t value); /* as device_done, of a copy */
int device_wait_copied(struct device *d, uint64_t value, struct err *e); /* as device_wait */
/* Tapes that are submitted from now on begin when all copies up to this value have ended, and see
 * what they wrote. */
void device_after_copies(struct device *d, uint64_t value);

#endif
