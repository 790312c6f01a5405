/* Tensors by meaning: see source.h. */
#include "pack/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Everything that tells one meaning from another, compared field by field. Unknown and vision
 * tensors keep their published names, so that they never meet. */
static int compare_info(const struct name_info *a, const struct name_info *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->kind == NAME_DENSE)
        return strcmp(a->canonical, b->canonical);
    if (a->mtp != b->mtp)
        return a->mtp < b->mtp ? -1 : 1;
    if (a->layer != b->layer)
        return a->layer < b->layer ? -1 : 1;
    if (a->expert != b->expert)
        return a->expert < b->expert ? -1 : 1;
    if (a->matrix != b->matrix)
        return a->matrix < b->matrix ? -1 : 1;
    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    return a->part < b->part ? -1 : a->part > b->part;
}

static bool has_meaning(const struct name_info *i)
{
    return i->kind != NAME_VISION && i->kind != NAME_UNKNOWN;
}

static int compare(const void *a, const void *b)
{
    const struct source_tensor *x = a, *y = b;
    if (x->info.kind == y->info.kind && !has_meaning(&x->info))
        return strcmp(x->tensor->name, y->tensor->name);
    return compare_info(&x->info, &y->info);
}

int source_init(const struct checkpoint *c, struct source *out, struct err *e)
{
    *out = (struct source){.at = mem_zalloc(c->n_tensors + 1, sizeof *out->at)};
    if (!out->at)
        return ERR(e, E_NOMEM, "out of memory for the names of %zu tensors", c->n_tensors);
    out->n = c->n_tensors;
    for (size_t i = 0; i < out->n; i++) {
        out->at[i].tensor = &c->tensors[i];
        name_parse(c->tensors[i].name, &out->at[i].info);
    }
    qsort(out->at, out->n, sizeof *out->at, compare);
    for (size_t i = 1; i < out->n; i++) {
        const struct source_tensor *x = &out->at[i - 1], *y = &out->at[i];
        if (compare(x, y) || !has_meaning(&x->info))
            continue;
        int rc =
            ERR(e, E_FORMAT, "%s: tensors %s and %s are two names for the same weights; remove one",
                c->dir, x->tensor->name, y->tensor->name);
        source_free(out);
        return rc;
    }
    return 0;
}

void source_free(struct source *s)
{
    mem_free(s->at);
    *s = (struct source){0};
}

static int compare_key(const void *key, const void *at)
{
    return compare_info(key, &((const struct source_tensor *)at)->info);
}

static const struct tensor *find(struct source *s, const struct name_info *key)
{
    struct source_tensor *t = bsearch(key, s->at, s->n, sizeof *s->at, compare_key);
    if (!t)
        return NULL;
    t->used = true;
    return t->tensor;
}

const struct tensor *source_dense(struct source *s, const char *name, const char *suffix)
{
    struct name_info key = {.kind = NAME_DENSE};
    snprintf(key.canonical, sizeof key.canonical, "%s%s", name, suffix);
    return find(s, &key);
}

const struct tensor *source_experts(struct source *s, bool mtp, int layer, enum name_matrix matrix,
                                    enum name_part part)
{
    struct name_info key = {.kind = NAME_EXPERTS,
                            .mtp = mtp,
                            .layer = layer,
                            .matrix = matrix,
                            .part = part,
                            .shard = -1,
                            .expert = -1};
    return find(s, &key);
}

const struct tensor *source_ngram(struct source *s, int layer, int64_t shard, enum name_part part)
{
    struct name_info key = {
        .kind = NAME_NGRAM, .layer = layer, .shard = shard, .part = part, .expert = -1};
    return find(s, &key);
}

bool source_has_mtp(const struct source *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (has_meaning(&s->at[i].info) && s->at[i].info.mtp)
            return true;
    return false;
}
