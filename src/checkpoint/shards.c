/* Which files make up a checkpoint: see shards.h. */
#include "checkpoint/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

#define INDEX_NAME      "model.safetensors.index.json"
#define SINGLE_NAME     "model.safetensors"
#define INDEX_BYTES_MAX (256 << 20)
#define SHARDS_MAX      99999 /* the five digits of a shard's name */

/* A growing list of strings, which it owns. */
struct list {
    char **v;
    size_t n, cap;
};

static int from_index(const char *path, struct shards *out, struct err *e);
static int from_names(const char *dir, struct shards *out, struct err *e);
static int check_present(const char *dir, const struct shards *s, struct err *e);

static int list_add(struct list *l, const char *s, struct err *e)
{
    if (l->n == l->cap) {
        size_t cap = l->cap * 2 + 16;
        char **v = mem_realloc(l->v, cap * sizeof *v);
        if (!v)
            return ERR(e, E_NOMEM, "no memory for the names of %zu files", cap);
        l->v = v;
        l->cap = cap;
    }
    if (!(l->v[l->n] = mem_strdup(s)))
        return ERR(e, E_NOMEM, "no memory for the name of a file");
    l->n++;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_sort_unique(struct list *l)
{
    size_t kept = 0;
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, compare_names);
    for (size_t i = 0; i < l->n; i++) {
        if (kept && strcmp(l->v[kept - 1], l->v[i]) == 0)
            mem_free(l->v[i]);
        else
            l->v[kept++] = l->v[i];
    }
    l->n = kept;
}

/* Hands the strings over, also after a failure. */
static void list_give(struct list *l, struct shards *to)
{
    to->names = l->v;
    to->n = (int)l->n;
}

int shards_find(const char *dir, struct shards *out, struct err *e)
{
    int rc;
    *out = (struct shards){0};
    char *index = file_join(dir, INDEX_NAME), *single = file_join(dir, SINGLE_NAME);
    if (!index || !single) {
        rc = ERR(e, E_NOMEM, "%s: no memory to open it", dir);
    } else if (!file_is_dir(dir)) {
        rc = ERR(e, E_NOTFOUND, "%s: is not a folder; want one that holds a checkpoint", dir);
    } else if (file_exists(index)) {
        out->index_path = index;
        index = NULL;
        rc = from_index(out->index_path, out, e);
    } else if (file_exists(single)) {
        struct list l = {0};
        rc = list_add(&l, SINGLE_NAME, e);
        list_give(&l, out);
    } else {
        rc = from_names(dir, out, e);
    }
    if (!rc)
        rc = check_present(dir, out, e);
    if (rc)
        shards_free(out);
    mem_free(index);
    mem_free(single);
    return rc;
}

void shards_free(struct shards *s)
{
    for (int i = 0; i < s->n; i++)
        mem_free(s->names[i]);
    mem_free(s->names);
    mem_free(s->index_path);
    json_decref(s->index);
    *s = (struct shards){0};
}

/* An index is somebody else's text: a name with a slash could reach any file of the machine. */
static bool is_plain(const char *name)
{
    return name[0] && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int from_index(const char *path, struct shards *out, struct err *e)
{
    struct list l = {0};
    const char *tensor;
    json_t *map, *file;
    int rc = json_read_file(path, INDEX_BYTES_MAX, &out->index, e);
    if (!rc)
        rc = json_field_obj(out->index, path, "weight_map", true, &map, e);
    if (rc)
        return rc;
    if (!json_object_size(map))
        return ERR(e, E_FORMAT, "%s.weight_map: is empty; want the tensors of a model", path);
    json_object_foreach(map, tensor, file) {
        const char *name = json_string_value(file);
        if (!name || !is_plain(name))
            rc = ERR(e, E_FORMAT,
                     "%s.weight_map: %.200s: want the name of a file beside it, found %s", path,
                     tensor, name ? name : "no string");
        else if (!l.n || strcmp(l.v[l.n - 1], name) != 0) /* neighbours mostly share a file */
            rc = list_add(&l, name, e);
        if (rc)
            break;
    }
    list_sort_unique(&l);
    list_give(&l, out);
    if (!rc && l.n > SHARDS_MAX)
        rc = ERR(e, E_LIMIT, "%s: names %zu files, want at most %d", path, l.n, SHARDS_MAX);
    return rc;
}

/* model-0000i-of-0000N.safetensors: its numbers, or false. */
static bool parse_shard_name(const char *name, int *i, int *n)
{
    char again[64];
    if (sscanf(name, "model-%5d-of-%5d.safetensors", i, n) != 2 || *i < 1 || *n < *i)
        return false;
    snprintf(again, sizeof again, "model-%05d-of-%05d.safetensors", *i, *n);
    return strcmp(name, again) == 0;
}

static int collect_shard(void *list, const char *name, struct err *e)
{
    int i, n;
    return parse_shard_name(name, &i, &n) ? list_add(list, name, e) : 0;
}

/* Without an index the names themselves say how many shards there have to be. */
static int from_names(const char *dir, struct shards *out, struct err *e)
{
    struct list l = {0};
    int rc = file_each(dir, collect_shard, &l, e);
    list_sort_unique(&l);
    list_give(&l, out);
    if (rc)
        return rc;
    if (!l.n)
        return ERR(e, E_NOTFOUND, "%s: holds no checkpoint: want %s, or %s and its shards", dir,
                   SINGLE_NAME, INDEX_NAME);
    for (int k = 0; k < out->n; k++) {
        int i, n;
        parse_shard_name(out->names[k], &i, &n);
        if (i != k + 1)
            return ERR(e, E_NOTFOUND,
                       "%s: holds %s but not shard %d before it, and no index: download it again",
                       dir, out->names[k], k + 1);
        if (k == out->n - 1 && i != n)
            return ERR(e, E_NOTFOUND,
                       "%s: holds %d shards of %d, and no index: download what is missing", dir, i,
                       n);
    }
    return 0;
}

static int check_present(const char *dir, const struct shards *s, struct err *e)
{
    const char *first = NULL;
    int missing = 0;
    for (int i = 0; i < s->n; i++) {
        char *path = file_join(dir, s->names[i]);
        if (!path)
            return ERR(e, E_NOMEM, "%s: no memory to open it", dir);
        if (!file_exists(path) && !missing++)
            first = s->names[i];
        mem_free(path);
    }
    if (missing)
        return ERR(
            e, E_NOTFOUND,
            "%s: names %d files of which %d are not there, the first being %s: download what "
            "is missing",
            s->index_path ? s->index_path : dir, s->n, missing, first);
    return 0;
}
