/* Methods of lists, dictionaries, numbers, loops and cyclers, and which methods a value has at all.
 *
 * Methods that would change a list or dictionary are marked "!": templates may not call them. */
#include <math.h>

#include "text/template_run.h"

static int dict_get_or(struct render *r, const struct call *c, struct value *out)
{
    struct pair *p;
    int rc = dict_find(r, c->self.dict, &c->arg[0], &p);
    if (!rc)
        *out = p ? p->value : call_has(c, 1) ? c->arg[1] : V_NONE;
    return rc;
}

/* keys, values, items */
static int dict_view(struct render *r, const struct call *c, struct value *out)
{
    (void)r;
    char first = c->builtin->name[0];
    enum view_of of = first == 'k' ? VIEW_KEYS : first == 'v' ? VIEW_VALUES : VIEW_ITEMS;
    *out = (struct value){.kind = K_VIEW, .flag = (uint8_t)of, .dict = c->self.dict};
    return 0;
}

/* Lists and dictionaries never change, so that a copy can be the same one. */
static int same_value(struct render *r, const struct call *c, struct value *out)
{
    (void)r;
    *out = c->self;
    return 0;
}

static int list_count(struct render *r, const struct call *c, struct value *out)
{
    struct list *l;
    int64_t n = 0;
    int rc = value_to_list(r, &c->self, &l);
    for (size_t i = 0; !rc && i < l->n; i++) {
        bool same;
        rc = op_equal(r, &l->at[i], &c->arg[0], &same);
        n += same;
    }
    *out = V_INT(n);
    return rc;
}

static int64_t bound_of(int64_t i, int64_t n)
{
    if (i < 0)
        i = i + n < 0 ? 0 : i + n;
    return i > n ? n : i;
}

static int list_index(struct render *r, const struct call *c, struct value *out)
{
    struct list *l;
    int64_t from = 0, to = INT64_MAX;
    int rc = call_int(r, c, 1, &from);
    if (!rc)
        rc = call_int(r, c, 2, &to);
    if (!rc)
        rc = value_to_list(r, &c->self, &l);
    if (rc)
        return rc;
    int64_t end = bound_of(to, (int64_t)l->n);
    for (int64_t i = bound_of(from, (int64_t)l->n); i < end; i++) {
        bool same;
        rc = op_equal(r, &l->at[i], &c->arg[0], &same);
        if (rc)
            return rc;
        if (same) {
            *out = V_INT(i);
            return 0;
        }
    }
    return render_fail(r, E_FORMAT, "index: the value is not in the %s", value_type(&c->self));
}

static int float_is_integer(struct render *r, const struct call *c, struct value *out)
{
    (void)r;
    *out = V_BOOL(isfinite(c->self.f) && c->self.f == floor(c->self.f));
    return 0;
}

static int loop_cycle(struct render *r, const struct call *c, struct value *out)
{
    if (c->raw->n == 0 || c->raw->n_named)
        return render_fail(r, E_FORMAT, "loop.cycle wants values to choose from");
    *out = c->raw->at[(size_t)c->self.loop->index0 % c->raw->n];
    return 0;
}

static int loop_changed(struct render *r, const struct call *c, struct value *out)
{
    struct loop *loop = c->self.loop;
    struct list *now = list_new(r, 0);
    bool same = false;
    if (!now)
        return render_failed(r);
    *now = (struct list){.n = c->raw->n, .at = c->raw->at};
    int rc = loop->changed ? op_equal(r, &V_TUPLE(loop->changed), &V_TUPLE(now), &same) : 0;
    loop->changed = now;
    *out = V_BOOL(!same);
    return rc;
}

static int cycler_next(struct render *r, const struct call *c, struct value *out)
{
    (void)r;
    struct cycler *y = c->self.cycler;
    *out = y->items->at[y->at];
    y->at = (y->at + 1) % y->items->n;
    return 0;
}

static int cycler_reset(struct render *r, const struct call *c, struct value *out)
{
    (void)r;
    c->self.cycler->at = 0;
    *out = V_NONE;
    return 0;
}

static const struct builtin methods_dict[] = {
    {"clear", "!", NULL},       {"copy", "/", same_value},
    {"fromkeys", "/", NULL},    {"get", "/key default?", dict_get_or},
    {"items", "/", dict_view},  {"keys", "/", dict_view},
    {"pop", "!", NULL},         {"popitem", "!", NULL},
    {"setdefault", "!", NULL},  {"update", "!", NULL},
    {"values", "/", dict_view}, {0},
};

static const struct builtin methods_list[] = {
    {"append", "!", NULL},     {"clear", "!", NULL},
    {"copy", "/", same_value}, {"count", "/value", list_count},
    {"extend", "!", NULL},     {"index", "/value start? end?", list_index},
    {"insert", "!", NULL},     {"pop", "!", NULL},
    {"remove", "!", NULL},     {"reverse", "!", NULL},
    {"sort", "!", NULL},       {0},
};

static const struct builtin methods_tuple[] = {
    {"count", "/value", list_count}, {"index", "/value start? end?", list_index}, {0}};

static const struct builtin methods_int[] = {{"as_integer_ratio", "/", NULL},
                                             {"bit_count", "/", NULL},
                                             {"bit_length", "/", NULL},
                                             {"conjugate", "/", NULL},
                                             {"denominator", "/", NULL},
                                             {"from_bytes", "/", NULL},
                                             {"imag", "/", NULL},
                                             {"numerator", "/", NULL},
                                             {"real", "/", NULL},
                                             {"to_bytes", "/", NULL},
                                             {0}};

static const struct builtin methods_float[] = {{"as_integer_ratio", "/", NULL},
                                               {"conjugate", "/", NULL},
                                               {"fromhex", "/", NULL},
                                               {"hex", "/", NULL},
                                               {"imag", "/", NULL},
                                               {"is_integer", "/", float_is_integer},
                                               {"real", "/", NULL},
                                               {0}};

static const struct builtin methods_loop[] = {
    {"changed", "*", loop_changed}, {"cycle", "*", loop_cycle}, {0}};

static const struct builtin methods_cycler[] = {
    {"next", "/", cycler_next}, {"reset", "/", cycler_reset}, {0}};

const struct builtin *method_find(const struct value *v, struct text name)
{
    static const struct builtin *const by_kind[] = {
        [K_BOOL] = methods_int,      [K_INT] = methods_int,     [K_FLOAT] = methods_float,
        [K_STR] = methods_str,       [K_LIST] = methods_list,   [K_TUPLE] = methods_tuple,
        [K_DICT] = methods_dict,     [K_RANGE] = methods_tuple, [K_LOOP] = methods_loop,
        [K_CYCLER] = methods_cycler, [K_JOINER] = NULL};
    return by_kind[v->kind] ? builtin_find(by_kind[v->kind], name) : NULL;
}
