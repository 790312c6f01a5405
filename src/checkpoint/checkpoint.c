/* A checkpoint: see checkpoint.h. Opening reads every header, joins the tensors into one sorted
 * table and holds it against the index. */
#include "checkpoint/checkpoint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/shards.h"

static int open_files(struct checkpoint *c, const struct shards *s, struct err *e);
static int check_unique(const struct checkpoint *c, struct err *e);
static int check_index(const struct checkpoint *c, const struct shards *s, struct err *e);

static int compare_by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

int checkpoint_open(const char *dir, struct checkpoint **out, struct err *e)
{
    struct shards s = {0};
    struct checkpoint *c = mem_zalloc(1, sizeof *c);
    int rc = 0;
    if (!c || !(c->dir = mem_strdup(dir)))
        rc = ERR(e, E_NOMEM, "%s: no memory to open it", dir);
    if (!rc)
        rc = shards_find(dir, &s, e);
    if (!rc)
        rc = open_files(c, &s, e);
    if (!rc) {
        qsort(c->tensors, c->n_tensors, sizeof *c->tensors, compare_by_name);
        rc = check_unique(c, e);
    }
    if (!rc && s.index)
        rc = check_index(c, &s, e);
    shards_free(&s);
    if (rc)
        checkpoint_close(c);
    else
        *out = c;
    return rc;
}

void checkpoint_close(struct checkpoint *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n_tensors; i++)
        mem_free(c->tensors[i].name);
    for (int i = 0; i < c->n_files; i++) {
        file_drop(&c->files[i]);
        mem_free(c->metadata[i]);
    }
    mem_free(c->tensors);
    mem_free(c->files);
    mem_free(c->metadata);
    mem_free(c->dir);
    mem_free(c);
}

const struct tensor *checkpoint_find(const struct checkpoint *c, const char *name)
{
    struct tensor key = {.name = (char *)(uintptr_t)name};
    return bsearch(&key, c->tensors, c->n_tensors, sizeof *c->tensors, compare_by_name);
}

int checkpoint_read(const struct checkpoint *c, const struct tensor *t, uint64_t off, void *to,
                    size_t n, struct err *e)
{
    assert(off <= t->nbytes && n <= t->nbytes - off);
    return file_read_at(&c->files[t->file], t->offset + off, to, n, e);
}

/* Moves the tensors of one file behind those that are there. */
static int take_tensors(struct checkpoint *c, struct safetensors *s, struct err *e)
{
    struct tensor *all = mem_realloc(c->tensors, (c->n_tensors + s->n_tensors) * sizeof *all);
    if (!all)
        return ERR(e, E_NOMEM, "%s: no memory for %zu tensors", c->dir,
                   c->n_tensors + s->n_tensors);
    c->tensors = all;
    for (size_t i = 0; i < s->n_tensors; i++) {
        struct tensor *t = &all[c->n_tensors++];
        *t = s->tensors[i];
        t->file = c->n_files - 1;
        c->nbytes += t->nbytes;
    }
    c->metadata[c->n_files - 1] = s->metadata;
    s->metadata = NULL;
    s->n_tensors = 0; /* their names have moved */
    return 0;
}

static int open_file(struct checkpoint *c, const char *name, struct err *e)
{
    struct safetensors s = {0};
    char *path = file_join(c->dir, name);
    if (!path)
        return ERR(e, E_NOMEM, "%s: no memory to open %s", c->dir, name);
    int rc = file_open(path, &c->files[c->n_files], e);
    mem_free(path);
    if (rc)
        return rc;
    rc = safetensors_read(&c->files[c->n_files++], &s, e);
    if (!rc)
        rc = take_tensors(c, &s, e);
    safetensors_free(&s);
    return rc;
}

static int open_files(struct checkpoint *c, const struct shards *s, struct err *e)
{
    int rc = 0;
    c->files = mem_zalloc((size_t)s->n, sizeof *c->files);
    c->metadata = mem_zalloc((size_t)s->n, sizeof *c->metadata);
    if (!c->files || !c->metadata)
        return ERR(e, E_NOMEM, "%s: no memory for %d files", c->dir, s->n);
    for (int i = 0; i < s->n && !rc; i++)
        rc = open_file(c, s->names[i], e);
    if (!rc && !c->n_tensors)
        rc = ERR(e, E_FORMAT, "%s: holds no tensors", c->dir);
    return rc;
}

static int check_unique(const struct checkpoint *c, struct err *e)
{
    for (size_t i = 1; i < c->n_tensors; i++) {
        const struct tensor *a = &c->tensors[i - 1], *b = &c->tensors[i];
        if (strcmp(a->name, b->name) == 0)
            return ERR(e, E_FORMAT, "%s: is both in %s and in %s; want one of them", a->name,
                       c->files[a->file].path, c->files[b->file].path);
    }
    return 0;
}

/* The index and the shards have to agree in both directions. */
static int check_index(const struct checkpoint *c, const struct shards *s, struct err *e)
{
    const char *name;
    json_t *map = json_object_get(s->index, "weight_map"), *file;
    json_object_foreach(map, name, file) {
        const char *shard = json_string_value(file);
        const struct tensor *t = checkpoint_find(c, name);
        if (!t)
            return ERR(e, E_FORMAT, "%s: says that %s holds %.300s, which it does not",
                       s->index_path, shard, name);
        if (strcmp(s->names[t->file], shard) != 0)
            return ERR(e, E_FORMAT, "%s: says that %s holds %.300s, which is in %s", s->index_path,
                       shard, name, s->names[t->file]);
    }
    for (size_t i = 0; i < c->n_tensors; i++) {
        const struct tensor *t = &c->tensors[i];
        if (!json_object_get(map, t->name))
            return ERR(e, E_FORMAT, "%s: holds %s, which %s does not list", c->files[t->file].path,
                       t->name, s->index_path);
    }
    return 0;
}
