/* Opening a store: see store.h. manifest.c has checked the manifest by itself and config.c the
 * config; here the two are held against each other and against the lengths of the files. */
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static int read_texts(struct store *s, struct err *e);
static int map_files(struct store *s, struct err *e);
static int open_records(struct store *s, struct err *e);
static int check_experts(const struct store *s, struct err *e);
static int check_prefixes(const struct store *s, struct err *e);
static int check_groups(const struct store *s, struct err *e);
static int check_ngram(struct store *s, struct err *e);
static int check_lengths(const struct store *s, struct err *e);

int store_open(const char *path, struct store **out, struct err *e)
{
    struct store *s = mem_zalloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return ERR(e, E_NOMEM, "out of memory opening %s", path);
    int rc = store_locate(path, &s->dir, e);
    if (!rc)
        rc = read_texts(s, e);
    if (!rc)
        rc = check_experts(s, e);
    if (!rc)
        rc = check_prefixes(s, e);
    if (!rc)
        rc = check_groups(s, e);
    if (!rc)
        rc = check_ngram(s, e);
    if (!rc)
        rc = map_files(s, e);
    if (!rc)
        rc = check_lengths(s, e);
    if (!rc)
        rc = open_records(s, e);
    if (rc) {
        store_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    map_close(&s->ngram);
    for (int bits = RECORDS_BITS_MIN; bits <= RECORDS_BITS_MAX; bits++)
        records_close(&s->records[bits]);
    map_close(&s->dense);
    manifest_free(&s->manifest);
    mem_free(s->dir);
    mem_free(s);
}

/* Whether there is such a file; where nobody may look, "it is not there" would be a guess. */
static int look(const char *path, bool *there, struct err *e)
{
    errno = 0;
    *there = file_exists(path);
    return !*there && errno == EACCES ? err_sys(e, "%s: cannot be looked at", path) : 0;
}

/* dir when it holds a manifest, else NULL in *found. */
static int try_dir(const char *dir, char **found, struct err *e)
{
    char *manifest = file_join(dir, "manifest.json");
    *found = NULL;
    if (!manifest)
        return ERR(e, E_NOMEM, "out of memory looking for a store in %s", dir);
    bool there;
    int rc = look(manifest, &there, e);
    mem_free(manifest);
    if (!rc && there && !(*found = mem_strdup(dir)))
        rc = ERR(e, E_NOMEM, "out of memory looking for a store in %s", dir);
    return rc;
}

/* What a stop or a kill leaves behind. */
static bool is_unfinished(const char *dir)
{
    char *journal = file_join(dir, "packing.journal");
    const bool there = journal && file_exists(journal);
    mem_free(journal);
    return there;
}

int store_locate(const char *path, char **dir, struct err *e)
{
    bool there;
    *dir = NULL;
    int rc = look(path, &there, e);
    if (!rc && !there)
        rc = ERR(e, E_NOTFOUND, "%s: there is no such folder", path);
    if (!rc && !file_is_dir(path))
        rc = ERR(e, E_FORMAT, "%s: want the folder of a store, found a file", path);
    if (!rc)
        rc = try_dir(path, dir, e);
    if (rc || *dir)
        return rc;
    if (is_unfinished(path))
        return ERR(e, E_NOTFOUND,
                   "%s: is a store that is not finished: give the `cherenkov pack` command that "
                   "began it again, and it goes on from there",
                   path);
    char *packed = file_join(path, "packed");
    if (!packed)
        return ERR(e, E_NOMEM, "out of memory looking for a store in %s", path);
    rc = try_dir(packed, dir, e);
    if (!rc && !*dir)
        rc = ERR(e, E_NOTFOUND,
                 "%s: is not a store: there is no manifest.json, nor %s/manifest.json%s; "
                 "`cherenkov pack %s` makes a store of a checkpoint",
                 path, packed, file_is_dir(packed) ? " (packing has not finished)" : "", path);
    mem_free(packed);
    return rc;
}

static int by_name(const void *key, const void *entry)
{
    return strcmp(key, ((const struct dense_entry *)entry)->name);
}

static const struct dense_entry *find_entry(const struct store *s, const char *name)
{
    return s->manifest.n_dense ? bsearch(name, s->manifest.dense, s->manifest.n_dense,
                                         sizeof *s->manifest.dense, by_name)
                               : NULL;
}

int store_find(const struct store *s, const char *name, struct tensor_view *out, struct err *e)
{
    const struct dense_entry *x = find_entry(s, name);
    if (!x)
        return ERR(e, E_NOTFOUND, "%s/manifest.json: has no tensor %s: pack again", s->dir, name);
    *out = (struct tensor_view){.name = x->name,
                                .dtype = x->dtype,
                                .n_dims = x->n_dims,
                                .data = s->dense.data + x->offset,
                                .nbytes = x->nbytes};
    memcpy(out->shape, x->shape, sizeof out->shape);
    return 0;
}

const uint8_t *store_record(const struct store *s, int il, int ie)
{
    assert(s->records[4].present);
    return records_at(&s->records[4], (size_t)il * (size_t)s->manifest.experts.E + (size_t)ie);
}

int store_records(const struct store *s, int bits, const struct records **out, struct err *e)
{
    if (bits < RECORDS_BITS_MIN || bits > RECORDS_BITS_MAX)
        return ERR(e, E_ARG, "experts of %d bits: want 4, 3 or 2", bits);
    *out = &s->records[bits];
    if ((*out)->present)
        return 0;
    const char *why = (*out)->why.msg;
    if (bits == 4)
        return ERR(
            e, (*out)->why.code,
            "%s; this store has experts of %d bits at most: choose those, or pack the checkpoint "
            "again",
            why, store_bits_best(s));
    return ERR(e, (*out)->why.code, "%s; `cherenkov pack %s --experts %d` makes them", why, s->dir,
               bits);
}

int store_bits_best(const struct store *s)
{
    int bits = RECORDS_BITS_MAX;
    while (bits > RECORDS_BITS_MIN && !s->records[bits].present)
        bits--;
    return bits;
}

const uint8_t *store_ngram_row(const struct store *s, uint64_t row)
{
    return s->ngram.data + row * (uint64_t)s->manifest.ngram.row_bytes;
}

static char *join(const struct store *s, const char *name, struct err *e)
{
    char *path = file_join(s->dir, name);
    if (!path)
        ERR(e, E_NOMEM, "out of memory opening %s/%s", s->dir, name);
    return path;
}

static int read_texts(struct store *s, struct err *e)
{
    char *config = join(s, "config.json", e), *manifest = join(s, "manifest.json", e);
    int rc = config && manifest ? 0 : -E_NOMEM;
    if (!rc)
        rc = manifest_read(manifest, &s->manifest, e);
    if (!rc)
        rc = config_load(config, &s->config, e);
    mem_free(config);
    mem_free(manifest);
    return rc;
}

static int map_one(const struct store *s, const char *name, struct map *m, struct err *e)
{
    char *path = join(s, name, e);
    int rc = path ? map_open(path, m, e) : -E_NOMEM;
    mem_free(path);
    return rc;
}

static int map_files(struct store *s, struct err *e)
{
    int rc = map_one(s, "dense.bin", &s->dense, e);
    if (!rc && s->manifest.ngram.rows)
        rc = map_one(s, "ngram.bin", &s->ngram, e);
    return rc;
}

static int check_experts(const struct store *s, struct err *e)
{
    const struct expert_layout *x = &s->manifest.experts;
    const struct config *c = &s->config;
    const struct {
        const char *key, *field;
        int found, want;
    } pairs[] = {
        {"layers", "num_hidden_layers and draft layers", x->n_layers, c->n_layers + c->n_mtp},
        {"experts", "num_experts", x->E, c->E},
        {"inter", "moe_intermediate_size", x->inter, c->inter},
        {"hidden", "hidden_size", x->h, c->h},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i].found != pairs[i].want)
            return ERR(e, E_FORMAT,
                       "%s/manifest.json: experts.%s is %d, but config.json says %d (%s): the two "
                       "are not of one model; pack again",
                       s->dir, pairs[i].key, pairs[i].found, pairs[i].want, pairs[i].field);
    return 0;
}

/* Records of other layers, or in another order, would run and say nonsense. */
static int check_prefixes(const struct store *s, struct err *e)
{
    for (int il = 0; il < s->manifest.experts.n_layers; il++) {
        char want[80];
        if (il == s->config.n_layers)
            snprintf(want, sizeof want, "mtp.layers.0.mlp.switch_mlp");
        else
            snprintf(want, sizeof want, "language_model.model.layers.%d.mlp.switch_mlp", il);
        if (strcmp(s->manifest.layer_prefixes[il], want) != 0)
            return ERR(e, E_FORMAT,
                       "%s/manifest.json: experts.layer_prefixes[%d] is \"%.80s\", want \"%s\"",
                       s->dir, il, s->manifest.layer_prefixes[il], want);
    }
    return 0;
}

/* Every Q4 matrix of the dense part has groups of 64. */
static int check_groups(const struct store *s, struct err *e)
{
    for (size_t i = 0; i < s->manifest.n_dense; i++) {
        const struct dense_entry *w = &s->manifest.dense[i];
        char name[512];
        size_t n = strlen(w->name);
        if (w->dtype != DTYPE_U32 || n < 7 || n >= sizeof name ||
            strcmp(w->name + n - 7, ".weight") != 0)
            continue;
        snprintf(name, sizeof name, "%.*s.scales", (int)n - 7, w->name);
        const struct dense_entry *x = find_entry(s, name);
        uint64_t cols = w->shape[w->n_dims - 1] * 8;
        if (!x)
            return ERR(e, E_FORMAT, "%s/manifest.json: %s has codes but %s is missing", s->dir,
                       w->name, name);
        if (x->n_dims != w->n_dims || x->shape[x->n_dims - 1] * 64 != cols)
            return ERR(e, E_UNSUPPORTED,
                       "%s/manifest.json: %s has a last dimension of %" PRIu64 ", want %" PRIu64
                       ": groups of 64 of %" PRIu64 " columns; pack again",
                       s->dir, name, x->shape[x->n_dims - 1], cols / 64, cols);
    }
    return 0;
}

static int check_modules(const struct store *s, const struct ngram_layout *g, struct err *e)
{
    const struct config *c = &s->config;
    if (g->n_modules != c->n_ple)
        return ERR(e, E_FORMAT,
                   "%s/manifest.json: has %d n-gram tables, but config.json has %d layers with one "
                   "(ple_layer_ids)",
                   s->dir, g->n_modules, c->n_ple);
    int dim = c->n_ple ? c->ple_dim / ((c->ngram_size - 1) * c->heads_per_ngram) : 0;
    if (g->dim != dim)
        return ERR(e, E_FORMAT,
                   "%s/manifest.json: ngram.dim is %d, but config.json makes it %d (ple_embed_dim "
                   "over its heads)",
                   s->dir, g->dim, dim);
    return 0;
}

/* Stored constants must be the derived ones: with others every row would be looked up wrongly. */
static int check_ngram(struct store *s, struct err *e)
{
    struct ngram_layout *g = &s->manifest.ngram;
    int rc = check_modules(s, g, e);
    for (int m = 0; !rc && m < g->n_modules; m++) {
        struct ngram_module derived;
        char where[1024];
        snprintf(where, sizeof where, "%s/manifest.json: n-gram table %d", s->dir, m);
        ngram_derive(&s->config, m, &derived);
        if (g->module[m].layer < 0)
            g->module[m].layer = derived.layer;
        if (g->module[m].layer != derived.layer)
            rc = ERR(e, E_FORMAT, "%s: is of layer %d, but config.json says %d (counted from 0)",
                     where, g->module[m].layer, derived.layer);
        else
            rc = ngram_compare(&g->module[m], &derived, where, e);
    }
    return rc;
}

static int check_length(const struct store *s, const char *name, const struct map *m, uint64_t want,
                        struct err *e)
{
    if (m->size >= want)
        return 0;
    return ERR(e, E_FORMAT,
               "%s/%s: has %zu bytes, want %" PRIu64 " by manifest.json: it is cut short; copy or "
               "pack it again",
               s->dir, name, m->size, want);
}

static int check_lengths(const struct store *s, struct err *e)
{
    const struct manifest *m = &s->manifest;
    uint64_t dense = 0;
    for (size_t i = 0; i < m->n_dense; i++)
        if (m->dense[i].offset + m->dense[i].nbytes > dense)
            dense = m->dense[i].offset + m->dense[i].nbytes;
    int rc = check_length(s, "dense.bin", &s->dense, dense, e);
    if (!rc)
        rc = check_length(s, "ngram.bin", &s->ngram, m->ngram.rows * (uint64_t)m->ngram.row_bytes,
                          e);
    return rc;
}

/* experts.bin may be absent where another precision is there, but never cut short. */
static int open_records(struct store *s, struct err *e)
{
    struct records *r = s->records;
    bool any = false;
    int rc = 0;
    for (int bits = RECORDS_BITS_MAX; !rc && bits >= RECORDS_BITS_MIN; bits--) {
        rc = records_open(s->dir, &s->manifest, bits, bits == 4 ? NULL : &r[4], &r[bits], e);
        any = any || r[bits].present;
    }
    if (rc)
        return rc;
    s->experts = r[4].map;
    if (!r[4].present && r[4].why.code != E_NOTFOUND)
        return ERR(e, r[4].why.code, "%s", r[4].why.msg);
    if (any)
        return 0;
    for (int bits = 3; bits >= RECORDS_BITS_MIN; bits--)
        if (r[bits].why.code != E_NOTFOUND)
            return ERR(e, r[bits].why.code, "%s, and %s is not there", r[bits].why.msg, r[4].path);
    return ERR(e, E_NOTFOUND, "%s: is not there, nor are experts of 3 or 2 bits: pack again",
               r[4].path);
}
