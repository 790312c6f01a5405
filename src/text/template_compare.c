/* Comparing values: equality, order, membership, sorting, with Python's meaning. */
#include <math.h>
#include <string.h>

#include "text/template_run.h"
#include "text/template_text.h"

static int lists_equal(struct render *r, const struct list *a, const struct list *b, bool *out)
{
    int rc = render_enter(r);
    *out = a->n == b->n;
    for (size_t i = 0; i < a->n && *out && !rc; i++)
        rc = op_equal(r, &a->at[i], &b->at[i], out);
    render_leave(r);
    return rc;
}

static int dicts_equal(struct render *r, const struct dict *a, const struct dict *b, bool *out)
{
    int rc = render_enter(r);
    *out = a->n == b->n;
    for (size_t i = 0; i < a->n && *out && !rc; i++) {
        struct pair *p;
        rc = dict_find(r, b, &a->at[i].key, &p);
        *out = p != NULL;
        if (!rc && p)
            rc = op_equal(r, &a->at[i].value, &p->value, out);
    }
    render_leave(r);
    return rc;
}

static int ranges_equal(struct render *r, const struct range *a, const struct range *b, bool *out)
{
    (void)r;
    *out =
        a->n == b->n && (a->n == 0 || (a->start == b->start && (a->n == 1 || a->step == b->step)));
    return 0;
}

/* A whole number and a float, without rounding the number. */
static bool int_equals_float(int64_t i, double f)
{
    if (!(fabs(f) < 0x1p63))
        return f == -0x1p63 && i == INT64_MIN;
    return (double)(int64_t)f == f && (int64_t)f == i;
}

static bool numbers_equal(const struct value *a, const struct value *b)
{
    int64_t x, y;
    bool a_int = value_as_int(a, &x), b_int = value_as_int(b, &y);
    if (a_int && b_int)
        return x == y;
    if (!a_int && !b_int)
        return a->f == b->f;
    return a_int ? int_equals_float(x, b->f) : int_equals_float(y, a->f);
}

int op_equal(struct render *r, const struct value *a, const struct value *b, bool *out)
{
    int rc = render_steps(r, 1);
    *out = false;
    if (rc)
        return rc;
    if (value_is_number(a) && value_is_number(b)) {
        *out = numbers_equal(a, b);
        return 0;
    }
    if (a->kind != b->kind)
        return 0;
    switch ((enum kind)a->kind) {
    case K_UNDEFINED:
    case K_NONE:
        *out = true;
        return 0;
    case K_STR:
        *out = text_eq(a->s, b->s);
        return *out ? render_bytes(r, a->s.len) : 0;
    case K_LIST:
    case K_TUPLE:
        return lists_equal(r, a->list, b->list, out);
    case K_DICT:
        return dicts_equal(r, a->dict, b->dict, out);
    case K_RANGE:
        return ranges_equal(r, a->range, b->range, out);
    case K_METHOD:
    case K_FUNCTION:
        *out = a->bound->builtin == b->bound->builtin;
        return *out ? op_equal(r, &a->bound->self, &b->bound->self, out) : 0;
    default:
        *out = a->dict == b->dict; /* the same object */
        return 0;
    }
}

static int text_order(struct text a, struct text b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.p, b.p, n) : 0; /* the order of UTF-8 is that of code points */
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

static int int_float_order(int64_t i, double f)
{
    if (f >= 0x1p63)
        return -1;
    if (f < -0x1p63)
        return 1;
    int64_t whole = (int64_t)f;
    if (i != whole)
        return i < whole ? -1 : 1;
    double rest = f - (double)whole;
    return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

/* <0, 0, >0, or 2 when one is NaN. */
static int number_order(const struct value *a, const struct value *b)
{
    int64_t x, y;
    bool a_int = value_as_int(a, &x), b_int = value_as_int(b, &y);
    if (a_int && b_int)
        return (x > y) - (x < y);
    if ((!a_int && a->f != a->f) || (!b_int && b->f != b->f))
        return 2;
    if (!a_int && !b_int)
        return (a->f > b->f) - (a->f < b->f);
    return a_int ? int_float_order(x, b->f) : -int_float_order(y, a->f);
}

static bool order_holds(enum token_type op, int order)
{
    if (order == 2)
        return false;
    return op == T_LT ? order < 0 : op == T_LE ? order <= 0 : op == T_GT ? order > 0 : order >= 0;
}

static int no_order(struct render *r, enum token_type op, const struct value *a,
                    const struct value *b)
{
    const char *word = op == T_LT ? "<" : op == T_LE ? "<=" : op == T_GT ? ">" : ">=";
    int rc = value_refuse_undefined(r, a);
    if (!rc)
        rc = value_refuse_undefined(r, b);
    return rc ? rc
              : render_fail(r, E_FORMAT, "'%s' does not work between %s and %s", word,
                            value_type(a), value_type(b));
}

/* Lists are ordered by their first elements that differ, else by length. */
static int list_order(struct render *r, enum token_type op, const struct list *a,
                      const struct list *b, bool *out)
{
    int rc = render_enter(r);
    size_t i = 0;
    bool same = true;
    while (!rc && i < a->n && i < b->n) {
        rc = op_equal(r, &a->at[i], &b->at[i], &same);
        if (!same)
            break;
        i++;
    }
    if (!rc && !same)
        rc = op_compare(r, op, &a->at[i], &b->at[i], out);
    else
        *out = order_holds(op, (a->n > b->n) - (a->n < b->n));
    render_leave(r);
    return rc;
}

int op_compare(struct render *r, enum token_type op, const struct value *a, const struct value *b,
               bool *out)
{
    *out = false;
    if (op == T_EQ || op == T_NE) {
        int rc = op_equal(r, a, b, out);
        *out ^= op == T_NE;
        return rc;
    }
    int rc = render_steps(r, 1);
    if (rc)
        return rc;
    if (value_is_number(a) && value_is_number(b)) {
        *out = order_holds(op, number_order(a, b));
        return 0;
    }
    if (a->kind != b->kind)
        return no_order(r, op, a, b);
    if (a->kind == K_STR) {
        *out = order_holds(op, text_order(a->s, b->s));
        return render_bytes(r, a->s.len < b->s.len ? a->s.len : b->s.len);
    }
    if (a->kind == K_LIST || a->kind == K_TUPLE)
        return list_order(r, op, a->list, b->list, out);
    return no_order(r, op, a, b);
}

int op_less(struct render *r, const struct value *a, const struct value *b, bool *out)
{
    return op_compare(r, T_LT, a, b, out);
}

int op_contains(struct render *r, const struct value *in, const struct value *what, bool *out)
{
    struct cursor c;
    struct pair *p;
    *out = false;
    if (in->kind == K_STR) {
        if (what->kind != K_STR) {
            int rc = value_refuse_undefined(r, what);
            return rc ? rc
                      : render_fail(r, E_FORMAT, "`in` text wants text, found %s",
                                    value_type(what));
        }
        *out = text_find(in->s, what->s) != SIZE_MAX;
        return render_bytes(r, in->s.len);
    }
    if (in->kind == K_DICT || (in->kind == K_VIEW && in->flag == VIEW_KEYS)) {
        int rc = dict_find(r, in->dict, what, &p);
        *out = !rc && p;
        return rc;
    }
    if (!value_is_iterable(in))
        return render_fail(r, E_FORMAT, "`in` wants a text, list or dictionary, found %s",
                           value_type(in));
    int rc = cursor_init(r, &c, in);
    while (!rc && !*out) {
        struct value one;
        rc = cursor_next(r, &c, &one);
        if (rc || one.kind == K_MISSING)
            break;
        rc = op_equal(r, &one, what, out);
    }
    return rc;
}

/* Whether item j must stand before item i. Reversed order keeps equal items in place too. */
static int before(struct render *r, const struct value *ki, const struct value *kj, bool reverse,
                  bool *out)
{
    return reverse ? op_less(r, ki, kj, out) : op_less(r, kj, ki, out);
}

/* Merges the sorted runs [lo, mid) and [mid, hi) of `from` into `to`. */
static int merge(struct render *r, const struct value *keys, const size_t *from, size_t *to,
                 const size_t at[3], bool reverse)
{
    size_t i = at[0], j = at[1];
    for (size_t k = at[0]; k < at[2]; k++) {
        bool take_j = i >= at[1];
        if (i < at[1] && j < at[2]) {
            int rc = before(r, &keys[from[i]], &keys[from[j]], reverse, &take_j);
            if (rc)
                return rc;
        }
        to[k] = take_j ? from[j++] : from[i++];
    }
    return 0;
}

int value_sort(struct render *r, struct value *keys, struct value *items, size_t n, bool reverse)
{
    size_t *order = render_alloc(r, n, sizeof *order), *spare = render_alloc(r, n, sizeof *spare);
    struct value *copy = render_alloc(r, n * 2, sizeof *copy);
    if (!order || !spare || !copy)
        return render_failed(r);
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t run = 1; run < n; run *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * run) {
            size_t mid = lo + run < n ? lo + run : n, hi = mid + run < n ? mid + run : n;
            int rc = merge(r, keys, order, spare, (size_t[]){lo, mid, hi}, reverse);
            if (rc)
                return rc;
        }
        size_t *swap = order;
        order = spare;
        spare = swap;
    }
    for (size_t i = 0; i < n; i++) {
        copy[i] = keys[order[i]];
        copy[n + i] = items[order[i]];
    }
    if (n) {
        memcpy(keys, copy, n * sizeof *keys);
        memcpy(items, copy + n, n * sizeof *items);
    }
    return 0;
}
