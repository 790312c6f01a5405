/* Dense weights: see dense.h. */
#include "stream/dense.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "stream/reader.h"

enum { DEPTH = 4 };
#define PIECE ((size_t)4 << 20)

static int read_all(struct dense *d, struct reader *r, const char *path, struct err *e);

int dense_load(const struct store *s, struct dense *d, struct err *e)
{
    struct reader *r = NULL;
    *d = (struct dense){.store = s, .size = s->dense.size};
    weights_source_store((struct store *)s, &d->rest); /* which only reads it */
    char *path = file_join(s->dir, "dense.bin");
    int rc = path ? 0 : ERR(e, E_NOMEM, "out of memory loading dense.bin");
    if (!rc)
        rc = os_pages_take(d->size, &d->pages, e);
    if (!rc)
        rc = reader_pread_open(DEPTH, &r, e);
    if (!rc)
        rc = read_all(d, r, path, e);
    if (r)
        r->ops->close(r);
    mem_free(path);
    if (rc) {
        dense_free(d);
        return rc;
    }
    d->data = d->pages.data;
    d->locked = d->pages.locked;
    snprintf(d->why, sizeof d->why, "%s", d->pages.why_not);
    return 0;
}

void dense_free(struct dense *d)
{
    os_pages_free(&d->pages);
    *d = (struct dense){0};
}

/* Keeps DEPTH pieces in flight; after a failure those that are left are waited for by close. */
static int read_all(struct dense *d, struct reader *r, const char *path, struct err *e)
{
    int file, n_flight = 0, rc = r->ops->add(r, path, &file, e);
    size_t at = 0;
    while (!rc && (at < d->size || n_flight)) {
        while (at < d->size && n_flight < DEPTH) {
            size_t left = d->size - at, want = left < PIECE ? left : PIECE;
            size_t len = (want + READER_ALIGN - 1) / READER_ALIGN * READER_ALIGN;
            r->ops->submit(r, &(struct read_request){.file = file,
                                                     .off = at,
                                                     .to = d->pages.data + at,
                                                     .len = len,
                                                     .want = want,
                                                     .user = d->pages.data + at});
            at += want;
            n_flight++;
        }
        struct read_result x[DEPTH];
        int n = r->ops->collect(r, true, x, DEPTH);
        n_flight -= n;
        for (int i = 0; i < n && !rc; i++) {
            errno = x[i].error;
            if (x[i].error)
                rc = err_sys(e, "%s: cannot be read at byte %zu; check the disk", path,
                             (size_t)((uint8_t *)x[i].user - d->pages.data));
        }
        rc = rc ? rc : interrupt_check(e);
    }
    return rc;
}

static int dense_find(void *ctx, const char *name, struct tensor_view *out, struct err *e)
{
    const struct dense *d = ctx;
    int rc = store_find(d->store, name, out, e);
    if (!rc)
        out->data = d->data + ((const uint8_t *)out->data - d->store->dense.data);
    return rc;
}

static int dense_expert(void *ctx, int il, int ie, struct expert *out, struct err *e)
{
    const struct dense *d = ctx;
    return d->rest.expert(d->rest.ctx, il, ie, out, e);
}

static int dense_ngram_row(void *ctx, int m, uint64_t row, float *out, struct err *e)
{
    const struct dense *d = ctx;
    return d->rest.ngram_row(d->rest.ctx, m, row, out, e);
}

void dense_source(const struct dense *d, struct weight_source *out)
{
    *out = (struct weight_source){(void *)d, dense_find, dense_expert, dense_ngram_row, d->store};
}
