/* Whether a store is whole: see verify.h. */
#include "pack/verify.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/interrupt.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/thread.h"
#include "pack/progress.h"
#include "pack/structure.h"
#include "pack/sums.h"
#include "pack/texts.h"
#include "store/store.h"

#define ROOM_BYTES ((size_t)1 << 20) /* of a thread, to read through */
#define MEMORY_MAX ((uint64_t)128 << 20)

/* Findings have one lock; all else is read-only once the threads run. */
struct check {
    const struct store *store;
    struct pieces pieces;
    uint64_t *sum; /* [pieces.n] */
    bool has_sums; /* checksums.bin is there and whole: records and blocks have a checksum */
    struct file file[PIECE_FILES]; /* experts.bin closed when it is not there */
    struct {
        struct file file; /* closed when there is no copy */
        size_t n;         /* records to compare: 0 without checksums */
    } copy[RECORDS_BITS_MAX];
    uint8_t **room; /* [n_threads] */
    int n_threads;
    struct progress progress;
    pthread_mutex_t lock; /* guards *report */
    struct verify_report *report;
};

static int open_all(struct check *c, const char *dir, struct err *e);
static int check_seal(struct check *c, struct err *e);
static int read_sums(struct check *c, struct err *e);
static int check_lengths(struct check *c);
static int check_texts(struct check *c, struct err *e);
static int check_pieces(struct check *c, struct err *e);
static int check_gaps(struct check *c, struct err *e);
static int open_copies(struct check *c, struct err *e);
static void on_structure(void *ctx, enum structure_problem kind, const char *text);
static int judge(const char *dir, const struct verify_report *r, struct err *e);
static void close_all(struct check *c);

int verify_store(const char *path, int n_threads, struct verify_report *r, struct err *e)
{
    struct store *s;
    struct check c = {.report = r, .n_threads = n_threads ? n_threads : os_cpu_count()};
    *r = (struct verify_report){.lines = BUF_INIT};
    int rc = store_open(path, &s, e);
    if (rc)
        return rc;
    c.store = s;
    pthread_mutex_init(&c.lock, NULL);
    rc = open_all(&c, s->dir, e);
    if (!rc)
        rc = open_copies(&c, e);
    if (!rc)
        rc = check_seal(&c, e);
    if (!rc)
        rc = read_sums(&c, e);
    if (!rc)
        rc = structure_check(s, on_structure, &c, e);
    if (!rc)
        rc = check_lengths(&c);
    if (!rc)
        rc = check_texts(&c, e);
    if (!rc)
        rc = check_gaps(&c, e);
    if (!rc)
        rc = check_pieces(&c, e);
    if (!rc)
        rc = buf_check(&r->lines, e);
    if (!rc)
        rc = judge(s->dir, r, e);
    r->n_threads = c.n_threads;
    close_all(&c);
    pthread_mutex_destroy(&c.lock);
    store_close(s);
    return rc;
}

static int judge(const char *dir, const struct verify_report *r, struct err *e)
{
    const char *s = r->n_damaged == 1 ? "" : "s";
    if (!r->n_damaged)
        return 0;
    if (r->n_texts < r->n_damaged)
        return ERR(e, E_DIFFER, "%s: is damaged in %zu place%s; pack it again", dir, r->n_damaged,
                   s);
    return ERR(
        e, E_DIFFER,
        "%s: differs from what was packed in %zu text%s; copy %s from the checkpoint, or, if "
        "that is meant, note the texts as they are: `cherenkov verify --accept-texts %s`",
        dir, r->n_damaged, s, *s ? "them" : "it", dir);
}

void verify_free(struct verify_report *r)
{
    buf_free(&r->lines);
}

/* Notes one finding. Any thread. */
static void find(struct check *c, const char *line)
{
    pthread_mutex_lock(&c->lock);
    if (c->report->n_damaged++ < VERIFY_LINES_MAX)
        buf_printf(&c->report->lines, "%s\n", line);
    pthread_mutex_unlock(&c->lock);
}

static void on_structure(void *ctx, enum structure_problem kind, const char *text)
{
    char line[640];
    snprintf(line, sizeof line, "manifest.json: %s%s",
             kind == STRUCTURE_MISSING ? "lacks tensor " : "", text);
    if (kind != STRUCTURE_UNUSED)
        find(ctx, line);
}

static int open_all(struct check *c, const char *dir, struct err *e)
{
    const struct manifest *m = &c->store->manifest;
    int rc = 0;
    for (int i = 0; i < PIECE_FILES; i++)
        c->file[i] = FILE_CLOSED;
    for (int i = 0; i < PIECE_FILES && !rc; i++) {
        if ((i == PIECE_NGRAM && !m->ngram.rows) ||
            (i == PIECE_EXPERTS && !c->store->records[4].present))
            continue;
        char *path = file_join(dir, piece_file_names[i]);
        rc = path ? file_open(path, &c->file[i], e) : ERR(e, E_NOMEM, "out of memory in %s", dir);
        mem_free(path);
        if (!rc)
            os_advise_sequential(c->file[i].fd);
    }
    uint64_t most = MEMORY_MAX / ROOM_BYTES;
    c->n_threads = (uint64_t)c->n_threads < most ? c->n_threads : (int)most;
    c->room = mem_zalloc((size_t)c->n_threads, sizeof *c->room);
    for (int i = 0; c->room && i < c->n_threads; i++) {
        c->room[i] = mem_aligned(64, ROOM_BYTES);
        if (!c->room[i] && !rc)
            rc = ERR(e, E_NOMEM, "out of memory for buffers of %d threads", c->n_threads);
    }
    return rc || c->room ? rc : ERR(e, E_NOMEM, "out of memory for %d threads", c->n_threads);
}

static void close_all(struct check *c)
{
    for (int i = 0; c->room && i < c->n_threads; i++)
        mem_free(c->room[i]);
    mem_free(c->room);
    for (int i = 0; i < PIECE_FILES; i++)
        file_drop(&c->file[i]);
    for (int bits = RECORDS_BITS_MIN; bits < RECORDS_BITS_MAX; bits++)
        file_drop(&c->copy[bits].file);
    mem_free(c->sum);
}

/* A copy that is there but cannot be used is a finding. */
static int open_copies(struct check *c, struct err *e)
{
    int rc = 0;
    for (int bits = RECORDS_BITS_MIN; bits < RECORDS_BITS_MAX; bits++)
        c->copy[bits].file = FILE_CLOSED;
    for (int bits = RECORDS_BITS_MIN; !rc && bits < RECORDS_BITS_MAX; bits++) {
        const struct records *r = &c->store->records[bits];
        if (!r->present && r->why.code != E_NOTFOUND)
            find(c, r->why.msg);
        if (!r->present)
            continue;
        rc = file_open(r->path, &c->copy[bits].file, e);
        c->copy[bits].n = r->sum ? r->n : 0;
        c->report->n_unsummed += r->sum ? 0 : r->n;
    }
    return rc;
}

/* A manifest without a seal is one of the original engine. */
static int check_seal(struct check *c, struct err *e)
{
    const json_t *root = c->store->manifest.root, *seal = json_object_get(root, "seal");
    uint64_t want, is;
    if (!seal)
        return 0;
    int rc = sums_seal(root, &is, e);
    if (rc)
        return rc;
    if (!json_is_string(seal) || sums_unhex(json_string_value(seal), &want) || want != is)
        find(c, "manifest.json: its contents do not have the checksum that it names as its seal");
    return 0;
}

/* The file is not what it should be, as against a machine that could not read it. */
static bool is_damage(const struct err *why)
{
    return why->code == E_FORMAT || why->code == E_NOTFOUND || why->code == E_LIMIT;
}

/* Checksums of records and blocks. A damaged file is a finding, and then they are not compared. */
static int read_sums(struct check *c, struct err *e)
{
    struct err why = {0};
    int rc = sums_load(c->store, &c->pieces, &c->sum, &why);
    c->has_sums = !rc && c->sum;
    if (!rc)
        return 0;
    if (!is_damage(&why))
        return ERR(e, why.code, "%s", why.msg);
    find(c, why.msg);
    pieces_init(&c->pieces, &c->store->manifest, 0);
    return 0;
}

/* store_open has refused files that are too short. */
static void check_length(struct check *c, const char *name, const struct file *f, uint64_t want)
{
    char line[160];
    snprintf(line, sizeof line, "%s: is %llu bytes, want %llu", name, (unsigned long long)f->size,
             (unsigned long long)want);
    if (f->fd >= 0 && f->size > want)
        find(c, line);
}

static int check_lengths(struct check *c)
{
    uint64_t want[PIECE_FILES] = {0};
    for (size_t i = 0; i < c->pieces.n; i++) {
        struct piece at = piece_at(&c->pieces, i);
        uint64_t end = at.offset + at.bytes;
        want[at.file] = end > want[at.file] ? end : want[at.file];
    }
    for (int i = 0; i < PIECE_FILES; i++)
        check_length(c, piece_file_names[i], &c->file[i], want[i]);
    for (int bits = RECORDS_BITS_MIN; bits < RECORDS_BITS_MAX; bits++)
        check_length(c, records_file(bits), &c->copy[bits].file,
                     c->store->records[bits].n * c->store->records[bits].stride);
    return 0;
}

static void on_text(void *ctx, const char *text)
{
    struct check *c = ctx;
    c->report->n_texts++;
    find(c, text);
}

static int check_texts(struct check *c, struct err *e)
{
    const json_t *sums = json_object_get(c->store->manifest.root, "checksums");
    struct texts_report r;
    int rc = texts_check(c->store->dir, json_object_get(sums, "texts") != NULL, &r, on_text, c, e);
    c->report->n_pieces += r.n;
    c->report->n_unsummed += r.n_unsummed;
    c->report->bytes += r.bytes;
    return rc;
}

static int compare_offset(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* The bytes of dense.bin between tensors are zero. They are few: one thread will do. */
static int check_gaps(struct check *c, struct err *e)
{
    const struct manifest *m = &c->store->manifest;
    struct piece *v = mem_array(m->n_dense + 1, sizeof *v);
    uint64_t at = 0;
    int rc = v ? 0 : ERR(e, E_NOMEM, "out of memory ordering %zu tensors", m->n_dense);
    for (size_t i = 0; v && i < m->n_dense; i++)
        v[i] = (struct piece){PIECE_DENSE, m->dense[i].offset, m->dense[i].nbytes};
    if (v)
        qsort(v, m->n_dense, sizeof *v, compare_offset);
    for (size_t i = 0; v && i < m->n_dense && !rc; i++) {
        static const uint8_t zero[STORE_ALIGN];
        uint8_t gap[STORE_ALIGN];
        char line[160];
        size_t n = v[i].offset > at && v[i].offset - at < STORE_ALIGN ? v[i].offset - at : 0;
        rc = file_read_at(&c->file[PIECE_DENSE], at, gap, n, e);
        snprintf(line, sizeof line, "dense.bin: bytes %llu to %llu, between tensors, are not zero",
                 (unsigned long long)at, (unsigned long long)(at + n - 1));
        if (!rc && memcmp(gap, zero, n) != 0)
            find(c, line);
        at = v[i].offset + v[i].bytes;
    }
    mem_free(v);
    return rc;
}

static bool is_there(const struct check *c, size_t i)
{
    return c->file[piece_at(&c->pieces, i).file].fd >= 0;
}

static bool has_sum(const struct check *c, size_t i)
{
    if (!is_there(c, i))
        return false;
    return i < c->pieces.n_dense ? c->store->manifest.dense[i].has_sum : c->has_sums;
}

static uint64_t sum_of(const struct check *c, size_t i)
{
    return i < c->pieces.n_dense ? c->store->manifest.dense[i].xxh3 : c->sum[i];
}

/* Record i of a low-bit copy. */
static int check_copy(struct check *c, int worker, int bits, size_t i, struct err *e)
{
    const struct records *r = &c->store->records[bits];
    const struct manifest *m = &c->store->manifest;
    size_t E = (size_t)m->experts.E;
    struct piece at = {PIECE_EXPERTS, i * r->stride, r->stride};
    char line[512];
    uint64_t is;
    int rc = piece_sum(&c->copy[bits].file, at, c->room[worker], ROOM_BYTES, &is, e);
    progress_add(&c->progress, at.bytes);
    if (rc || is == r->sum[i])
        return rc;
    snprintf(line, sizeof line,
             "%s: record layer %zu (%.200s), expert %zu: bytes %llu to %llu do not have their "
             "checksum",
             records_file(bits), i / E, m->layer_prefixes[i / E], i % E,
             (unsigned long long)at.offset, (unsigned long long)(at.offset + at.bytes - 1));
    find(c, line);
    return 0;
}

/* Pieces of the three files, then records of copies. */
static int check_one(void *ctx, int worker, size_t i, struct err *e)
{
    struct check *c = ctx;
    if (i >= c->pieces.n) {
        i -= c->pieces.n;
        int bits = i < c->copy[3].n ? 3 : 2;
        int rc = interrupt_check(e);
        return rc ? rc : check_copy(c, worker, bits, bits == 3 ? i : i - c->copy[3].n, e);
    }
    struct piece at = piece_at(&c->pieces, i);
    char name[256], line[512];
    uint64_t is;
    int rc = interrupt_check(e);
    if (rc || !has_sum(c, i))
        return rc;
    rc = piece_sum(&c->file[at.file], at, c->room[worker], ROOM_BYTES, &is, e);
    progress_add(&c->progress, at.bytes);
    if (rc || is == sum_of(c, i))
        return rc;
    snprintf(line, sizeof line, "%s: bytes %llu to %llu do not have their checksum",
             piece_describe(&c->pieces, i, name, sizeof name), (unsigned long long)at.offset,
             (unsigned long long)(at.offset + at.bytes - 1));
    find(c, line);
    return 0;
}

static int check_pieces(struct check *c, struct err *e)
{
    struct verify_report *r = c->report;
    const uint64_t texts = r->bytes; /* read already */
    for (size_t i = 0; i < c->pieces.n; i++) {
        bool sum = has_sum(c, i);
        r->n_pieces += sum;
        r->n_unsummed += !sum && is_there(c, i);
        r->bytes += sum ? piece_at(&c->pieces, i).bytes : 0;
    }
    for (int bits = RECORDS_BITS_MIN; bits < RECORDS_BITS_MAX; bits++) {
        r->n_pieces += c->copy[bits].n;
        r->bytes += c->copy[bits].n * c->store->records[bits].stride;
    }
    progress_start(&c->progress, "verifying", r->bytes - texts);
    size_t n = c->pieces.n + c->copy[3].n + c->copy[2].n;
    int rc = thread_for(c->n_threads, n, check_one, c, e);
    r->seconds = progress_end(&c->progress);
    return rc;
}
