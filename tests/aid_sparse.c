/* Checkpoints of full size that take no room: see aid_sparse.h. */
#include "tests/aid_sparse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "checkpoint/convention.h"
#include "checkpoint/names.h"
#include "quant/dtype.h"
#include "quant/half.h"
#include "store/ngram.h"

#define LIST_BYTES_MAX (64 << 20)

/* One line of the list; strings point into its text. */
struct row {
    const char *name, *dtype, *shape;
    uint64_t nbytes;
};

struct maker {
    struct buf list, config_text, index;
    struct config config;
    struct row *row;
    size_t n;
    uint64_t total;
    const char *dir;
    int n_shards;
    bool raw; /* the originals' names: norms are raw */
};

static int read_list(struct maker *k, const char *path, struct err *e);
static int write_shard(struct maker *k, size_t from, size_t to, int shard, struct err *e);
static int write_file(const char *dir, const char *name, const struct buf *b, struct err *e);

int aid_sparse_write(const char *tensors, const char *config, const char *dir, int n_shards,
                     struct err *e)
{
    struct maker k = {.dir = dir, .n_shards = n_shards};
    uint64_t done = 0;
    size_t from = 0, to = 0;
    int rc = read_list(&k, tensors, e);
    if (!rc)
        rc = file_read_all(config, LIST_BYTES_MAX, &k.config_text, e);
    if (!rc)
        rc = config_load(config, &k.config, e);
    if (!rc && (n_shards < 1 || (size_t)n_shards > k.n))
        rc = ERR(e, E_ARG, "%s: lists %zu tensors, which do not fill %d shards", tensors, k.n,
                 n_shards);
    buf_printf(&k.index, "{\"metadata\":{\"total_size\":%llu},\"weight_map\":{",
               (unsigned long long)k.total);
    for (int i = 1; !rc && i <= n_shards; i++, from = to) {
        size_t last = k.n - (size_t)(n_shards - i); /* leaves a tensor for each later shard */
        do
            done += k.row[to++].nbytes;
        while (to < last && (i == n_shards || done < k.total / (uint64_t)n_shards * (uint64_t)i));
        rc = write_shard(&k, from, to, i, e);
    }
    buf_puts(&k.index, "}}");
    if (!rc)
        rc = write_file(dir, "model.safetensors.index.json", &k.index, e);
    if (!rc)
        rc = write_file(dir, "config.json", &k.config_text, e);
    buf_free(&k.list);
    buf_free(&k.config_text);
    buf_free(&k.index);
    mem_free(k.row);
    return rc;
}

/* name, dtype, shape ("2,3") and bytes, with tabs between */
static int read_list(struct maker *k, const char *path, struct err *e)
{
    size_t lines = 1;
    int rc = file_read_all(path, LIST_BYTES_MAX, &k->list, e);
    if (rc)
        return rc;
    for (const char *p = buf_str(&k->list); *p; p++)
        lines += *p == '\n';
    k->row = mem_zalloc(lines, sizeof *k->row);
    if (!k->row)
        return ERR(e, E_NOMEM, "%s: no memory for %zu lines", path, lines);
    char *next = k->list.data;
    for (char *line; (line = strsep(&next, "\n"));) {
        if (!*line || *line == '#')
            continue;
        const char *field[4] = {0};
        for (int i = 0; i < 4; i++)
            field[i] = strsep(&line, "\t");
        if (!field[3])
            return ERR(e, E_FORMAT, "%s: line of %s: want four fields", path, field[0]);
        k->row[k->n] = (struct row){field[0], field[1], field[2], strtoull(field[3], NULL, 10)};
        k->raw = k->raw || strncmp(field[0], "model.", 6) == 0;
        k->total += k->row[k->n++].nbytes;
    }
    return 0;
}

static int write_file(const char *dir, const char *name, const struct buf *b, struct err *e)
{
    struct file f;
    char *path = file_join(dir, name);
    if (!path)
        return ERR(e, E_NOMEM, "%s: no memory to write %s", dir, name);
    int rc = buf_check(b, e);
    if (!rc && !(rc = file_create(path, &f, e))) {
        rc = file_write_at(&f, 0, b->data, b->len, e);
        if (!rc)
            rc = file_close(&f, e);
        file_drop(&f);
    }
    mem_free(path);
    return rc;
}

/* ---- Contents ---- */

/* What a norm's values lie around; -1 for what is no norm. */
static float norm_middle(const struct maker *k, const struct name_info *info)
{
    if (convention_is_folded_norm(info->canonical))
        return k->raw ? 0 : 1;
    if (strncmp(info->canonical, "mtp.pre_fc_norm_", 16) == 0)
        return 0;
    return strstr(info->canonical, "linear_attn.norm.weight") ? 1 : -1;
}

static void fill_norm(float middle, uint64_t n, uint16_t *out)
{
    for (uint64_t i = 0; i < n; i++)
        out[i] = bf16_from_f32(middle + 0.2f * ((float)rng_unit_at(n, i) - 0.5f));
}

/* The constants of the config's module in this layer; false when it has none of that size. */
static bool fill_hash(const struct maker *k, const struct name_info *info, uint64_t n,
                      uint64_t *out)
{
    for (int m = 0; m < k->config.n_ple; m++) {
        struct ngram_module g;
        if (k->config.ple_layer[m] != info->layer)
            continue;
        ngram_derive(&k->config, m, &g);
        bool mult = strstr(info->canonical, "layer_multipliers");
        bool offset = strstr(info->canonical, "ngram_heads_offsets");
        if (n != (uint64_t)(mult ? k->config.ngram_size : g.n_heads))
            return false;
        memcpy(out, mult ? g.mult : offset ? g.offset : g.size, (size_t)n * sizeof *out);
        return true;
    }
    return false;
}

/* Writes a tensor's data at byte `at`, unless it is left a hole. */
static int fill(const struct maker *k, const struct row *r, const struct file *f, uint64_t at,
                struct err *e)
{
    struct name_info info;
    name_parse(r->name, &info);
    float middle = norm_middle(k, &info);
    bool hash = strcmp(r->dtype, "I64") == 0;
    int rc = 0;
    if (info.kind != NAME_DENSE || (middle < 0 && !hash))
        return 0;
    void *data = mem_alloc((size_t)r->nbytes);
    if (!data)
        return ERR(e, E_NOMEM, "%s: no memory for its values", r->name);
    if (!hash)
        fill_norm(middle, r->nbytes / 2, data);
    else if (!fill_hash(k, &info, r->nbytes / 8, data))
        rc = ERR(e, E_FORMAT, "%s: the config has no such constants", r->name);
    if (!rc)
        rc = file_write_at(f, at, data, (size_t)r->nbytes, e);
    mem_free(data);
    return rc;
}

/* The header, unpadded, so that data start at any byte, as they do in published files. */
static void make_header(const struct maker *k, size_t from, size_t to, struct buf *head)
{
    uint64_t at = 0;
    buf_printf(head, "{\"__metadata__\":{\"format\":\"%s\"}", k->raw ? "pt" : "mlx");
    for (size_t i = from; i < to; at += k->row[i++].nbytes)
        buf_printf(head, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
                   k->row[i].name, k->row[i].dtype, k->row[i].shape, (unsigned long long)at,
                   (unsigned long long)(at + k->row[i].nbytes));
    buf_putc(head, '}');
}

static int write_shard(struct maker *k, size_t from, size_t to, int shard, struct err *e)
{
    struct buf head = BUF_INIT;
    struct file f;
    char name[64], *path;
    uint8_t length[8];
    snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", shard, k->n_shards);
    for (size_t i = from; i < to; i++)
        buf_printf(&k->index, "%s\"%s\":\"%s\"", i ? "," : "", k->row[i].name, name);
    make_header(k, from, to, &head);
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(head.len >> 8 * i);
    if (!(path = file_join(k->dir, name)))
        return ERR(e, E_NOMEM, "%s: no memory to write it", name);
    int rc = buf_check(&head, e);
    if (!rc && !(rc = file_create(path, &f, e))) {
        uint64_t at = sizeof length + head.len;
        rc = file_write_at(&f, 0, length, sizeof length, e);
        if (!rc)
            rc = file_write_at(&f, sizeof length, head.data, head.len, e);
        for (size_t i = from; i < to && !rc; at += k->row[i++].nbytes)
            rc = fill(k, &k->row[i], &f, at, e);
        if (!rc)
            rc = file_set_size(&f, at, e);
        if (!rc)
            rc = file_close(&f, e);
        file_drop(&f);
    }
    mem_free(path);
    buf_free(&head);
    return rc;
}
