/* Dumps and captures of what engines show: see dump.h. */
#include "runner/dump.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

struct dump {
    struct observer observer;
    struct file file;
    uint64_t end;
    struct buf frame;
    struct err err; /* of the first frame that could not be written; nothing is written behind it */
};

struct capture {
    struct observer observer;
    struct buf frames;    /* as in a file, without its first line */
    struct block *blocks; /* made from frames on request */
    size_t n_blocks;      /* frames kept */
};

struct dump_file {
    struct map map;       /* of a file; empty when parsed from memory */
    struct block *blocks; /* sorted: what, il, pos, then order in the file */
    size_t n_blocks;
    int n_positions;
};

static int close_with(struct dump *d, struct err *e);
static int parse(struct dump_file *f, const uint8_t *data, size_t len, const char *where,
                 struct err *e);

static void pad(struct buf *b)
{
    static const char zeros[8] = {0};
    buf_add(b, zeros, (8 - b->len % 8) % 8);
}

static void add_frame(struct buf *b, const struct block *k)
{
    struct dump_frame f = {.il = k->il, .pos = k->pos, .type = k->type, .n = (uint32_t)k->n};
    const char *name = seen_name(k->what);
    memcpy(f.what, name, strnlen(name, sizeof f.what));
    buf_add(b, &f, sizeof f);
    buf_add(b, k->values, k->n * (k->type == DUMP_F32 ? sizeof(float) : sizeof(int64_t)));
    pad(b);
}

static void dump_block(struct dump *d, const struct block *k)
{
    if (d->err.code)
        return;
    buf_clear(&d->frame);
    add_frame(&d->frame, k);
    if (buf_check(&d->frame, &d->err) ||
        file_write_at(&d->file, d->end, d->frame.data, d->frame.len, &d->err))
        return;
    d->end += d->frame.len;
}

static void dump_floats(void *ctx, enum seen what, int il, int pos, const float *x, size_t n)
{
    dump_block(ctx, &(struct block){what, il, pos, DUMP_F32, n, x});
}

static void dump_ints(void *ctx, enum seen what, int il, int pos, const int64_t *ids, size_t n)
{
    dump_block(ctx, &(struct block){what, il, pos, DUMP_I64, n, ids});
}

static int create(struct dump *d, const char *path, struct err *e)
{
    if (file_exists(path))
        return ERR(e, E_ARG, "%s is there already: remove it or dump to another directory", path);
    if (file_create(path, &d->file, e) ||
        file_write_at(&d->file, 0, DUMP_MAGIC, strlen(DUMP_MAGIC), e))
        file_remove(path, e);
    d->end = strlen(DUMP_MAGIC);
    return -e->code;
}

int dump_open(const char *dir, struct dump **out, struct err *e)
{
    struct dump *d = mem_zalloc(1, sizeof *d);
    if (!d)
        return ERR(e, E_NOMEM, "no memory for a dump");
    d->observer = (struct observer){d, dump_floats, dump_ints};
    d->file = FILE_CLOSED;
    char *path = file_join(dir, DUMP_FILE);
    int rc = path ? file_make_dir(dir, e) : ERR(e, E_NOMEM, "no memory for a dump");
    if (!rc)
        rc = create(d, path, e);
    mem_free(path);
    if (rc) {
        file_drop(&d->file);
        mem_free(d);
    } else {
        *out = d;
    }
    return rc;
}

const struct observer *dump_observer(const struct dump *d)
{
    return &d->observer;
}

void dump_close(struct dump *d)
{
    struct err e = {0};
    if (d && close_with(d, &e))
        log_say(LOG_ERROR, "the dump is not whole: %s", e.msg);
}

static int close_with(struct dump *d, struct err *e)
{
    *e = d->err;
    if (!e->code)
        file_close(&d->file, e);
    file_drop(&d->file);
    buf_free(&d->frame);
    mem_free(d);
    return -e->code;
}

static void capture_floats(void *ctx, enum seen what, int il, int pos, const float *x, size_t n)
{
    struct capture *c = ctx;
    add_frame(&c->frames, &(struct block){what, il, pos, DUMP_F32, n, x});
    c->n_blocks++;
}

static void capture_ints(void *ctx, enum seen what, int il, int pos, const int64_t *ids, size_t n)
{
    struct capture *c = ctx;
    add_frame(&c->frames, &(struct block){what, il, pos, DUMP_I64, n, ids});
    c->n_blocks++;
}

int capture_open(struct capture **out, struct err *e)
{
    struct capture *c = mem_zalloc(1, sizeof *c);
    if (!c)
        return ERR(e, E_NOMEM, "no memory to keep what an engine shows");
    c->observer = (struct observer){c, capture_floats, capture_ints};
    *out = c;
    return 0;
}

void capture_close(struct capture *c)
{
    if (!c)
        return;
    buf_free(&c->frames);
    mem_free(c->blocks);
    mem_free(c);
}

const struct observer *capture_observer(const struct capture *c)
{
    return &c->observer;
}

void capture_clear(struct capture *c)
{
    buf_clear(&c->frames);
    c->n_blocks = 0;
}

/* The block whose frame starts at *at, which is moved behind it. False, with nothing moved, when
 * the frame is not whole or makes no sense. */
static bool next_block(const uint8_t *data, size_t len, size_t *at, struct block *out)
{
    struct dump_frame f;
    if (len - *at < sizeof f)
        return false;
    memcpy(&f, data + *at, sizeof f);
    const size_t size = f.type == DUMP_F32 ? sizeof(float) : sizeof(int64_t);
    const size_t bytes = (f.n * size + 7) / 8 * 8;
    int what = 0;
    while (what < SEEN_COUNT && strncmp(f.what, seen_name(what), sizeof f.what) != 0)
        what++;
    if (what == SEEN_COUNT || f.type > DUMP_I64 || f.il < -1 || f.pos < 0 || f.pos == INT32_MAX ||
        len - *at - sizeof f < bytes)
        return false;
    *out = (struct block){what, f.il, f.pos, f.type, f.n, data + *at + sizeof f};
    *at += sizeof f + bytes;
    return true;
}

int capture_blocks(struct capture *c, const struct block **out, size_t *n, struct err *e)
{
    struct block *blocks = mem_realloc(c->blocks, c->n_blocks * sizeof *blocks);
    if (blocks)
        c->blocks = blocks;
    if (!blocks || c->frames.failed)
        return ERR(e, E_NOMEM, "no memory to keep the output of %zu blocks", c->n_blocks);
    size_t at = 0;
    for (size_t i = 0; i < c->n_blocks; i++)
        next_block((const uint8_t *)c->frames.data, c->frames.len, &at, &blocks[i]);
    *out = blocks;
    *n = c->n_blocks;
    return 0;
}

int dump_file_open(const char *dir, struct dump_file **out, struct err *e)
{
    struct map map = {0};
    char *path = file_join(dir, DUMP_FILE);
    if (!path)
        return ERR(e, E_NOMEM, "no memory to read the dump in %s", dir);
    int rc = map_open(path, &map, e);
    if (!rc)
        rc = dump_file_parse(map.data, map.size, path, out, e);
    if (rc)
        map_close(&map);
    else
        (*out)->map = map;
    mem_free(path);
    return rc;
}

int dump_file_parse(const void *data, size_t len, const char *where, struct dump_file **out,
                    struct err *e)
{
    struct dump_file *f = mem_zalloc(1, sizeof *f);
    if (!f)
        return ERR(e, E_NOMEM, "no memory to read %s", where);
    if (parse(f, data, len, where, e)) {
        dump_file_close(f);
        return -e->code;
    }
    *out = f;
    return 0;
}

void dump_file_close(struct dump_file *f)
{
    if (!f)
        return;
    mem_free(f->blocks);
    map_close(&f->map);
    mem_free(f);
}

static int compare(const struct block *a, enum seen what, int il, int pos)
{
    if (a->what != what)
        return a->what < what ? -1 : 1;
    if (a->il != il)
        return a->il < il ? -1 : 1;
    return (a->pos > pos) - (a->pos < pos);
}

static int by_place(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    int order = compare(x, y->what, y->il, y->pos);
    if (order)
        return order;
    return ((const char *)x->values > (const char *)y->values) -
           ((const char *)x->values < (const char *)y->values);
}

static int parse(struct dump_file *f, const uint8_t *data, size_t len, const char *where,
                 struct err *e)
{
    const size_t start = strlen(DUMP_MAGIC);
    size_t cap = 0;
    if (len < start || memcmp(data, DUMP_MAGIC, start) != 0)
        return ERR(e, E_FORMAT,
                   "%s: does not start like a dump of version 1; make it again with "
                   "CHERENKOV_DUMP",
                   where);
    for (size_t at = start; at < len; f->n_blocks++) {
        if (f->n_blocks == cap) {
            cap = cap ? 2 * cap : 256;
            struct block *more = mem_realloc(f->blocks, cap * sizeof *more);
            if (!more)
                return ERR(e, E_NOMEM, "%s: no memory for its %zu blocks", where, cap);
            f->blocks = more;
        }
        struct block *b = &f->blocks[f->n_blocks];
        if (!next_block(data, len, &at, b))
            return ERR(e, E_FORMAT,
                       "%s: no whole frame at byte %zu of %zu: the dump was cut or "
                       "damaged; make it again",
                       where, at, len);
        if (b->pos >= f->n_positions)
            f->n_positions = b->pos + 1;
    }
    if (f->n_blocks)
        qsort(f->blocks, f->n_blocks, sizeof *f->blocks, by_place);
    return 0;
}

const struct block *dump_file_find(const struct dump_file *f, enum seen what, int il, int pos)
{
    size_t lo = 0, hi = f->n_blocks; /* the first block behind the place */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (compare(&f->blocks[mid], what, il, pos) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo && compare(&f->blocks[lo - 1], what, il, pos) == 0 ? &f->blocks[lo - 1] : NULL;
}

int dump_file_positions(const struct dump_file *f)
{
    return f->n_positions;
}
