/* Making values and going through them: see template_value.h. */
#include "text/template_value.h"

#include <math.h>
#include <string.h>

#include "text/template_run.h"
#include "text/template_text.h"

static const char *const names[] = {
    [K_MISSING] = "nothing",   [K_UNDEFINED] = "Undefined",
    [K_NONE] = "NoneType",     [K_BOOL] = "bool",
    [K_INT] = "int",           [K_FLOAT] = "float",
    [K_STR] = "str",           [K_LIST] = "list",
    [K_TUPLE] = "tuple",       [K_DICT] = "dict",
    [K_RANGE] = "range",       [K_VIEW] = "dict_items",
    [K_ITER] = "generator",    [K_NAMESPACE] = "Namespace",
    [K_LOOP] = "LoopContext",  [K_MACRO] = "Macro",
    [K_FUNCTION] = "function", [K_METHOD] = "builtin_function_or_method",
    [K_CYCLER] = "Cycler",     [K_JOINER] = "Joiner",
};

const char *kind_name(enum kind k)
{
    return names[k];
}

const char *value_type(const struct value *v)
{
    static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
    return v->kind == K_VIEW ? views[v->flag] : names[v->kind];
}

bool value_is_number(const struct value *v)
{
    return v->kind == K_BOOL || v->kind == K_INT || v->kind == K_FLOAT;
}

double value_number(const struct value *v)
{
    return v->kind == K_FLOAT ? v->f : v->kind == K_BOOL ? (double)v->b : (double)v->i;
}

bool value_as_int(const struct value *v, int64_t *i)
{
    if (v->kind == K_BOOL)
        *i = v->b;
    else if (v->kind == K_INT)
        *i = v->i;
    return v->kind == K_BOOL || v->kind == K_INT;
}

bool value_truth(const struct value *v)
{
    switch ((enum kind)v->kind) {
    case K_MISSING:
    case K_UNDEFINED:
    case K_NONE:
        return false;
    case K_BOOL:
        return v->b;
    case K_INT:
        return v->i != 0;
    case K_FLOAT:
        return v->f != 0;
    case K_STR:
        return v->s.len != 0;
    case K_LIST:
    case K_TUPLE:
        return v->list->n != 0;
    case K_DICT:
    case K_VIEW:
        return v->dict->n != 0;
    case K_RANGE:
        return v->range->n != 0;
    default:
        return true;
    }
}

struct list *list_new(struct render *r, size_t n)
{
    struct list *l = render_alloc(r, 1, sizeof *l);
    if (!l)
        return NULL;
    l->at = render_alloc(r, n, sizeof *l->at);
    l->n = n;
    return l->at ? l : NULL;
}

int list_push(struct render *r, struct list *l, size_t *cap, struct value v)
{
    if (l->n >= *cap) {
        size_t more = l->n < 4 ? 8 : l->n * 2;
        struct value *at = render_alloc(r, more, sizeof *at);
        if (!at)
            return render_failed(r);
        if (l->n)
            memcpy(at, l->at, l->n * sizeof *at);
        l->at = at;
        *cap = more;
    }
    l->at[l->n++] = v;
    return 0;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v;
    h *= 0x9E3779B97F4A7C15u;
    return h ^ (h >> 29);
}

static uint64_t hash_text(struct text t)
{
    uint64_t h = 0;
    for (size_t i = 0; i < t.len; i++)
        h = mix(h, (unsigned char)t.p[i]);
    return h;
}

static uint64_t hash_float(double f)
{
    uint64_t bits;
    if (fabs(f) < 0x1p63 && f == (double)(int64_t)f)
        return mix(0, (uint64_t)(int64_t)f); /* 1.0 is the same key as 1 */
    memcpy(&bits, &f, sizeof bits);
    return mix(0, bits);
}

static int hash(struct render *r, const struct value *v, uint64_t *h)
{
    int64_t i = 0;
    int rc = 0;
    switch ((enum kind)v->kind) {
    case K_STR:
        *h = hash_text(v->s);
        return render_bytes(r, v->s.len);
    case K_TUPLE:
        *h = 1;
        rc = render_enter(r);
        for (size_t k = 0; k < v->list->n && !rc; k++) {
            uint64_t one = 0;
            rc = hash(r, &v->list->at[k], &one);
            *h = mix(*h, one);
        }
        render_leave(r);
        return rc;
    case K_BOOL:
    case K_INT:
        value_as_int(v, &i);
        *h = mix(0, (uint64_t)i);
        return 0;
    case K_FLOAT:
        *h = hash_float(v->f);
        return 0;
    case K_LIST:
    case K_DICT:
    case K_VIEW:
        return render_fail(r, E_FORMAT, "a %s cannot be a key (it is unhashable)", value_type(v));
    default:
        *h = mix(0, (uint64_t)v->kind + 1000);
        return 0;
    }
}

struct dict *dict_new(struct render *r, size_t cap)
{
    struct dict *d = render_alloc(r, 1, sizeof *d);
    if (!d)
        return NULL;
    d->at = render_alloc(r, cap, sizeof *d->at);
    d->cap = cap;
    return d->at ? d : NULL;
}

/* The ith entry that may have hash h, NULL behind the last. */
static struct pair *candidate(const struct dict *d, uint64_t h, size_t i)
{
    if (!d->index)
        return i < d->n ? &d->at[i] : NULL;
    uint32_t number = d->index[(h + i) & (d->n_index - 1)];
    return number ? &d->at[number - 1] : NULL;
}

static int find_hashed(struct render *r, const struct dict *d, const struct value *key, uint64_t h,
                       struct pair **found)
{
    struct pair *p;
    *found = NULL;
    for (size_t i = 0; (p = candidate(d, h, i)); i++) {
        bool same = false;
        int rc = i > 8 ? render_steps(r, 1) : 0; /* crafted collisions cost steps */
        if (!rc && p->hash == h)
            rc = op_equal(r, &p->key, key, &same);
        if (rc)
            return rc;
        if (same) {
            *found = p;
            return 0;
        }
    }
    return 0;
}

int dict_find(struct render *r, const struct dict *d, const struct value *key, struct pair **found)
{
    uint64_t h = 0;
    int rc = hash(r, key, &h);
    return rc ? rc : find_hashed(r, d, key, h, found);
}

struct value *dict_get(const struct dict *d, struct text key)
{
    uint64_t h = hash_text(key);
    struct pair *p;
    for (size_t i = 0; (p = candidate(d, h, i)); i++)
        if (p->hash == h && p->key.kind == K_STR && text_eq(p->key.s, key))
            return &p->value;
    return NULL;
}

static void index_add(struct dict *d, size_t entry)
{
    size_t at = d->at[entry].hash & (d->n_index - 1);
    while (d->index[at])
        at = (at + 1) & (d->n_index - 1);
    d->index[at] = (uint32_t)entry + 1;
}

/* Room for one more entry, and an index that is at most half full once there are more than 8. */
static int dict_grow(struct render *r, struct dict *d)
{
    if (d->n >= UINT32_MAX / 4)
        return render_fail(r, E_LIMIT, "a dictionary has too many entries");
    if (d->n == d->cap) {
        size_t cap = d->cap < 4 ? 8 : d->cap * 2;
        struct pair *at = render_alloc(r, cap, sizeof *at);
        if (!at)
            return render_failed(r);
        if (d->n)
            memcpy(at, d->at, d->n * sizeof *at);
        d->at = at;
        d->cap = cap;
    }
    if (d->n < 8 || (d->index && d->n_index > d->n * 2))
        return 0;
    size_t n_index = d->n_index ? d->n_index : 16;
    while (n_index <= d->n * 2)
        n_index *= 2;
    d->index = render_alloc(r, n_index, sizeof *d->index);
    if (!d->index)
        return render_failed(r);
    d->n_index = n_index;
    for (size_t i = 0; i < d->n; i++)
        index_add(d, i);
    return 0;
}

int dict_set(struct render *r, struct dict *d, struct value key, struct value v)
{
    uint64_t h = 0;
    struct pair *p;
    int rc = hash(r, &key, &h);
    if (!rc)
        rc = find_hashed(r, d, &key, h, &p);
    if (rc)
        return rc;
    if (p) {
        p->value = v;
        return 0;
    }
    rc = dict_grow(r, d);
    if (rc)
        return rc;
    d->at[d->n++] = (struct pair){key, v, h};
    if (d->index)
        index_add(d, d->n - 1);
    return 0;
}

static int from_array(struct render *r, const json_t *j, struct value *out)
{
    struct list *l = list_new(r, json_array_size(j));
    int rc = l ? render_enter(r) : render_failed(r);
    if (!l)
        return rc;
    for (size_t i = 0; i < l->n && !rc; i++)
        rc = value_from_json(r, json_array_get(j, i), &l->at[i]);
    render_leave(r);
    *out = V_LIST(l);
    return rc;
}

static int from_object(struct render *r, const json_t *j, struct value *out)
{
    struct dict *d = dict_new(r, json_object_size(j));
    int rc = d ? render_enter(r) : render_failed(r);
    if (!d)
        return rc;
    const char *key;
    json_t *field;
    json_object_foreach((json_t *)j, key, field) {
        struct value v;
        if (!rc)
            rc = value_from_json(r, field, &v);
        if (!rc)
            rc = dict_set(r, d, V_STR(text_of(key)), v);
    }
    render_leave(r);
    *out = V_DICT(d);
    return rc;
}

int value_from_json(struct render *r, const json_t *j, struct value *out)
{
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        return from_object(r, j, out);
    case JSON_ARRAY:
        return from_array(r, j, out);
    case JSON_STRING:
        *out = V_STR(((struct text){json_string_value(j), json_string_length(j)}));
        return 0;
    case JSON_INTEGER:
        *out = V_INT(json_integer_value(j));
        return 0;
    case JSON_REAL:
        *out = V_FLOAT(json_real_value(j));
        return 0;
    case JSON_NULL:
        *out = V_NONE;
        return 0;
    default:
        *out = V_BOOL(json_is_true(j));
        return 0;
    }
}

bool value_has_length(const struct value *v)
{
    switch ((enum kind)v->kind) {
    case K_UNDEFINED:
    case K_STR:
    case K_LIST:
    case K_TUPLE:
    case K_DICT:
    case K_RANGE:
    case K_VIEW:
    case K_LOOP:
        return true;
    default:
        return false;
    }
}

bool value_is_iterable(const struct value *v)
{
    return (value_has_length(v) && v->kind != K_LOOP) || v->kind == K_ITER;
}

int value_length(struct render *r, const struct value *v, int64_t *n)
{
    struct value length;
    int rc;
    switch ((enum kind)v->kind) {
    case K_UNDEFINED:
        *n = 0;
        return 0;
    case K_STR:
        *n = (int64_t)text_count(v->s);
        return render_bytes(r, v->s.len);
    case K_LIST:
    case K_TUPLE:
        *n = (int64_t)v->list->n;
        return 0;
    case K_DICT:
    case K_VIEW:
        *n = (int64_t)v->dict->n;
        return 0;
    case K_RANGE:
        *n = v->range->n;
        return 0;
    case K_LOOP:
        rc = loop_attr(r, v->loop, TEXT("length"), &length);
        *n = rc ? 0 : length.i;
        return rc;
    default:
        return render_fail(r, E_FORMAT, "a value of type %s has no length", value_type(v));
    }
}

int value_at(struct render *r, const struct value *v, size_t i, struct value *out)
{
    if (v->kind == K_RANGE) {
        *out = V_INT(v->range->start + (int64_t)i * v->range->step);
    } else if (v->kind == K_LIST || v->kind == K_TUPLE) {
        *out = v->list->at[i];
    } else if (v->kind == K_VIEW && v->flag == VIEW_ITEMS) {
        struct list *l = list_new(r, 2);
        if (!l)
            return render_failed(r);
        l->at[0] = v->dict->at[i].key;
        l->at[1] = v->dict->at[i].value;
        *out = V_TUPLE(l);
    } else { /* keys or values */
        bool values = v->kind == K_VIEW && v->flag == VIEW_VALUES;
        *out = values ? v->dict->at[i].value : v->dict->at[i].key;
    }
    return 0;
}

int cursor_init(struct render *r, struct cursor *c, const struct value *over)
{
    *c = (struct cursor){.over = *over};
    if (value_is_iterable(over))
        return 0;
    return render_fail(r, E_FORMAT, "a value of type %s cannot be gone through (not iterable)",
                       value_type(over));
}

int cursor_next(struct render *r, struct cursor *c, struct value *out)
{
    struct value *v = &c->over;
    int rc = render_steps(r, 1);
    *out = (struct value){.kind = K_MISSING};
    if (rc || v->kind == K_UNDEFINED)
        return rc;
    if (v->kind == K_ITER)
        return cursor_next(r, v->cursor, out);
    if (v->kind == K_STR) {
        int n;
        if (c->at >= v->s.len)
            return 0;
        text_char(v->s.p + c->at, v->s.p + v->s.len, &n);
        *out = V_STR(text_sub(v->s, c->at, c->at + (size_t)n));
        out->flag = v->flag;
        c->at += (size_t)n;
        return 0;
    }
    size_t n = v->kind == K_RANGE                        ? (size_t)v->range->n
               : v->kind == K_LIST || v->kind == K_TUPLE ? v->list->n
                                                         : v->dict->n;
    if (c->at >= n)
        return 0;
    size_t i = c->at++;
    return value_at(r, v, c->backwards ? n - 1 - i : i, out);
}

int value_to_list(struct render *r, const struct value *v, struct list **out)
{
    struct cursor c;
    size_t cap = 0;
    int rc = cursor_init(r, &c, v);
    *out = list_new(r, 0);
    if (rc || !*out)
        return render_failed(r);
    for (;;) {
        struct value one;
        rc = cursor_next(r, &c, &one);
        if (rc || one.kind == K_MISSING)
            return rc;
        rc = list_push(r, *out, &cap, one);
        if (rc)
            return rc;
    }
}

int value_iter(struct render *r, struct list *l, bool backwards, struct value *out)
{
    struct cursor *c = render_alloc(r, 1, sizeof *c);
    if (!c)
        return render_failed(r);
    *c = (struct cursor){.over = V_LIST(l), .backwards = backwards};
    *out = (struct value){.kind = K_ITER, .cursor = c};
    return 0;
}
