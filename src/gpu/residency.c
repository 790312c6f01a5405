/* Routed experts in device memory: see residency.h.
 *
 * Slots are numbered through all buffers. A list holds them from the one used longest ago to the
 * latest; free ones stand at its front. */
#include "gpu/residency.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "gpu/params.h"

enum { NONE = -1 };
static const uint64_t buffer_bytes = (uint64_t)1 << 30;

struct slot {
    int32_t record;     /* il * E + ie, or NONE */
    int32_t prev, next; /* in the list; n_slots is its head */
    uint64_t visit;     /* the last that used it; of what was brought the one it is for */
    uint64_t copy;      /* the last copy beside tapes that fills it; 0: none did */
    uint64_t held;      /* the last copy that reads it */
    bool brought;       /* and not found since */
};

struct residency {
    struct device *d;
    const struct kernel *copy;
    struct residency_options o;
    struct residency_counters counters;
    struct device_buffer *buffer;
    int n_buffers, each; /* slots of a buffer */
    int n_slots, n_free;
    struct slot *slot; /* [n_slots + 1] */
    int32_t *slot_of;  /* [n_layers * E], or NONE */
    uint64_t visit;
    uint64_t await; /* the last copy that fills something this visit found */
    struct device_copy named[DEVICE_COPIES_MAX];
    struct slot *named_slot[DEVICE_COPIES_MAX];
    int n_named;
};

static int take_buffers(struct residency *r, int want, struct err *e)
{
    for (r->n_buffers = 0; r->n_slots < want; r->n_buffers++) {
        int n = want - r->n_slots < r->each ? want - r->n_slots : r->each;
        struct err here = {0};
        int rc = device_take(r->d, DEVICE_LOCAL, (size_t)n * r->o.record_bytes,
                             &r->buffer[r->n_buffers], &here);
        if (rc && (here.code != E_NOMEM || r->n_buffers == 0))
            return ERR(e, here.code, "%s", here.msg);
        if (rc)
            break;
        r->n_slots += n;
    }
    return 0;
}

static int count_slots(struct residency *r, int *want, struct err *e)
{
    const struct residency_options *o = &r->o;
    uint64_t most = device_about(r->d)->buffer_bytes_max;
    uint64_t each = (most < buffer_bytes ? most : buffer_bytes) / o->record_bytes;
    uint64_t fit = o->bytes / o->record_bytes, all = (uint64_t)o->n_layers * (uint64_t)o->E;
    if (!fit || !each)
        return ERR(e, E_NOMEM, "%llu bytes of device memory hold no expert of %zu bytes",
                   (unsigned long long)o->bytes, o->record_bytes);
    *want = (int)(fit < all ? fit : all);
    r->each = (int)each;
    return 0;
}

int residency_open(struct device *d, const struct residency_options *o, struct residency **out,
                   struct err *e)
{
    *out = NULL;
    assert(o->record_bytes > 0 && o->record_bytes % 256 == 0);
    struct residency *r = mem_zalloc(1, sizeof *r);
    if (!r)
        return ERR(e, E_NOMEM, "no memory for the list of experts on the GPU");
    r->d = d;
    r->o = *o;
    size_t all = (size_t)o->n_layers * (size_t)o->E;
    int want = 0, rc = count_slots(r, &want, e);
    if (!rc) {
        r->buffer = mem_zalloc((size_t)want / (size_t)r->each + 1, sizeof *r->buffer);
        r->slot = mem_zalloc((size_t)want + 1, sizeof *r->slot);
        r->slot_of = mem_zalloc(all, sizeof *r->slot_of);
        if (!r->buffer || !r->slot || !r->slot_of)
            rc = ERR(e, E_NOMEM, "no memory for the list of experts on the GPU");
    }
    if (!rc)
        rc = device_kernel(d, "copy", NULL, 0, &r->copy, e);
    if (!rc)
        rc = take_buffers(r, want, e);
    if (rc) {
        residency_close(r);
        return rc;
    }
    residency_forget(r);
    *out = r;
    return 0;
}

void residency_close(struct residency *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n_buffers; i++)
        device_free(r->d, &r->buffer[i]);
    mem_free(r->buffer);
    mem_free(r->slot);
    mem_free(r->slot_of);
    mem_free(r);
}

int residency_slots(const struct residency *r)
{
    return r->n_slots;
}

bool residency_holds_all(const struct residency *r)
{
    return r->n_slots == r->o.n_layers * r->o.E;
}

const struct residency_counters *residency_counters(const struct residency *r)
{
    return &r->counters;
}

void residency_forget(struct residency *r)
{
    for (int i = 0; i < r->o.n_layers * r->o.E; i++)
        r->slot_of[i] = NONE;
    for (int i = 0; i <= r->n_slots; i++)
        r->slot[i] = (struct slot){.record = NONE,
                                   .prev = i ? i - 1 : r->n_slots,
                                   .next = i < r->n_slots ? i + 1 : 0,
                                   .copy = r->slot[i].copy,
                                   .held = r->slot[i].held};
    r->n_free = r->n_slots;
    r->n_named = 0;
    r->visit = 1;
}

void residency_visit(struct residency *r)
{
    r->visit++;
}

/* To the end of the list, or to its front, as used by this visit. */
static void touch(struct residency *r, int32_t i, bool last)
{
    struct slot *s = &r->slot[i];
    s->visit = r->visit;
    r->slot[s->prev].next = s->next;
    r->slot[s->next].prev = s->prev;
    s->next = last ? r->n_slots : r->slot[r->n_slots].next;
    s->prev = r->slot[s->next].prev;
    r->slot[s->prev].next = i;
    r->slot[s->next].prev = i;
}

static uint64_t address_of(const struct residency *r, int32_t i)
{
    return r->buffer[i / r->each].address + (uint64_t)(i % r->each) * r->o.record_bytes;
}

static int record_of(const struct residency *r, int il, int ie)
{
    assert(il >= 0 && il < r->o.n_layers && ie >= 0 && ie < r->o.E);
    return il * r->o.E + ie;
}

uint64_t residency_find(struct residency *r, int il, int ie)
{
    int32_t i = r->slot_of[record_of(r, il, ie)];
    if (i == NONE) {
        r->counters.missed++;
        return 0;
    }
    r->counters.found++;
    r->counters.brought_used += r->slot[i].brought;
    r->slot[i].brought = false;
    r->await = r->slot[i].copy > r->await ? r->slot[i].copy : r->await;
    touch(r, i, true);
    return address_of(r, i);
}

bool residency_full(const struct residency *r)
{
    return r->n_free == 0;
}

bool residency_has(const struct residency *r, int il, int ie)
{
    return r->slot_of[record_of(r, il, ie)] != NONE;
}

/* Whether a record may have the slot: what is brought makes room for a visit, not for its like. */
static bool may_go(struct residency *r, int32_t i, bool bring)
{
    const struct slot *s = &r->slot[i];
    const bool used = bring ? s->visit >= r->visit : s->visit >= r->visit && !s->brought;
    return !used && device_copied(r->d, s->copy) && device_copied(r->d, s->held);
}

/* The first slot of the list that may go becomes the record's; NONE: there is none. */
static int32_t claim(struct residency *r, int record, bool keep, bool bring)
{
    assert(r->slot_of[record] == NONE);
    int32_t i = r->slot[r->n_slots].next;
    while (i != r->n_slots && !may_go(r, i, bring))
        i = r->slot[i].next;
    if (i == r->n_slots)
        return NONE;
    struct slot *s = &r->slot[i];
    keep = keep || r->n_free > 0;
    if (s->record != NONE) {
        r->slot_of[s->record] = NONE;
        r->counters.evicted++;
    } else {
        r->n_free--;
    }
    s->record = record;
    s->brought = bring;
    r->slot_of[record] = i;
    r->counters.placed++;
    r->counters.copied_bytes += r->o.record_bytes;
    touch(r, i, keep);
    return i;
}

static void copy_to(const struct residency *r, struct tape *t, uint64_t from, int32_t slot)
{
    const uint32_t words = (uint32_t)(r->o.record_bytes / 4);
    const struct copy_params p = {.from = from, .to = address_of(r, slot), .words = words};
    tape_dispatch(t, r->copy, &p, sizeof p,
                  (struct grid){(words + COPY_WORDS - 1) / COPY_WORDS, 1, 1});
}

void residency_probe(const struct residency *r, struct tape *t, uint64_t from, int n)
{
    for (int i = 0; i < n; i++)
        copy_to(r, t, from + (uint64_t)i * r->o.record_bytes, i);
}

uint64_t residency_place(struct residency *r, struct tape *t, int il, int ie, uint64_t from,
                         bool keep)
{
    int32_t i = claim(r, record_of(r, il, ie), keep, false);
    if (i == NONE)
        return 0;
    copy_to(r, t, from, i);
    return address_of(r, i);
}

bool residency_bring(struct residency *r, int il, int ie, const struct device_buffer *from,
                     size_t off)
{
    assert(r->n_named < DEVICE_COPIES_MAX);
    int32_t i = claim(r, record_of(r, il, ie), false, true);
    if (i == NONE)
        return false;
    r->slot[i].visit = r->visit + 1;
    r->named[r->n_named] =
        (struct device_copy){from, &r->buffer[i / r->each], off,
                             (size_t)(i % r->each) * r->o.record_bytes, r->o.record_bytes};
    r->named_slot[r->n_named++] = &r->slot[i];
    return true;
}

int residency_start(struct residency *r, uint64_t after, uint64_t *value, struct err *e)
{
    const int n = r->n_named;
    int rc = n ? device_copy(r->d, r->named, n, after, value, e) : 0;
    r->n_named = 0;
    for (int k = 0; !rc && k < n; k++)
        r->named_slot[k]->copy = *value - (uint64_t)(n - 1 - k);
    r->counters.brought += rc ? 0 : (uint64_t)n;
    return rc;
}

void residency_await(struct residency *r)
{
    device_after_copies(r->d, r->await);
}

int residency_leaving(const struct residency *r, int n, struct residency_record *out)
{
    int found = 0;
    int32_t i = r->slot[r->n_slots].next;
    for (; !r->n_free && found < n && i != r->n_slots; i = r->slot[i].next) {
        const struct slot *s = &r->slot[i];
        if (s->visit >= r->visit)
            continue;
        out[found++] = (struct residency_record){s->record / r->o.E, s->record % r->o.E, i,
                                                 &r->buffer[i / r->each],
                                                 (size_t)(i % r->each) * r->o.record_bytes};
    }
    return found;
}

void residency_hold(struct residency *r, int32_t slot, uint64_t value)
{
    r->slot[slot].held = value;
}

int residency_load(struct residency *r, int il, int ie, const void *record, uint64_t *address,
                   struct err *e)
{
    int32_t i = claim(r, record_of(r, il, ie), true, false);
    *address = 0;
    if (i == NONE)
        return 0;
    size_t off = (size_t)(i % r->each) * r->o.record_bytes;
    int rc = device_upload(r->d, &r->buffer[i / r->each], off, record, r->o.record_bytes, e);
    if (!rc)
        *address = address_of(r, i);
    return rc;
}
