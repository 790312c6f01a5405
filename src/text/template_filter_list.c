/* Filters on lists and dictionaries. Those that Jinja2 makes generators of give a K_ITER here,
 * filled at once: it can be gone through once, is always true, and has no length. */
#include <string.h>

#include "text/template_run.h"
#include "text/template_text.h"

static int iter_of(struct render *r, struct list *l, struct value *out)
{
    return value_iter(r, l, false, out);
}

static int filter_length(struct render *r, const struct call *c, struct value *out)
{
    int64_t n = 0;
    int rc = value_length(r, &c->self, &n);
    *out = V_INT(n);
    return rc;
}

static int filter_list(struct render *r, const struct call *c, struct value *out)
{
    struct list *l;
    int rc = value_to_list(r, &c->self, &l);
    *out = V_LIST(l);
    return rc;
}

static int filter_first(struct render *r, const struct call *c, struct value *out)
{
    struct cursor cursor;
    int rc = cursor_init(r, &cursor, &c->self);
    if (!rc)
        rc = cursor_next(r, &cursor, out);
    if (!rc && out->kind == K_MISSING)
        *out = V_HINT("there is no first item: the sequence is empty");
    return rc;
}

static int filter_last(struct render *r, const struct call *c, struct value *out)
{
    int64_t n = 0;
    int rc = value_length(r, &c->self, &n);
    if (rc)
        return rc;
    *out = V_HINT("there is no last item: the sequence is empty");
    if (n == 0)
        return 0;
    if (c->self.kind == K_STR)
        return value_item(r, &c->self, &V_INT(n - 1), out);
    return value_at(r, &c->self, (size_t)n - 1, out);
}

static int filter_reverse(struct render *r, const struct call *c, struct value *out)
{
    struct list *l;
    if (c->self.kind == K_STR)
        return value_slice(r, &c->self, (struct value[]){V_NONE, V_NONE, V_INT(-1)}, out);
    int rc = value_to_list(r, &c->self, &l);
    if (rc)
        return rc;
    if (c->self.kind != K_ITER)
        return value_iter(r, l, true, out);
    for (size_t i = 0; i < l->n / 2; i++) {
        struct value swap = l->at[i];
        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = swap;
    }
    *out = V_LIST(l);
    return 0;
}

/* Follows "a.b.0" (or a whole number) from an item to what it names; `otherwise` (not K_MISSING,
 * not none) stands in for what is undefined on the way. */
static int follow(struct render *r, const struct value *item, const struct value *path,
                  const struct value *otherwise, struct value *out)
{
    *out = *item;
    if (path->kind == K_MISSING || path->kind == K_NONE)
        return 0;
    if (path->kind != K_STR)
        return value_item(r, item, path, out);
    struct text rest = path->s;
    for (bool more = true; more;) {
        size_t dot = text_find(rest, TEXT("."));
        struct text part = text_sub(rest, 0, dot == SIZE_MAX ? rest.len : dot);
        struct value from = *out, key = V_STR(part);
        int64_t i;
        if (part.len && part.p[0] >= '0' && part.p[0] <= '9' && !parse_int_text(part, 10, &i))
            key = V_INT(i);
        int rc = value_item(r, &from, &key, out);
        if (rc)
            return rc;
        if (out->kind == K_UNDEFINED && otherwise && otherwise->kind > K_NONE)
            *out = *otherwise;
        more = dot != SIZE_MAX;
        rest = more ? text_sub(rest, dot + 1, rest.len) : rest;
    }
    return 0;
}

static int fold_case(struct render *r, struct value *v)
{
    struct buf text = BUF_INIT;
    if (v->kind != K_STR)
        return 0;
    text_lower(v->s, &text);
    return render_take(r, &text, 0, v);
}

/* What an item is sorted or compared by. */
static int key_of(struct render *r, const struct value *item, const struct value *path,
                  bool case_sensitive, struct value *out)
{
    int rc = follow(r, item, path, NULL, out);
    return rc || case_sensitive ? rc : fold_case(r, out);
}

/* The list of keys for "a,b.c": one per part. */
static int keys_of(struct render *r, const struct value *item, const struct value *paths,
                   bool case_sensitive, struct value *out)
{
    struct list *l = list_new(r, 0);
    size_t cap = 0;
    if (!l)
        return render_failed(r);
    struct text rest = paths->kind == K_STR ? paths->s : TEXT("");
    for (bool more = true; more;) {
        size_t comma = text_find(rest, TEXT(","));
        more = paths->kind == K_STR && comma != SIZE_MAX;
        struct value path = *paths, key;
        if (paths->kind == K_STR)
            path.s = text_sub(rest, 0, more ? comma : rest.len);
        int rc = key_of(r, item, &path, case_sensitive, &key);
        if (!rc)
            rc = list_push(r, l, &cap, key);
        if (rc)
            return rc;
        rest = more ? text_sub(rest, comma + 1, rest.len) : rest;
    }
    *out = V_LIST(l);
    return 0;
}

static int filter_sort(struct render *r, const struct call *c, struct value *out)
{
    struct list *l;
    int rc = value_to_list(r, &c->self, &l);
    struct value *keys = rc ? NULL : render_alloc(r, l->n, sizeof *keys);
    if (!keys)
        return render_failed(r);
    for (size_t i = 0; i < l->n && !rc; i++)
        rc = keys_of(r, &l->at[i], &c->arg[2], call_truth(c, 1, false), &keys[i]);
    if (!rc)
        rc = value_sort(r, keys, l->at, l->n, call_truth(c, 0, false));
    *out = V_LIST(l);
    return rc;
}

static int filter_dictsort(struct render *r, const struct call *c, struct value *out)
{
    struct text by = TEXT("key");
    struct list *l;
    if (c->self.kind != K_DICT)
        return render_fail(r, E_FORMAT, "dictsort wants a dictionary, found %s",
                           value_type(&c->self));
    struct value items = {.kind = K_VIEW, .flag = VIEW_ITEMS, .dict = c->self.dict};
    int rc = call_text(r, c, 1, &by);
    if (!rc && !text_is(by, "key") && !text_is(by, "value"))
        return render_fail(r, E_FORMAT, "dictsort: by must be 'key' or 'value'");
    if (!rc)
        rc = value_to_list(r, &items, &l);
    struct value *keys = rc ? NULL : render_alloc(r, l->n, sizeof *keys);
    if (!keys)
        return render_failed(r);
    for (size_t i = 0; i < l->n && !rc; i++) {
        keys[i] = l->at[i].list->at[text_is(by, "value")];
        if (!call_truth(c, 0, false))
            rc = fold_case(r, &keys[i]);
    }
    if (!rc)
        rc = value_sort(r, keys, l->at, l->n, call_truth(c, 2, false));
    *out = V_LIST(l);
    return rc;
}

static int filter_items(struct render *r, const struct call *c, struct value *out)
{
    struct list *l = list_new(r, 0);
    int rc = l ? 0 : render_failed(r);
    if (!rc && c->self.kind == K_DICT) {
        struct value items = {.kind = K_VIEW, .flag = VIEW_ITEMS, .dict = c->self.dict};
        rc = value_to_list(r, &items, &l);
    } else if (!rc && c->self.kind != K_UNDEFINED) {
        rc = render_fail(r, E_FORMAT, "items wants a dictionary, found %s", value_type(&c->self));
    }
    return rc ? rc : iter_of(r, l, out);
}

static int filter_unique(struct render *r, const struct call *c, struct value *out)
{
    struct list *l, *kept = list_new(r, 0);
    struct dict *seen = dict_new(r, 0);
    size_t cap = 0;
    int rc = value_to_list(r, &c->self, &l);
    if (rc || !kept || !seen)
        return render_failed(r);
    for (size_t i = 0; i < l->n && !rc; i++) {
        struct value key;
        size_t before = seen->n;
        rc = key_of(r, &l->at[i], &c->arg[1], call_truth(c, 0, false), &key);
        if (!rc)
            rc = dict_set(r, seen, key, V_NONE);
        if (!rc && seen->n > before)
            rc = list_push(r, kept, &cap, l->at[i]);
    }
    return rc ? rc : iter_of(r, kept, out);
}

/* The least or the greatest; the first of equals. */
static int extreme(struct render *r, const struct call *c, bool greatest, struct value *out)
{
    struct list *l;
    struct value best, key;
    int rc = value_to_list(r, &c->self, &l);
    *out = V_HINT("there is nothing to compare: the sequence is empty");
    for (size_t i = 0; !rc && i < l->n; i++) {
        bool better = i == 0;
        rc = key_of(r, &l->at[i], &c->arg[1], call_truth(c, 0, false), &key);
        if (!rc && i)
            rc = greatest ? op_less(r, &best, &key, &better) : op_less(r, &key, &best, &better);
        if (!rc && better) {
            best = key;
            *out = l->at[i];
        }
    }
    return rc;
}

static int filter_min(struct render *r, const struct call *c, struct value *out)
{
    return extreme(r, c, false, out);
}

static int filter_max(struct render *r, const struct call *c, struct value *out)
{
    return extreme(r, c, true, out);
}

static int filter_sum(struct render *r, const struct call *c, struct value *out)
{
    struct list *l;
    int rc = value_to_list(r, &c->self, &l);
    *out = call_has(c, 1) ? c->arg[1] : V_INT(0);
    if (!rc && out->kind == K_STR)
        rc = render_fail(r, E_FORMAT, "sum does not add text; use join");
    for (size_t i = 0; !rc && i < l->n; i++) {
        struct value sum = *out, item;
        rc = follow(r, &l->at[i], &c->arg[0], NULL, &item);
        if (!rc)
            rc = op_binary(r, T_ADD, &sum, &item, out);
    }
    return rc;
}

static int filter_join(struct render *r, const struct call *c, struct value *out)
{
    struct cursor cursor;
    struct value sep = V_STR(TEXT("")), item, v;
    struct buf text = BUF_INIT;
    int rc = cursor_init(r, &cursor, &c->self);
    if (!rc && call_has(c, 0))
        rc = value_str(r, &c->arg[0], &sep);
    for (bool first = true; !rc; first = false) {
        rc = cursor_next(r, &cursor, &item);
        if (rc || item.kind == K_MISSING)
            break;
        if (!first)
            buf_add(&text, sep.s.p, sep.s.len);
        rc = follow(r, &item, &c->arg[1], NULL, &v);
        if (!rc)
            rc = value_print(r, &v, &text);
        if (!rc)
            rc = render_grown(r, text.len, 0);
    }
    return render_take(r, &text, rc, out);
}

/* A new list of elements from..to of l, then `extra` times the filling. */
static int push_part(struct render *r, struct list *to, size_t *cap, const struct list *l,
                     const size_t from_to_extra[3], struct value fill)
{
    size_t from = from_to_extra[0], n = from_to_extra[1] - from, extra = from_to_extra[2];
    struct list *part = list_new(r, n + extra);
    if (!part)
        return render_failed(r);
    for (size_t i = 0; i < n + extra; i++)
        part->at[i] = i < n ? l->at[from + i] : fill;
    int rc = render_steps(r, 1 + (n + extra) / 8);
    return rc ? rc : list_push(r, to, cap, V_LIST(part));
}

static bool has_fill(const struct call *c)
{
    return call_has(c, 1) && c->arg[1].kind != K_NONE;
}

static int filter_batch(struct render *r, const struct call *c, struct value *out)
{
    struct list *l, *parts = list_new(r, 0);
    int64_t size = 0;
    size_t cap = 0;
    int rc = value_to_list(r, &c->self, &l);
    if (!rc)
        rc = call_int(r, c, 0, &size);
    if (rc || !parts)
        return render_failed(r);
    if (size < 1 || size > RANGE_MAX)
        return render_fail(r, E_FORMAT, "batch: linecount must be 1 to %d", RANGE_MAX);
    for (size_t i = 0; i < l->n && !rc; i += (size_t)size) {
        size_t to = i + (size_t)size < l->n ? i + (size_t)size : l->n;
        size_t extra = has_fill(c) ? (size_t)size - (to - i) : 0;
        rc = push_part(r, parts, &cap, l, (size_t[]){i, to, extra}, c->arg[1]);
    }
    return rc ? rc : iter_of(r, parts, out);
}

static int filter_slice(struct render *r, const struct call *c, struct value *out)
{
    struct list *l, *parts = list_new(r, 0);
    int64_t n = 0;
    size_t cap = 0;
    int rc = value_to_list(r, &c->self, &l);
    if (!rc)
        rc = call_int(r, c, 0, &n);
    if (rc || !parts)
        return render_failed(r);
    if (n < 1 || n > RANGE_MAX)
        return render_fail(r, E_FORMAT, "slice: slices must be 1 to %d", RANGE_MAX);
    size_t each = l->n / (size_t)n, longer = l->n % (size_t)n, at = 0;
    for (size_t i = 0; i < (size_t)n && !rc; i++) {
        size_t to = at + each + (i < longer), extra = has_fill(c) && i >= longer;
        rc = push_part(r, parts, &cap, l, (size_t[]){at, to, extra}, c->arg[1]);
        at = to;
    }
    return rc ? rc : iter_of(r, parts, out);
}

/* One pair of groupby: elements from..to of l under the first one's real key. */
static int push_group(struct render *r, const struct call *c, struct list *out, size_t *cap,
                      const struct list *l, const size_t from_to[2])
{
    struct list *members = list_new(r, from_to[1] - from_to[0]), *pair = list_new(r, 2);
    if (!members || !pair)
        return render_failed(r);
    for (size_t i = 0; i < members->n; i++)
        members->at[i] = l->at[from_to[0] + i];
    pair->grouped = true;
    pair->at[1] = V_LIST(members);
    int rc = follow(r, &members->at[0], &c->arg[0], &c->arg[1], &pair->at[0]);
    return rc ? rc : list_push(r, out, cap, V_TUPLE(pair));
}

static int filter_groupby(struct render *r, const struct call *c, struct value *out)
{
    struct list *l, *groups = list_new(r, 0);
    size_t cap = 0, from = 0;
    int rc = value_to_list(r, &c->self, &l);
    struct value *keys = rc ? NULL : render_alloc(r, l->n, sizeof *keys);
    if (!keys || !groups)
        return render_failed(r);
    for (size_t i = 0; i < l->n && !rc; i++) {
        rc = follow(r, &l->at[i], &c->arg[0], &c->arg[1], &keys[i]);
        if (!rc && !call_truth(c, 2, false))
            rc = fold_case(r, &keys[i]);
    }
    if (!rc)
        rc = value_sort(r, keys, l->at, l->n, false);
    for (size_t i = 1; i <= l->n && !rc; i++) {
        bool same = false;
        if (i < l->n)
            rc = op_equal(r, &keys[from], &keys[i], &same);
        if (rc || same)
            continue;
        rc = push_group(r, c, groups, &cap, l, (size_t[]){from, i});
        from = i;
    }
    *out = V_LIST(groups);
    return rc;
}

static const struct value *named(const struct args *a, const char *name)
{
    for (size_t i = 0; i < a->n_named; i++)
        if (text_is(a->named[i].key.s, name))
            return &a->named[i].value;
    return NULL;
}

/* The filter or test that map, select and reject name in their argument `at`. */
static int inner_builtin(struct render *r, const struct call *c, size_t at, bool filter,
                         const struct builtin **out)
{
    const struct value *name = &c->raw->at[at];
    *out = NULL;
    if (name->kind == K_STR)
        *out = filter ? filter_find(name->s) : test_find(name->s);
    if (*out && (*out)->run)
        return 0;
    int len = name->kind == K_STR ? name->s.len > 60 ? 60 : (int)name->s.len : 0;
    return render_fail(r, *out ? E_UNSUPPORTED : E_FORMAT, "%s: %s '%.*s'", c->builtin->name,
                       *out     ? "not supported in chat templates:"
                       : filter ? "there is no filter called"
                                : "there is no test called",
                       len, name->kind == K_STR ? name->s.p : "");
}

static struct args args_from(const struct args *a, size_t at)
{
    return (struct args){a->at + at, a->n - at, a->named, a->n_named};
}

static int filter_map(struct render *r, const struct call *c, struct value *out)
{
    const struct value *path = c->raw->n ? NULL : named(c->raw, "attribute");
    const struct value *otherwise = named(c->raw, "default");
    const struct builtin *b = NULL;
    struct list *l;
    if (!path && !c->raw->n)
        return render_fail(r, E_FORMAT, "map wants the name of a filter, or attribute=");
    int rc = value_to_list(r, &c->self, &l);
    if (!rc && !path && l->n)
        rc = inner_builtin(r, c, 0, true, &b);
    if (rc)
        return rc;
    struct args rest = {0};
    if (!path)
        rest = args_from(c->raw, 1);
    for (size_t i = 0; i < l->n && !rc; i++) {
        struct value item = l->at[i];
        rc = path ? follow(r, &item, path, otherwise, &l->at[i])
                  : builtin_call(r, b, &item, &rest, &l->at[i]);
    }
    return rc ? rc : iter_of(r, l, out);
}

/* Keeps the items (or, with attr, those whose attribute) that pass the test, or fail it. */
static int sift(struct render *r, const struct call *c, bool attr, bool keep, struct value *out)
{
    const struct builtin *test = NULL;
    struct list *l, *kept = list_new(r, 0);
    size_t cap = 0;
    int rc = value_to_list(r, &c->self, &l);
    if (rc || !kept)
        return render_failed(r);
    if (attr && !c->raw->n)
        return render_fail(r, E_FORMAT, "%s wants the name of an attribute", c->builtin->name);
    if (c->raw->n > attr && l->n)
        rc = inner_builtin(r, c, attr, false, &test);
    struct args rest = {0};
    if (test)
        rest = args_from(c->raw, (size_t)attr + 1);
    for (size_t i = 0; i < l->n && !rc; i++) {
        struct value v = l->at[i], yes;
        if (attr)
            rc = follow(r, &l->at[i], &c->raw->at[0], NULL, &v);
        yes = v;
        if (!rc && test)
            rc = builtin_call(r, test, &v, &rest, &yes);
        if (!rc && value_truth(&yes) == keep)
            rc = list_push(r, kept, &cap, l->at[i]);
    }
    return rc ? rc : iter_of(r, kept, out);
}

static int filter_select(struct render *r, const struct call *c, struct value *out)
{
    return sift(r, c, false, true, out);
}

static int filter_reject(struct render *r, const struct call *c, struct value *out)
{
    return sift(r, c, false, false, out);
}

static int filter_selectattr(struct render *r, const struct call *c, struct value *out)
{
    return sift(r, c, true, true, out);
}

static int filter_rejectattr(struct render *r, const struct call *c, struct value *out)
{
    return sift(r, c, true, false, out);
}

const struct builtin filters_list[] = {
    {"batch", "linecount fill_with?", filter_batch},
    {"count", "", filter_length},
    {"dictsort", "case_sensitive? by? reverse?", filter_dictsort},
    {"first", "", filter_first},
    {"groupby", "attribute default? case_sensitive?", filter_groupby},
    {"items", "", filter_items},
    {"join", "d? attribute?", filter_join},
    {"last", "", filter_last},
    {"length", "", filter_length},
    {"list", "", filter_list},
    {"map", "*", filter_map},
    {"max", "case_sensitive? attribute?", filter_max},
    {"min", "case_sensitive? attribute?", filter_min},
    {"random", "", NULL},
    {"reject", "*", filter_reject},
    {"rejectattr", "*", filter_rejectattr},
    {"reverse", "", filter_reverse},
    {"select", "*", filter_select},
    {"selectattr", "*", filter_selectattr},
    {"slice", "slices fill_with?", filter_slice},
    {"sort", "reverse? case_sensitive? attribute?", filter_sort},
    {"sum", "attribute? start?", filter_sum},
    {"unique", "case_sensitive? attribute?", filter_unique},
    {0},
};
