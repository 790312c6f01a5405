/* What a store should hold: see structure.h. */
#include "pack/structure.h"

#include <stdio.h>
#include <string.h>

#include "store/expected.h"

/* A pass over the store. */
struct pass {
    const struct store *store;
    void (*tell)(void *ctx, enum structure_problem kind, const char *text);
    void *ctx;
};

/* Says whether the tensor is there as [rows][cols] of one of two types, and tells if it is not. */
static void want(const struct pass *p, const char *name, const uint64_t *shape, int n_dims,
                 const enum dtype types[3])
{
    struct tensor_view t;
    struct err none = {0};
    char line[512];
    uint64_t count = 1, found = 1;
    if (store_find(p->store, name, &t, &none)) {
        p->tell(p->ctx, STRUCTURE_MISSING, name);
        return;
    }
    for (int i = 0; i < n_dims; i++)
        count *= shape[i];
    for (int i = 0; i < t.n_dims; i++)
        found *= t.shape[i];
    bool typed = t.dtype == types[0] || t.dtype == types[1] || t.dtype == types[2];
    if (typed && found == count && t.shape[0] == shape[0])
        return;
    snprintf(line, sizeof line, "%s: %llu elements of %s in %llu rows, want %llu of %s in %llu",
             name, (unsigned long long)found, dtype_name(t.dtype), (unsigned long long)t.shape[0],
             (unsigned long long)count, dtype_name(types[0]), (unsigned long long)shape[0]);
    p->tell(p->ctx, STRUCTURE_WRONG, line);
}

static void want_module(const struct pass *p, const struct expected *x, uint64_t group)
{
    static const enum dtype codes[3] = {DTYPE_U32, DTYPE_U32, DTYPE_U32},
                            sides[3] = {DTYPE_BF16, DTYPE_BF16, DTYPE_BF16};
    const uint64_t words[2] = {x->shape[0], x->shape[1] / 8},
                   groups[2] = {x->shape[0], x->shape[1] / group};
    char name[EXPECTED_NAME_BYTES + 16];
    snprintf(name, sizeof name, "%s.weight", x->name);
    want(p, name, words, 2, codes);
    snprintf(name, sizeof name, "%s.scales", x->name);
    want(p, name, groups, 2, sides);
    snprintf(name, sizeof name, "%s.biases", x->name);
    want(p, name, groups, 2, sides);
}

static void want_one(const struct pass *p, const struct expected *x)
{
    static const enum dtype floats[3] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32},
                            whole[3] = {DTYPE_I64, DTYPE_I64, DTYPE_I64};
    char name[EXPECTED_NAME_BYTES + 16];
    struct tensor_view t;
    struct err none = {0};
    int group = expected_group(x);
    snprintf(name, sizeof name, "%s%s", x->name, x->suffix);
    if (x->kind == EXPECTED_EXPERTS || x->kind == EXPECTED_NGRAM)
        return; /* records and rows have one layout, which store_open compares with the config */
    if (x->kind == EXPECTED_HASH && store_find(p->store, name, &t, &none))
        return; /* the manifest has them too */
    if (group)
        want_module(p, x, (uint64_t)group);
    else
        want(p, name, x->shape, x->n_dims, x->kind == EXPECTED_HASH ? whole : floats);
}

int structure_check(const struct store *s,
                    void (*tell)(void *ctx, enum structure_problem kind, const char *text),
                    void *ctx, struct err *e)
{
    struct pass p = {s, tell, ctx};
    struct expected_list asked;
    int rc = expected_init(&s->config, &asked, e);
    if (rc)
        return rc;
    for (size_t i = 0; i < asked.n; i++)
        want_one(&p, &asked.at[i]);
    for (size_t i = 0; i < s->manifest.n_dense; i++)
        if (!expected_find(&asked, s->manifest.dense[i].name))
            tell(ctx, STRUCTURE_UNUSED, s->manifest.dense[i].name);
    expected_free(&asked);
    return 0;
}
