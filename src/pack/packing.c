/* A store while it is written: see packing.h. */
#include "pack/packing.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/thread.h"

#define PACKING_REVISION 1 /* counts up when the same source gives other bytes */
#define RAW_BYTES        ((size_t)4 << 20)
#define OUT_BYTES        ((size_t)8 << 20)

static int open_files(const char *dir, struct packing *p, bool fresh, struct err *e);
static void size_lanes(struct packing *p);
static int make_lanes(struct packing *p, int n_threads, struct err *e);
static int order_dense(struct packing *p, struct err *e);
static uint64_t fingerprint(const struct plan *plan);

int packing_open(const char *dir, const struct plan *plan, int n_threads, struct packing *out,
                 struct err *e)
{
    struct packing *p = out;
    *p = (struct packing){.plan = plan};
    for (int i = 0; i < PIECE_FILES; i++)
        p->file[i] = FILE_CLOSED;
    pieces_init(&p->pieces, &plan->target, 0);
    int rc = journal_open(dir, fingerprint(plan), p->pieces.n, &p->journal, e);
    if (!rc)
        rc = open_files(dir, p, p->journal.fresh, e);
    if (!rc)
        rc = make_lanes(p, n_threads, e);
    if (!rc)
        rc = order_dense(p, e);
    if (rc)
        packing_close(p);
    return rc;
}

void packing_close(struct packing *p)
{
    for (int i = 0; i < p->n_lanes; i++) {
        mem_free(p->lanes[i].out);
        mem_free(p->lanes[i].scratch.raw);
        mem_free(p->lanes[i].scratch.values);
    }
    mem_free(p->lanes);
    mem_free(p->dense_order);
    for (int i = 0; i < PIECE_FILES; i++)
        file_drop(&p->file[i]);
    journal_close(&p->journal);
    *p = (struct packing){0};
}

static int open_files(const char *dir, struct packing *p, bool fresh, struct err *e)
{
    for (int i = 0; i < PIECE_FILES; i++) {
        char *path = file_join(dir, piece_file_names[i]);
        int rc = path ? 0 : ERR(e, E_NOMEM, "out of memory opening %s", dir);
        if (!rc && !p->plan->bytes[i])
            rc = file_remove(path, e); /* of an earlier attempt with another source */
        else if (!rc)
            rc = fresh ? file_create(path, &p->file[i], e) : file_reopen(path, &p->file[i], e);
        if (!rc && p->plan->bytes[i])
            rc = file_set_size(&p->file[i], p->plan->bytes[i], e);
        mem_free(path);
        if (rc)
            return rc;
    }
    return 0;
}

static void widen_for(struct packing *p, const struct encode_source *m)
{
    size_t row = (size_t)encode_row_bytes(m),
           packed = (size_t)(m->cols / 2 + m->cols / m->group * 4);
    p->raw_bytes = row > p->raw_bytes ? row : p->raw_bytes;
    p->out_bytes = packed > p->out_bytes ? packed : p->out_bytes;
    p->n_values = m->cols > p->n_values ? (size_t)m->cols : p->n_values;
}

/* The largest row, record and block decide how much a thread needs. */
static void size_lanes(struct packing *p)
{
    const struct plan *plan = p->plan;
    const struct expert_layout *x = &plan->target.experts;
    p->raw_bytes = RAW_BYTES;
    p->out_bytes = OUT_BYTES;
    for (size_t i = 0; i < plan->n_dense; i++)
        if (plan->dense[i].kind == PLAN_ENCODE)
            widen_for(p, &plan->dense[i].matrix);
    for (int il = 0; il < x->n_layers; il++)
        for (int k = 0; k < EXPERT_MATRICES; k++)
            widen_for(p, &plan->experts[il][k].matrix);
    for (size_t i = 0; i < plan->n_ngram; i++)
        widen_for(p, &plan->ngram[i].matrix);
    uint64_t fit = OUT_BYTES / x->stride;
    p->records_per_job = fit < 1 ? 1 : fit > (uint64_t)x->E ? x->E : (int)fit;
    uint64_t batch = (uint64_t)p->records_per_job * x->stride;
    p->out_bytes = batch > p->out_bytes ? (size_t)batch : p->out_bytes;
}

static int make_lanes(struct packing *p, int n_threads, struct err *e)
{
    size_lanes(p);
    uint64_t each = p->out_bytes + p->raw_bytes + p->n_values * sizeof(float);
    uint64_t most = PACKING_MEMORY_MAX / each;
    if (!most)
        return ERR(e, E_LIMIT,
                   "%s: its largest row or expert needs buffers of %llu bytes, and packing keeps "
                   "below %llu",
                   p->plan->checkpoint->dir, (unsigned long long)each,
                   (unsigned long long)PACKING_MEMORY_MAX);
    int n = (uint64_t)n_threads < most ? n_threads : (int)most;
    p->lanes = mem_zalloc((size_t)n, sizeof *p->lanes);
    if (!p->lanes)
        return ERR(e, E_NOMEM, "out of memory for %d threads", n);
    for (; p->n_lanes < n; p->n_lanes++) {
        struct lane *l = &p->lanes[p->n_lanes];
        l->out = mem_aligned(64, p->out_bytes);
        l->scratch = (struct encode_scratch){.raw_bytes = p->raw_bytes, .n_values = p->n_values};
        l->scratch.raw = mem_aligned(64, p->raw_bytes);
        l->scratch.values = mem_array(p->n_values + 1, sizeof(float));
        if (l->out && l->scratch.raw && l->scratch.values)
            continue;
        mem_free(l->out);
        mem_free(l->scratch.raw);
        mem_free(l->scratch.values);
        break;
    }
    return p->n_lanes ? 0
                      : ERR(e, E_NOMEM, "out of memory for buffers of %llu bytes",
                            (unsigned long long)each);
}

/* qsort has no room for a context: pairs carry the length along. */
struct sized {
    uint64_t bytes;
    size_t i;
};

static int compare_sized(const void *a, const void *b)
{
    const struct sized *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

/* A tensor is one thread's work, since its checksum runs through it: the longest go first, so
 * that no thread is left with one at the end. */
static int order_dense(struct packing *p, struct err *e)
{
    const struct plan *plan = p->plan;
    struct sized *v = mem_array(plan->n_dense + 1, sizeof *v);
    p->dense_order = mem_array(plan->n_dense + 1, sizeof *p->dense_order);
    if (v && p->dense_order) {
        for (size_t i = 0; i < plan->n_dense; i++)
            v[i] = (struct sized){plan->target.dense[plan->dense[i].entry[0]].nbytes, i};
        qsort(v, plan->n_dense, sizeof *v, compare_sized);
        for (size_t i = 0; i < plan->n_dense; i++)
            p->dense_order[i] = v[i].i;
    }
    mem_free(v);
    return v && p->dense_order
               ? 0
               : ERR(e, E_NOMEM, "out of memory ordering %zu tensors", plan->n_dense);
}

/* Everything that decides the bytes of the store, so that a journal is never used for another. */
static uint64_t fingerprint(const struct plan *plan)
{
    const struct manifest *m = &plan->target;
    XXH3_state_t *h = XXH3_createState();
    if (!h)
        return 0; /* a journal of fingerprint 0 only costs the resumption: pieces are read back */
    XXH3_64bits_reset(h);
    XXH3_64bits_update(h, m->source_dir, strlen(m->source_dir) + 1);
    for (int i = 0; i < plan->checkpoint->n_files; i++) {
        const struct file *f = &plan->checkpoint->files[i];
        const char *name = strrchr(f->path, '/'); /* the folder may be named in other ways */
        name = name ? name : f->path;
        XXH3_64bits_update(h, name, strlen(name) + 1);
        XXH3_64bits_update(h, &f->size, sizeof f->size);
        XXH3_64bits_update(h, &f->mtime_ns, sizeof f->mtime_ns);
    }
    for (size_t i = 0; i < m->n_dense; i++) {
        XXH3_64bits_update(h, m->dense[i].name, strlen(m->dense[i].name) + 1);
        XXH3_64bits_update(h, &m->dense[i].offset, sizeof m->dense[i].offset);
    }
    const uint64_t rest[] = {PACKING_REVISION,           plan->norms.norms,
                             plan->choices.requantise,   plan->bytes[PIECE_DENSE],
                             plan->bytes[PIECE_EXPERTS], plan->bytes[PIECE_NGRAM],
                             m->experts.stride,          (uint64_t)m->ngram.row_bytes};
    XXH3_64bits_update(h, rest, sizeof rest);
    uint64_t sum = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    return sum;
}

static int recheck_one(void *ctx, int worker, size_t i, struct err *e)
{
    struct packing *p = ctx;
    struct lane *l = &p->lanes[worker];
    struct piece at = piece_at(&p->pieces, i);
    uint64_t sum;
    int rc = interrupt_check(e);
    if (rc || !p->journal.done[i])
        return rc;
    rc = piece_sum(&p->file[at.file], at, l->out, p->out_bytes, &sum, e);
    p->journal.done[i] = !rc && sum == p->journal.sum[i];
    progress_add(&p->progress, at.bytes);
    return rc;
}

int packing_recheck(struct packing *p, uint64_t *kept, struct err *e)
{
    uint64_t claimed = 0;
    *kept = 0;
    for (size_t i = 0; i < p->pieces.n; i++)
        claimed += p->journal.done[i] ? piece_at(&p->pieces, i).bytes : 0;
    progress_start(&p->progress, "reading back", claimed);
    int rc = thread_for(p->n_lanes, p->pieces.n, recheck_one, p, e);
    progress_end(&p->progress);
    for (size_t i = 0; i < p->pieces.n; i++)
        *kept += p->journal.done[i] ? piece_at(&p->pieces, i).bytes : 0;
    return rc;
}

/* How many jobs: operations, then batches of records, then blocks. */
static size_t batches_per_layer(const struct packing *p)
{
    int E = p->plan->target.experts.E;
    return (size_t)((E + p->records_per_job - 1) / p->records_per_job);
}

static int write_one(void *ctx, int worker, size_t i, struct err *e)
{
    struct packing *p = ctx;
    struct lane *l = &p->lanes[worker];
    size_t per_layer = batches_per_layer(p);
    size_t n_batches = (size_t)p->plan->target.experts.n_layers * per_layer;
    if (i < p->plan->n_dense)
        return dense_pack(p, l, &p->plan->dense[p->dense_order[i]], e);
    i -= p->plan->n_dense;
    if (i >= n_batches)
        return ngram_pack(p, l, i - n_batches, e);
    int first = (int)(i % per_layer) * p->records_per_job, E = p->plan->target.experts.E;
    int n = E - first < p->records_per_job ? E - first : p->records_per_job;
    return experts_pack(p, l, (int)(i / per_layer), first, n, e);
}

int packing_write_all(struct packing *p, struct err *e)
{
    size_t n_batches = (size_t)p->plan->target.experts.n_layers * batches_per_layer(p);
    return thread_for(p->n_lanes, p->plan->n_dense + n_batches + p->pieces.n_blocks, write_one, p,
                      e);
}

int packing_sync(struct packing *p, struct err *e)
{
    for (int i = 0; i < PIECE_FILES; i++) {
        int rc = p->plan->bytes[i] ? file_sync(&p->file[i], e) : 0;
        if (!rc)
            rc = file_close(&p->file[i], e);
        if (rc)
            return rc;
    }
    return 0;
}

int packing_write(struct packing *p, enum piece_file file, uint64_t offset, const void *from,
                  size_t n, struct err *e)
{
    int rc = interrupt_check(e);
    if (!rc)
        rc = file_write_at(&p->file[file], offset, from, n, e);
    if (!rc) {
        os_start_writeback(p->file[file].fd, offset, n);
        progress_add(&p->progress, n);
    }
    return rc;
}
