/* Made-up stores: see synth.h. The plan is that of a packing, without a checkpoint; pieces are
 * made and written by several threads, in any order, and published as a packed store is. */
#include "pack/synth.h"

#include <stdio.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* the state on the stack */
#include <xxhash.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/thread.h"
#include "base/units.h"
#include "pack/progress.h"
#include "pack/publish.h"
#include "pack/synth_values.h"

#define STEP_BYTES       ((size_t)4 << 20)
#define CONFIG_BYTES_MAX ((uint64_t)16 << 20)
enum { THREADS_MAX = 64, PRECISIONS = RECORDS_BITS_MAX + 1 };

struct making {
    const struct synth_options *options;
    struct plan *plan;
    struct tensor *shapes; /* [plan->n_dense]: type and shape of what is not encoded */
    struct synth_values values;
    struct pieces pieces;
    uint64_t *sum; /* [pieces.n] */
    struct records records[PRECISIONS];
    struct file file[PIECE_FILES], low[PRECISIONS]; /* low: 3 and 2 bits */
    uint8_t *room[THREADS_MAX];
    size_t room_bytes;
    int n_threads;
    struct progress progress;
};

static int make_plan(struct making *k, struct err *e);
static int is_checkpoint(void *ctx, const char *name, struct err *e)
{
    const char *end = strrchr(name, '.');
    if (!end || strcmp(end, ".safetensors") != 0)
        return 0;
    return ERR(e, E_ARG,
               "%s: holds a checkpoint (%s), whose config.json would be lost: choose "
               "another folder",
               (const char *)ctx, name);
}

/* A made-up store takes the place of another, and of nothing else. */
static int check_contents(struct making *k, const char *dir, struct err *e)
{
    char *manifest = file_join(dir, "manifest.json"), *config = file_join(dir, "config.json");
    int rc = manifest && config ? file_each(dir, is_checkpoint, (void *)(uintptr_t)dir, e)
                                : ERR(e, E_NOMEM, "out of memory opening %s", dir);
    const bool force = k->options->bits.force;
    if (!rc && file_exists(manifest) && !force)
        rc = ERR(e, E_ARG, "%s: holds a store; choose another folder, or pass --force", dir);
    if (!rc && file_exists(config) && !force)
        rc = ERR(e, E_ARG,
                 "%s: holds a config.json, which would be lost; choose another folder, or "
                 "pass --force",
                 dir);
    mem_free(manifest);
    mem_free(config);
    return rc;
}

static int check_place(struct making *k, const char *dir, struct err *e);
static int open_all(struct making *k, const char *dir, struct err *e);
static int make_piece(void *ctx, int worker, size_t i, struct err *e);
static int publish(struct making *k, const char *dir, struct err *e);
static void close_all(struct making *k);

int synth_run(const char *dir, const struct synth_options *o, struct synth_report *r, struct err *e)
{
    struct making k = {.options = o};
    uint64_t start = clock_ns();
    for (int i = 0; i < PIECE_FILES; i++)
        k.file[i] = FILE_CLOSED;
    for (int i = 0; i < PRECISIONS; i++)
        k.low[i] = FILE_CLOSED;
    int rc = make_plan(&k, e);
    if (!rc)
        rc = check_place(&k, dir, e);
    if (!rc)
        rc = open_all(&k, dir, e);
    if (!rc) {
        rc = thread_for(k.n_threads, k.pieces.n, make_piece, &k, e);
        progress_end(&k.progress);
    }
    if (!rc)
        rc = publish(&k, dir, e);
    *r = (struct synth_report){k.progress.total, clock_seconds_since(start), k.n_threads};
    close_all(&k);
    return rc;
}

static void set(json_t *o, const char *key, int64_t value)
{
    if (value > 0)
        json_object_set_new(o, key, json_integer(value));
}

/* Layer types, and tables of layers that are left out. */
static void cut_layers(json_t *text, int n_layers)
{
    json_t *types = json_object_get(text, "layer_types");
    json_t *tables = json_object_get(text, "ple_layer_ids");
    while (n_layers && json_array_size(types) > (size_t)n_layers)
        json_array_remove(types, json_array_size(types) - 1);
    for (size_t i = json_array_size(tables); n_layers && i-- > 0;)
        if (json_integer_value(json_array_get(tables, i)) > n_layers) /* counted from 1 */
            json_array_remove(tables, i);
}

static int read_config(struct making *k, struct err *e)
{
    const struct synth_options *o = k->options;
    struct plan *p = k->plan;
    char *path =
        file_is_dir(o->config) ? file_join(o->config, "config.json") : mem_strdup(o->config);
    int rc = path ? json_read_file(path, CONFIG_BYTES_MAX, &p->config_root, e)
                  : ERR(e, E_NOMEM, "out of memory opening %s", o->config);
    if (!rc) {
        json_t *inner = json_object_get(p->config_root, "text_config");
        json_t *text = json_is_object(inner) ? inner : p->config_root;
        set(text, "num_hidden_layers", o->n_layers);
        set(text, "num_experts", o->E);
        set(text, "ngram_vocab_size_base", o->ngram_base);
        cut_layers(text, o->n_layers);
        if (o->without_mtp)
            plan_drop_drafts(p->config_root);
        rc = config_parse(p->config_root, path, &p->config, e);
    }
    mem_free(path);
    return rc;
}

/* One operation for each tensor of dense.bin. */
static int list_dense(struct making *k, struct err *e)
{
    struct plan *p = k->plan;
    p->dense = mem_zalloc(p->expected.n, sizeof *p->dense);
    k->shapes = mem_zalloc(p->expected.n, sizeof *k->shapes);
    if (!p->dense || !k->shapes)
        return ERR(e, E_NOMEM, "out of memory for %zu tensors", p->expected.n);
    for (size_t i = 0; i < p->expected.n; i++) {
        const struct expected *x = &p->expected.at[i];
        struct plan_dense *d = &p->dense[p->n_dense];
        struct tensor *t = &k->shapes[p->n_dense];
        if (x->kind == EXPECTED_EXPERTS || x->kind == EXPECTED_NGRAM)
            continue;
        *d = (struct plan_dense){.kind = PLAN_COPY, .expected = x, .suffix = x->suffix};
        *t = (struct tensor){.dtype = DTYPE_BF16, .n_dims = x->n_dims};
        memcpy(t->shape, x->shape, sizeof x->shape);
        d->tensor = t;
        if (x->kind == EXPECTED_HASH)
            d->kind = PLAN_DERIVE;
        if (x->kind == EXPECTED_MATRIX && expected_group(x)) {
            d->kind = PLAN_ENCODE;
            d->matrix = (struct encode_source){
                .rows = x->shape[0], .cols = x->shape[1], .group = (uint64_t)expected_group(x)};
        }
        p->n_dense++;
    }
    return 0;
}

static int make_plan(struct making *k, struct err *e)
{
    char remark[64];
    k->plan = mem_zalloc(1, sizeof *k->plan);
    if (!k->plan)
        return ERR(e, E_NOMEM, "out of memory planning a store");
    struct plan *p = k->plan;
    int rc = read_config(k, e);
    if (!rc)
        rc = expected_init(&p->config, &p->expected, e);
    snprintf(remark, sizeof remark, "(made up: seed %llu, skew %g)",
             (unsigned long long)k->options->seed, k->options->skew);
    p->target.source_dir = mem_strdup(remark);
    if (!rc && !p->target.source_dir)
        rc = ERR(e, E_NOMEM, "out of memory planning a store");
    if (!rc)
        rc = list_dense(k, e);
    if (!rc)
        rc = plan_lay_out_records(p, e);
    if (!rc)
        rc = plan_lay_out_dense(p, e);
    if (!rc)
        rc = synth_values_init(p, k->options->seed, k->options->skew, &k->values, e);
    if (rc)
        return rc;
    pieces_init(&k->pieces, &p->target, 0);
    for (int bits = RECORDS_BITS_MIN; bits < PRECISIONS; bits++)
        records_layout(&p->target.experts, bits, &k->records[bits]);
    return 0;
}

static bool wants(const struct making *k, int bits)
{
    return k->options->bits.want[bits];
}

static uint64_t total_bytes(const struct making *k)
{
    const struct plan *p = k->plan;
    uint64_t total = p->bytes[PIECE_DENSE] + p->bytes[PIECE_NGRAM];
    for (int bits = RECORDS_BITS_MIN; bits < PRECISIONS; bits++)
        total += wants(k, bits) ? k->records[bits].n * k->records[bits].stride : 0;
    return total;
}

/* A file of an earlier store in dir that this one will not have, or will write anew. */
static int remove_in(const char *dir, const char *name, struct err *e)
{
    char *path = file_join(dir, name);
    int rc = path ? file_remove(path, e) : ERR(e, E_NOMEM, "out of memory opening %s", dir);
    mem_free(path);
    return rc;
}

static int check_place(struct making *k, const char *dir, struct err *e)
{
    static const char *const old[] = {"manifest.json", "manifest3.json", "manifest2.json",
                                      "experts.bin",   "experts3.bin",   "experts2.bin",
                                      "dense.bin",     "ngram.bin",      "config.json"};
    char want[UNITS_ROOM], room[UNITS_ROOM];
    uint64_t total = total_bytes(k), margin = pack_margin(total), there = 0;
    int rc = file_make_dir(dir, e);
    if (!rc)
        rc = check_contents(k, dir, e);
    for (size_t i = 0; !rc && i < sizeof old / sizeof old[0]; i++)
        rc = remove_in(dir, old[i], e);
    if (!rc)
        rc = os_disk_free(dir, &there, e);
    if (!rc && there < total + margin)
        rc = ERR(
            e, E_SPACE,
            "%s: the disk has %s free, want %s with a margin; free some, or choose another folder",
            dir, units_bytes(room, there), units_bytes(want, total + margin));
    return rc;
}

static int open_one(const char *dir, const char *name, uint64_t bytes, struct file *f,
                    struct err *e)
{
    char *path = file_join(dir, name);
    int rc = path ? file_create(path, f, e) : ERR(e, E_NOMEM, "out of memory opening %s", dir);
    if (!rc)
        rc = file_set_size(f, bytes, e);
    mem_free(path);
    return rc;
}

static int open_all(struct making *k, const char *dir, struct err *e)
{
    const struct plan *p = k->plan;
    int rc = open_one(dir, "dense.bin", p->bytes[PIECE_DENSE], &k->file[PIECE_DENSE], e);
    if (!rc && p->bytes[PIECE_NGRAM])
        rc = open_one(dir, "ngram.bin", p->bytes[PIECE_NGRAM], &k->file[PIECE_NGRAM], e);
    if (!rc && wants(k, 4))
        rc = open_one(dir, records_file(4), p->bytes[PIECE_EXPERTS], &k->file[PIECE_EXPERTS], e);
    for (int bits = RECORDS_BITS_MIN; !rc && bits < 4; bits++) {
        struct records *r = &k->records[bits];
        if (!wants(k, bits))
            continue;
        r->sum = mem_array(r->n, sizeof *r->sum);
        rc = r->sum ? open_one(dir, records_file(bits), r->n * r->stride, &k->low[bits], e)
                    : ERR(e, E_NOMEM, "out of memory for %zu checksums", r->n);
    }
    k->sum = mem_array(k->pieces.n, sizeof *k->sum);
    k->n_threads = k->options->bits.n_threads ? k->options->bits.n_threads : os_cpu_count();
    k->n_threads = k->n_threads < THREADS_MAX ? k->n_threads : THREADS_MAX;
    k->room_bytes = STEP_BYTES > p->target.experts.stride ? STEP_BYTES : p->target.experts.stride;
    for (int i = 0; i < k->n_threads; i++) {
        k->room[i] = mem_aligned(64, 2 * k->room_bytes); /* a record, and what is made of it */
        if (!rc && !k->room[i])
            rc = ERR(e, E_NOMEM, "out of memory for %d threads", k->n_threads);
    }
    if (!rc && !k->sum)
        rc = ERR(e, E_NOMEM, "out of memory for %zu checksums", k->pieces.n);
    progress_start(&k->progress, "making up", total_bytes(k));
    return rc;
}

static int write_to(struct making *k, const struct file *f, uint64_t at, const void *from, size_t n,
                    struct err *e)
{
    int rc = file_write_at(f, at, from, n, e);
    if (!rc) {
        os_start_writeback(f->fd, at, n);
        progress_add(&k->progress, n);
    }
    return rc;
}

static int make_record(struct making *k, int worker, size_t i, size_t record, struct err *e)
{
    const struct expert_layout *x = &k->plan->target.experts;
    uint8_t *from = k->room[worker], *to = from + k->room_bytes;
    synth_record(&k->values, (int)(record / (size_t)x->E), (int)(record % (size_t)x->E), from);
    k->sum[i] = XXH3_64bits(from, (size_t)x->stride);
    int rc = wants(k, 4) ? write_to(k, &k->file[PIECE_EXPERTS], record * x->stride, from,
                                    (size_t)x->stride, e)
                         : 0;
    for (int bits = RECORDS_BITS_MIN; !rc && bits < 4; bits++) {
        struct records *r = &k->records[bits];
        if (!wants(k, bits))
            continue;
        records_reduce(x, from, r, to);
        r->sum[record] = XXH3_64bits(to, (size_t)r->stride);
        rc = write_to(k, &k->low[bits], record * r->stride, to, (size_t)r->stride, e);
    }
    return rc;
}

static int make_rows(struct making *k, int worker, size_t i, struct piece at, struct err *e)
{
    uint64_t row_bytes = (uint64_t)k->plan->target.ngram.row_bytes;
    synth_rows(&k->values, at.offset / row_bytes, at.bytes / row_bytes, k->room[worker]);
    k->sum[i] = XXH3_64bits(k->room[worker], (size_t)at.bytes);
    return write_to(k, &k->file[PIECE_NGRAM], at.offset, k->room[worker], (size_t)at.bytes, e);
}

static int make_piece(void *ctx, int worker, size_t i, struct err *e)
{
    struct making *k = ctx;
    struct piece at = piece_at(&k->pieces, i);
    int rc = interrupt_check(e);
    if (rc)
        return rc;
    if (at.file == PIECE_EXPERTS)
        return make_record(k, worker, i, i - k->pieces.n_dense, e);
    if (at.file == PIECE_NGRAM)
        return make_rows(k, worker, i, at, e);
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (uint64_t done = 0; !rc && done < at.bytes;) {
        size_t n = at.bytes - done < STEP_BYTES ? (size_t)(at.bytes - done) : STEP_BYTES;
        synth_dense(&k->values, i, done, k->room[worker], n);
        XXH3_64bits_update(&state, k->room[worker], n);
        rc = write_to(k, &k->file[PIECE_DENSE], at.offset + done, k->room[worker], n, e);
        done += n;
    }
    k->sum[i] = XXH3_64bits_digest(&state);
    return rc;
}

static int sync_all(struct making *k, struct err *e)
{
    int rc = 0;
    for (int i = 0; !rc && i < PIECE_FILES; i++)
        if (k->file[i].fd >= 0)
            rc = file_sync(&k->file[i], e);
    for (int i = 0; !rc && i < PRECISIONS; i++)
        if (k->low[i].fd >= 0)
            rc = file_sync(&k->low[i], e);
    return rc;
}

/* The copies name the store that they are of, and so come last: a kill in between leaves a store
 * that lacks its experts, which does not open. */
static int publish(struct making *k, const char *dir, struct err *e)
{
    const struct plan *p = k->plan;
    json_t *root = NULL;
    char *path = file_join(dir, "manifest.json");
    int rc = path ? sync_all(k, e) : ERR(e, E_NOMEM, "out of memory writing %s", dir);
    if (!rc)
        rc = publish_config(p, dir, e);
    if (!rc && k->options->tokenizer)
        rc = publish_texts(k->options->tokenizer, dir, e);
    if (!rc)
        rc = publish_manifest(p, &k->pieces, k->sum, dir, e);
    if (!rc)
        rc = json_read_file(path, UINT64_MAX, &root, e);
    for (int bits = RECORDS_BITS_MIN; !rc && bits < 4; bits++)
        if (wants(k, bits))
            rc = lowbit_publish(dir, &k->records[bits],
                                json_string_value(json_object_get(root, "seal")), e);
    json_decref(root);
    mem_free(path);
    return rc;
}

static void close_all(struct making *k)
{
    for (int i = 0; i < PIECE_FILES; i++)
        file_drop(&k->file[i]);
    for (int i = 0; i < PRECISIONS; i++) {
        file_drop(&k->low[i]);
        records_close(&k->records[i]);
    }
    for (int i = 0; i < k->n_threads; i++)
        mem_free(k->room[i]);
    synth_values_free(&k->values);
    mem_free(k->sum);
    mem_free(k->shapes);
    plan_close(k->plan);
}
