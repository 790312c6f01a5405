/* Operators with Python's meaning: whole numbers of 64 bits (more is an error), floats, text,
 * lists. Division floors, true division gives a float, a boolean counts as 0 or 1. */
#include <math.h>
#include <string.h>

#include "text/template_run.h"
#include "text/template_text.h"

static int overflow(struct render *r)
{
    return render_fail(r, E_LIMIT, "a whole number grew beyond 64 bits");
}

static const char *op_word(enum token_type op)
{
    static const char *const words[] = {
        [T_ADD] = "+",       [T_SUB] = "-", [T_MUL] = "*",  [T_DIV] = "/",
        [T_FLOORDIV] = "//", [T_MOD] = "%", [T_POW] = "**", [T_LT] = "<",
        [T_LE] = "<=",       [T_GT] = ">",  [T_GE] = ">="};
    return words[op];
}

static int mismatch(struct render *r, enum token_type op, const struct value *a,
                    const struct value *b)
{
    int rc = value_refuse_undefined(r, a);
    if (!rc)
        rc = value_refuse_undefined(r, b);
    return rc ? rc
              : render_fail(r, E_FORMAT, "'%s' does not work between %s and %s", op_word(op),
                            value_type(a), value_type(b));
}

static int int_power(struct render *r, int64_t base, int64_t exp, struct value *out)
{
    if (exp < 0) {
        if (base == 0)
            return render_fail(r, E_FORMAT, "zero has no negative power");
        *out = V_FLOAT(pow((double)base, (double)exp));
        return 0;
    }
    if (base >= -1 && base <= 1) { /* any exponent is fine */
        *out = V_INT(exp == 0 || base == 1 ? 1 : base == 0 ? 0 : exp % 2 ? -1 : 1);
        return 0;
    }
    int64_t v = 1;
    for (; exp > 0; exp--)
        if (__builtin_mul_overflow(v, base, &v))
            return overflow(r);
    *out = V_INT(v);
    return 0;
}

static int64_t floor_mod(int64_t a, int64_t b)
{
    int64_t m = b == -1 ? 0 : a % b;
    return m && (m < 0) != (b < 0) ? m + b : m;
}

static int int_op(struct render *r, enum token_type op, int64_t a, int64_t b, struct value *out)
{
    int64_t v = 0;
    bool over = false;
    if ((op == T_DIV || op == T_FLOORDIV || op == T_MOD) && b == 0)
        return render_fail(r, E_FORMAT, "division by zero");
    switch (op) {
    case T_ADD:
        over = __builtin_add_overflow(a, b, &v);
        break;
    case T_SUB:
        over = __builtin_sub_overflow(a, b, &v);
        break;
    case T_MUL:
        over = __builtin_mul_overflow(a, b, &v);
        break;
    case T_DIV:
        *out = V_FLOAT((double)a / (double)b);
        return 0;
    case T_FLOORDIV:
        over = a == INT64_MIN && b == -1;
        v = over ? 0 : (a - floor_mod(a, b)) / b;
        break;
    case T_MOD:
        v = floor_mod(a, b);
        break;
    default:
        return int_power(r, a, b, out);
    }
    *out = V_INT(v);
    return over ? overflow(r) : 0;
}

static double float_mod(double a, double b)
{
    double m = fmod(a, b);
    if (m == 0)
        return copysign(0, b);
    return (m < 0) != (b < 0) ? m + b : m;
}

static double float_floordiv(double a, double b)
{
    double m = fmod(a, b), q = (a - m) / b;
    if (m != 0 && (m < 0) != (b < 0))
        q -= 1;
    if (q == 0)
        return copysign(0, a / b);
    double f = floor(q);
    return q - f > 0.5 ? f + 1 : f;
}

static int float_op(struct render *r, enum token_type op, double a, double b, struct value *out)
{
    double v;
    if ((op == T_DIV || op == T_FLOORDIV || op == T_MOD) && b == 0)
        return render_fail(r, E_FORMAT, "division by zero");
    switch (op) {
    case T_ADD:
        v = a + b;
        break;
    case T_SUB:
        v = a - b;
        break;
    case T_MUL:
        v = a * b;
        break;
    case T_DIV:
        v = a / b;
        break;
    case T_FLOORDIV:
        v = float_floordiv(a, b);
        break;
    case T_MOD:
        v = float_mod(a, b);
        break;
    default:
        if (a == 0 && b < 0)
            return render_fail(r, E_FORMAT, "zero has no negative power");
        v = pow(a, b);
        if (isnan(v) && !isnan(a) && !isnan(b))
            return render_fail(r, E_UNSUPPORTED, "a power that is a complex number");
        if (isinf(v) && isfinite(a) && isfinite(b))
            return render_fail(r, E_LIMIT, "a power is too large for a float");
    }
    *out = V_FLOAT(v);
    return 0;
}

int value_escape(struct render *r, const struct value *v, struct value *out)
{
    struct buf text = BUF_INIT;
    int rc = value_str(r, v, out);
    if (!rc && !out->flag) {
        text_escape_html(out->s, &text);
        rc = render_take(r, &text, 0, out);
    }
    out->flag = 1;
    return rc;
}

/* Joins two texts; next to one that is marked safe, the other is escaped. */
static int text_add(struct render *r, const struct value *a, const struct value *b,
                    struct value *out)
{
    struct value x = *a, y = *b;
    bool safe = a->flag || b->flag;
    int rc = safe ? value_escape(r, a, &x) : 0;
    if (!rc && safe)
        rc = value_escape(r, b, &y);
    if (!rc)
        rc = render_grown(r, x.s.len + y.s.len, x.s.len + y.s.len);
    char *to = rc ? NULL : render_alloc(r, x.s.len + y.s.len + 1, 1);
    if (!to)
        return render_failed(r);
    if (x.s.len)
        memcpy(to, x.s.p, x.s.len);
    if (y.s.len)
        memcpy(to + x.s.len, y.s.p, y.s.len);
    *out = V_STR(((struct text){to, x.s.len + y.s.len}));
    out->flag = safe;
    return 0;
}

static int list_add(struct render *r, const struct value *a, const struct value *b,
                    struct value *out)
{
    struct list *l = list_new(r, a->list->n + b->list->n);
    int rc = l ? render_steps(r, l->n / 8) : render_failed(r);
    if (rc)
        return rc;
    if (a->list->n)
        memcpy(l->at, a->list->at, a->list->n * sizeof *l->at);
    if (b->list->n)
        memcpy(l->at + a->list->n, b->list->at, b->list->n * sizeof *l->at);
    *out = a->kind == K_LIST ? V_LIST(l) : V_TUPLE(l);
    return 0;
}

static int text_repeat(struct render *r, const struct value *v, size_t times, struct value *out)
{
    if (v->s.len && times > r->lim.bytes / v->s.len)
        return render_grown(r, SIZE_MAX, 0);
    size_t len = v->s.len * times;
    int rc = render_bytes(r, len);
    char *to = rc ? NULL : render_alloc(r, len + 1, 1);
    if (!to)
        return render_failed(r);
    if (len)
        memcpy(to, v->s.p, v->s.len);
    for (size_t done = v->s.len; done < len; done *= 2) /* what is there, behind itself */
        memcpy(to + done, to, done < len - done ? done : len - done);
    *out = V_STR(((struct text){to, len}));
    out->flag = v->flag;
    return 0;
}

static int list_repeat(struct render *r, const struct value *v, size_t times, struct value *out)
{
    size_t n = v->list->n;
    if (n && times > r->lim.bytes / sizeof *v->list->at / n)
        return render_grown(r, SIZE_MAX, 0);
    struct list *l = list_new(r, n * times);
    int rc = l ? render_steps(r, l->n / 8) : render_failed(r);
    for (size_t i = 0; !rc && n && i < times; i++)
        memcpy(l->at + i * n, v->list->at, n * sizeof *l->at);
    *out = v->kind == K_LIST ? V_LIST(l) : V_TUPLE(l);
    return rc;
}

static int repeat(struct render *r, const struct value *v, int64_t times, struct value *out)
{
    size_t n = times < 0 ? 0 : (size_t)times;
    return v->kind == K_STR ? text_repeat(r, v, n, out) : list_repeat(r, v, n, out);
}

static bool is_sequence(const struct value *v)
{
    return v->kind == K_STR || v->kind == K_LIST || v->kind == K_TUPLE;
}

int op_binary(struct render *r, enum token_type op, const struct value *a, const struct value *b,
              struct value *out)
{
    int64_t x, y;
    if (value_is_number(a) && value_is_number(b)) {
        if (value_as_int(a, &x) && value_as_int(b, &y))
            return int_op(r, op, x, y, out);
        return float_op(r, op, value_number(a), value_number(b), out);
    }
    if (op == T_ADD && a->kind == b->kind && a->kind == K_STR)
        return text_add(r, a, b, out);
    if (op == T_ADD && a->kind == b->kind && is_sequence(a))
        return list_add(r, a, b, out);
    if (op == T_MUL && is_sequence(a) && value_as_int(b, &y))
        return repeat(r, a, y, out);
    if (op == T_MUL && is_sequence(b) && value_as_int(a, &x))
        return repeat(r, b, x, out);
    if (op == T_MOD && a->kind == K_STR)
        return format_percent(r, a, b, out);
    return mismatch(r, op, a, b);
}

int op_negate(struct render *r, const struct value *v, bool minus, struct value *out)
{
    int64_t i = 0;
    if (v->kind == K_FLOAT) {
        *out = V_FLOAT(minus ? -v->f : v->f);
        return 0;
    }
    if (value_as_int(v, &i)) {
        if (minus && i == INT64_MIN)
            return overflow(r);
        *out = V_INT(minus ? -i : i);
        return 0;
    }
    int rc = value_refuse_undefined(r, v);
    return rc ? rc : render_fail(r, E_FORMAT, "a sign does not work on a %s", value_type(v));
}
