/* Routed experts in device memory: a cache of records above the stream's slots in host memory, for
 * devices with memory of their own.
 *
 *     disk --stream--> slot of the host --residency_place: a copy on the tape--> slot of the device
 *                                       --residency_bring: a copy beside it--->
 *
 * Slots are of one size, in as many buffers as it takes; the record that was not used for longest
 * leaves first. Records that the open visit has found or placed stay until the next one begins: its
 * tapes may still read them. Copies are dispatches on the caller's tape, so they come after all
 * that read the slot before; copies beside it begin when all tapes so far have ended, and a slot
 * that one fills is not given away before it is full. When every record has a slot, nothing leaves,
 * and addresses stay valid until close. One thread; nothing allocates after open. */
#ifndef GPU_RESIDENCY_H
#define GPU_RESIDENCY_H

#include "gpu/device.h"

struct residency_options {
    int n_layers, E;
    size_t record_bytes; /* a multiple of 256 */
    uint64_t bytes;      /* of device memory to use at most */
};

struct residency_counters {
    uint64_t found, missed; /* residency_find: record there, and not */
    uint64_t placed, evicted;
    uint64_t copied_bytes;
    uint64_t brought, brought_used; /* by residency_bring; of these found by a visit */
};

struct residency;
/* Takes memory for min(all records, what bytes hold) slots; where the device refuses, for fewer.
 * E_NOMEM: not even for one buffer of slots, or bytes below one record. */
int residency_open(struct device *d, const struct residency_options *o, struct residency **out,
                   struct err *e);
void residency_close(struct residency *r); /* NULL is fine */
int residency_slots(const struct residency *r);
bool residency_holds_all(const struct residency *r); /* there is a slot for every record */
const struct residency_counters *residency_counters(const struct residency *r);

/* A new visit: what the one before found or placed may leave again. */
void residency_visit(struct residency *r);
bool residency_full(const struct residency *r);                /* no slot is free */
bool residency_has(const struct residency *r, int il, int ie); /* counts and keeps nothing */
/* Where record (il, ie) is on the device, or 0. Keeps it for this visit. */
uint64_t residency_find(struct residency *r, int il, int ie);
/* A slot for record (il, ie), which is not there, and a copy from `from` (an address that the
 * device reads, good until the tape has run) on the tape; what uses it comes behind a tape_barrier.
 * keep: it leaves last; else, once no slot is free, first, so that what is used once pushes out
 * little. 0, and nothing was recorded: all slots belong to this visit; use the record where it is.
 * When the tape does not run, residency_forget. */
uint64_t residency_place(struct residency *r, struct tape *t, int il, int ie, uint64_t from,
                         bool keep);
/* Records copies of n records, one behind the other at `from`, to the first slots, as
 * residency_place would: to be measured, before anything is placed. */
void residency_probe(const struct residency *r, struct tape *t, uint64_t from, int n);
/* Names a copy of record (il, ie), which is not there, from a buffer; residency_start starts it.
 * Until a visit finds it, it leaves first. At most DEVICE_COPIES_MAX before a start. false: nothing
 * was named, all slots belong to this visit or are being filled. */
bool residency_bring(struct residency *r, int il, int ie, const struct device_buffer *from,
                     size_t off);
/* Starts what was named, behind the tape of the value `after`, which is to be the last. *value is
 * that of the last copy (device_copy). After a failure, residency_forget. */
int residency_start(struct residency *r, uint64_t after, uint64_t *value, struct err *e);
/* Tapes from now on wait for what this visit found and copies have yet to fill. */
void residency_await(struct residency *r);
/* Records that leave next, for whoever keeps them elsewhere: at most n to out, none of those that
 * this visit uses or the next may. Returns how many; 0 while there are free slots. */
struct residency_record {
    int il, ie;
    int32_t slot;
    const struct device_buffer *buffer;
    size_t off;
};
int residency_leaving(const struct residency *r, int n, struct residency_record *out);
/* The slot keeps its record until the copy of this value, which reads it, has ended. */
void residency_hold(struct residency *r, int32_t slot, uint64_t value);
/* As residency_place from memory of the host, at once, for open: *address as there. */
int residency_load(struct residency *r, int il, int ie, const void *record, uint64_t *address,
                   struct err *e);
/* All slots are free again; those that copies beside tapes are filling, when they are full. */
void residency_forget(struct residency *r);

#endif
