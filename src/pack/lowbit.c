/* Low-bit copies of a store's experts: see lowbit.h.
 *
 * Records are taken in batches. A lane reads a batch of 4-bit records, makes it in each wanted
 * precision, and writes each with one write; lanes share nothing but the arrays of checksums, of
 * which each writes its own entries. */
#include "pack/lowbit.h"

#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/thread.h"
#include "base/units.h"
#include "pack/progress.h"
#include "pack/sums.h"

#define BATCH_BYTES ((uint64_t)8 << 20) /* of 4-bit records; a batch has at least one record */
#define MEMORY_MAX  ((uint64_t)320 << 20)
enum { BATCH_RECORDS_MAX = 16, STORE_BITS = 4 };

/* A copy that is being made. */
struct copy {
    struct records r; /* its layout and sums; path owned */
    struct file file;
};

struct lane {
    uint8_t *from, *to; /* a batch of 4-bit records, and of the widest copy */
};

struct reducing {
    const struct store *store;
    struct file from; /* experts.bin */
    struct pieces pieces;
    uint64_t *sum; /* [pieces.n]; NULL: a store without checksums */
    struct copy copy[RECORDS_BITS_MAX];
    struct lane lane[LOWBIT_THREADS_MAX];
    int n_lanes;
    size_t batch; /* records */
    struct progress progress;
};

static int make_copies(const struct store *s, const struct lowbit_options *o,
                       struct lowbit_report *r, struct err *e);
static int prepare(struct reducing *d, const struct lowbit_options *o, struct err *e);
static int reduce_all(struct reducing *d, const struct records *q4, struct lowbit_report *r,
                      struct err *e);
static int make_lanes(struct reducing *d, int n_threads, struct err *e);
static int reduce_batch(void *ctx, int worker, size_t i, struct err *e);
static int finish(struct reducing *d, struct err *e);
static void close_all(struct reducing *d, bool failed);

int lowbit_parse(const char *list, const char *flag, struct lowbit_options *o, struct err *e)
{
    size_t n = strlen(list);
    for (size_t i = 0; i < n; i += 2) {
        int bits = list[i] - '0';
        if (bits < RECORDS_BITS_MIN || bits > RECORDS_BITS_MAX || (list[i + 1] && i + 2 >= n) ||
            (list[i + 1] && list[i + 1] != ','))
            return ERR(e, E_ARG, "%s wants a list of 4, 3 and 2, for example 4,3; found '%s'", flag,
                       list);
        o->want[bits] = true;
    }
    return n ? 0 : ERR(e, E_ARG, "%s wants a list of 4, 3 and 2, found nothing", flag);
}

uint64_t lowbit_bytes_of(const struct expert_layout *x, const struct lowbit_options *o)
{
    uint64_t bytes = 0;
    for (int bits = RECORDS_BITS_MIN; bits < STORE_BITS; bits++) {
        struct records r;
        records_layout(x, bits, &r);
        bytes += o->want[bits] ? r.n * r.stride : 0;
    }
    return bytes;
}

/* Whether the copy has to be made. */
static bool is_due(const struct store *s, const struct lowbit_options *o, int bits)
{
    return o->want[bits] && (o->force || !s->records[bits].present);
}

int lowbit_space(const struct store *s, const struct lowbit_options *o, struct pack_space *out,
                 struct err *e)
{
    struct lowbit_options due = {.want = {false}};
    uint64_t there = 0;
    for (int bits = RECORDS_BITS_MIN; bits < STORE_BITS; bits++) {
        due.want[bits] = is_due(s, o, bits);
        there += due.want[bits] ? file_disk_bytes(s->records[bits].path) : 0;
    }
    uint64_t total = lowbit_bytes_of(&s->manifest.experts, &due);
    *out = (struct pack_space){.needed = total > there ? total - there : 0,
                               .margin = pack_margin(total)};
    return os_disk_free(s->dir, &out->free, e);
}

static int check_space(const struct store *s, const struct lowbit_options *o, struct err *e)
{
    char needed[UNITS_ROOM], margin[UNITS_ROOM], room[UNITS_ROOM];
    struct pack_space space;
    int rc = lowbit_space(s, o, &space, e);
    if (rc || space.free >= space.needed + space.margin)
        return rc;
    return ERR(e, E_SPACE,
               "%s: the disk has %s free, want %s for experts of fewer bits and a margin of %s; "
               "free some, or ask for one precision",
               s->dir, units_bytes(room, space.free), units_bytes(needed, space.needed),
               units_bytes(margin, space.margin));
}

int lowbit_run(const char *path, const struct lowbit_options *o, struct lowbit_report *r,
               struct err *e)
{
    struct store *s;
    uint64_t start = clock_ns();
    bool due = false;
    *r = (struct lowbit_report){.n_threads = 0};
    int rc = store_open(path, &s, e);
    if (rc)
        return rc;
    for (int bits = RECORDS_BITS_MIN; bits < STORE_BITS; bits++) {
        r->made[bits] = is_due(s, o, bits);
        due = due || r->made[bits];
    }
    if (due)
        rc = make_copies(s, o, r, e);
    r->seconds = clock_seconds_since(start);
    store_close(s);
    return rc;
}

/* All that are due, with nobody else writing there; none of them if one fails. */
static int make_copies(const struct store *s, const struct lowbit_options *o,
                       struct lowbit_report *r, struct err *e)
{
    const struct records *q4;
    struct file lock = FILE_CLOSED;
    struct reducing d = {.store = s, .from = FILE_CLOSED};
    for (int bits = 0; bits < RECORDS_BITS_MAX; bits++)
        d.copy[bits].file = FILE_CLOSED;
    int rc = file_lock_dir(s->dir, &lock, e);
    if (!rc)
        rc = store_records(s, STORE_BITS, &q4, e);
    if (!rc)
        rc = check_space(s, o, e);
    if (!rc)
        rc = prepare(&d, o, e);
    if (!rc)
        rc = reduce_all(&d, q4, r, e);
    if (!rc)
        rc = finish(&d, e);
    close_all(&d, rc != 0);
    file_drop(&lock);
    return rc;
}

static int reduce_all(struct reducing *d, const struct records *q4, struct lowbit_report *r,
                      struct err *e)
{
    r->written_bytes = d->progress.total;
    r->read_bytes = q4->n * q4->stride;
    r->n_threads = d->n_lanes;
    int rc = thread_for(d->n_lanes, (q4->n + d->batch - 1) / d->batch, reduce_batch, d, e);
    progress_end(&d->progress);
    return rc;
}

/* The old manifest goes first, and is gone from the disk before a byte of the file changes. The old
 * file is unlinked, so that a running engine keeps the one that it has. */
static int start_copy(struct reducing *d, int bits, struct err *e)
{
    const struct store *s = d->store;
    struct copy *c = &d->copy[bits];
    records_layout(&s->manifest.experts, bits, &c->r);
    char *manifest = file_join(s->dir, records_manifest(bits));
    c->r.path = mem_strdup(s->records[bits].path);
    c->r.sum = mem_array(c->r.n, sizeof *c->r.sum);
    int rc = manifest && c->r.path && c->r.sum
                 ? 0
                 : ERR(e, E_NOMEM, "out of memory for %zu checksums", c->r.n);
    if (!rc)
        rc = file_remove(manifest, e);
    if (!rc)
        rc = file_sync_dir(s->dir, e);
    if (!rc)
        rc = file_remove(c->r.path, e);
    if (!rc)
        rc = file_create(c->r.path, &c->file, e);
    if (!rc)
        rc = file_set_size(&c->file, c->r.n * c->r.stride, e);
    mem_free(manifest);
    return rc;
}

static int prepare(struct reducing *d, const struct lowbit_options *o, struct err *e)
{
    const struct records *q4 = &d->store->records[STORE_BITS];
    int n_threads = o->n_threads ? o->n_threads : os_cpu_count() < 2 ? 2 : os_cpu_count();
    uint64_t total = 0;
    int rc = sums_load(d->store, &d->pieces, &d->sum, e);
    if (!rc)
        rc = make_lanes(d, n_threads, e);
    if (!rc)
        rc = file_open(q4->path, &d->from, e);
    if (!rc)
        os_advise_sequential(d->from.fd);
    for (int bits = STORE_BITS - 1; !rc && bits >= RECORDS_BITS_MIN; bits--) {
        if (!is_due(d->store, o, bits))
            continue;
        rc = start_copy(d, bits, e);
        total += d->copy[bits].r.n * d->copy[bits].r.stride;
    }
    if (rc) {
        return rc;
    }
    progress_start(&d->progress, "making low-bit experts", total);
    return 0;
}

static int make_lanes(struct reducing *d, int n_threads, struct err *e)
{
    const struct records *q4 = &d->store->records[STORE_BITS];
    uint64_t fit = BATCH_BYTES / q4->stride;
    d->batch = fit < 1 ? 1 : fit > BATCH_RECORDS_MAX ? BATCH_RECORDS_MAX : (size_t)fit;
    uint64_t bytes = d->batch * q4->stride, most = MEMORY_MAX / (2 * bytes);
    if (!most)
        return ERR(e, E_LIMIT, "%s: a record of %llu bytes is more than this program copies",
                   q4->path, (unsigned long long)q4->stride);
    int n = n_threads < LOWBIT_THREADS_MAX ? n_threads : LOWBIT_THREADS_MAX;
    n = (uint64_t)n < most ? n : (int)most;
    for (; d->n_lanes < n; d->n_lanes++) {
        struct lane *l = &d->lane[d->n_lanes];
        l->from = mem_aligned(64, (size_t)bytes);
        l->to = mem_aligned(64, (size_t)bytes);
        if (!l->from || !l->to) {
            mem_free(l->from);
            mem_free(l->to);
            return ERR(e, E_NOMEM, "out of memory for batches of %llu bytes",
                       (unsigned long long)bytes);
        }
    }
    return 0;
}

/* Records first and following in one precision. */
static int write_batch(struct reducing *d, struct copy *c, struct lane *l, size_t first, size_t n,
                       struct err *e)
{
    const struct expert_layout *x = &d->store->manifest.experts;
    size_t stride = (size_t)c->r.stride;
    for (size_t i = 0; i < n; i++) {
        uint8_t *to = l->to + i * stride;
        records_reduce(x, l->from + i * x->stride, &c->r, to);
        c->r.sum[first + i] = XXH3_64bits(to, stride);
    }
    int rc = file_write_at(&c->file, first * stride, l->to, n * stride, e);
    if (!rc) {
        os_start_writeback(c->file.fd, first * stride, n * stride);
        progress_add(&d->progress, n * stride);
    }
    return rc;
}

/* What has its checksum: a copy would give damage a good name. */
static int check_batch(const struct reducing *d, const struct lane *l, size_t first, size_t n,
                       struct err *e)
{
    size_t stride = (size_t)d->store->records[STORE_BITS].stride;
    char room[256];
    for (size_t i = 0; d->sum && i < n; i++) {
        size_t piece = d->pieces.n_dense + first + i;
        if (XXH3_64bits(l->from + i * stride, stride) != d->sum[piece])
            return ERR(e, E_FORMAT, "%s/%s: does not have its checksum; pack it again",
                       d->store->dir, piece_describe(&d->pieces, piece, room, sizeof room));
    }
    return 0;
}

static int reduce_batch(void *ctx, int worker, size_t i, struct err *e)
{
    struct reducing *d = ctx;
    struct lane *l = &d->lane[worker];
    const struct records *q4 = &d->store->records[STORE_BITS];
    size_t first = i * d->batch, n = q4->n - first < d->batch ? q4->n - first : d->batch;
    int rc = interrupt_check(e);
    if (!rc)
        rc = file_read_at(&d->from, first * q4->stride, l->from, n * (size_t)q4->stride, e);
    if (!rc)
        rc = check_batch(d, l, first, n, e);
    for (int bits = STORE_BITS - 1; !rc && bits >= RECORDS_BITS_MIN; bits--)
        if (d->copy[bits].file.fd >= 0)
            rc = write_batch(d, &d->copy[bits], l, first, n, e);
    return rc;
}

/* Every file is on disk before the first manifest says so. */
static int finish(struct reducing *d, struct err *e)
{
    const json_t *root = d->store->manifest.root;
    const char *seal = json_string_value(json_object_get(root, "seal"));
    char hex[SUMS_HEX];
    uint64_t sum;
    int rc = 0;
    if (!seal) { /* a store of the original engine */
        rc = sums_seal(root, &sum, e);
        seal = rc ? NULL : sums_hex(sum, hex);
    }
    for (int bits = STORE_BITS - 1; !rc && bits >= RECORDS_BITS_MIN; bits--)
        if (d->copy[bits].file.fd >= 0)
            rc = file_sync(&d->copy[bits].file, e);
    for (int bits = STORE_BITS - 1; !rc && bits >= RECORDS_BITS_MIN; bits--) {
        if (d->copy[bits].file.fd < 0)
            continue;
        rc = file_close(&d->copy[bits].file, e);
        if (!rc)
            rc = lowbit_publish(d->store->dir, &d->copy[bits].r, seal, e);
    }
    return rc;
}

static void close_all(struct reducing *d, bool failed)
{
    for (int bits = RECORDS_BITS_MIN; bits < STORE_BITS; bits++) {
        struct copy *c = &d->copy[bits];
        struct err ignored = {0};
        bool unfinished = failed && c->file.fd >= 0;
        file_drop(&c->file);
        if (unfinished)
            file_remove(c->r.path, &ignored); /* the room is worth more than what is in it */
        records_close(&c->r);
    }
    for (int i = 0; i < d->n_lanes; i++) {
        mem_free(d->lane[i].from);
        mem_free(d->lane[i].to);
    }
    mem_free(d->sum);
    file_drop(&d->from);
}

static json_t *number(uint64_t v)
{
    return json_integer((json_int_t)v);
}

static json_t *manifest_of(const struct records *r, const char *source)
{
    json_t *root = json_object(), *w = json_object(), *s = json_object(), *sums = json_array();
    char key[8], hex[SUMS_HEX];
    for (int i = 0; i < EXPERT_MATRICES; i++) {
        const char *name = records_matrix((enum expert_matrix)i);
        json_object_set_new(w, name, number(r->w[i]));
        snprintf(key, sizeof key, "%s_s", name);
        json_object_set_new(s, key, number(r->s[i]));
        snprintf(key, sizeof key, "%s_b", name);
        json_object_set_new(s, key, number(r->b[i]));
    }
    for (size_t i = 0; i < r->n; i++)
        json_array_append_new(sums, json_string(sums_hex(r->sum[i], hex)));
    json_object_set_new(root, "bits", json_integer(r->bits));
    json_object_set_new(root, "layout", json_string(RECORDS_LAYOUT));
    json_object_set_new(root, "stride", number(r->stride));
    json_object_set_new(root, "records", number(r->n));
    json_object_set_new(root, "w", w);
    json_object_set_new(root, "s", s);
    json_object_set_new(root, "source", json_string(source));
    json_object_set_new(root, "xxh3", sums);
    return root;
}

/* What is about to be published must read back: memory may have been short on the way. */
static int read_back(const struct buf *text, const struct records *r, struct err *e)
{
    struct records found = *r;
    const char *source = NULL;
    json_t *root = NULL;
    struct err why = {0};
    found.sum = NULL;
    int rc = json_parse(text->data, text->len, records_manifest(r->bits), &root, &why);
    if (!rc)
        rc = records_parse(root, records_manifest(r->bits), &found, &source, &why);
    bool whole = !rc && source && found.sum && !memcmp(found.sum, r->sum, r->n * sizeof *r->sum);
    mem_free(found.sum);
    json_decref(root);
    return whole ? 0
                 : ERR(e, E_NOMEM, "out of memory writing %s: it would be incomplete",
                       records_manifest(r->bits));
}

int lowbit_publish(const char *dir, const struct records *r, const char *source, struct err *e)
{
    struct buf text = BUF_INIT;
    json_t *root = manifest_of(r, source);
    char *path = file_join(dir, records_manifest(r->bits));
    int rc = path ? json_print(root, JSON_INDENT(2), &text, e)
                  : ERR(e, E_NOMEM, "out of memory writing %s", records_manifest(r->bits));
    buf_putc(&text, '\n');
    if (!rc)
        rc = buf_check(&text, e);
    if (!rc)
        rc = read_back(&text, r, e);
    if (!rc)
        rc = file_replace(path, text.data, text.len, e);
    json_decref(root);
    buf_free(&text);
    mem_free(path);
    return rc;
}
