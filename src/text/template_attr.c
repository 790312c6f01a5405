/* Attributes, elements and slices. `a.b` looks for an attribute first and an element second,
 * `a['b']` the other way round; what is not there is undefined, which only its use makes an
 * error. */
#include <string.h>

#include "text/template_run.h"
#include "text/template_text.h"

int value_undefined(struct render *r, const struct value *v)
{
    int len = v->s.len > 200 ? 200 : (int)v->s.len;
    const char *of = kind_name(v->of);
    switch ((enum undefined_why)v->flag) {
    case WHY_NAME:
        return render_fail(r, E_FORMAT, "'%.*s' is not defined", len, v->s.p);
    case WHY_ATTRIBUTE:
        return render_fail(r, E_FORMAT, "'%.*s' is not defined: no attribute of that name in a %s",
                           len, v->s.p, of);
    case WHY_ELEMENT:
        return render_fail(r, E_FORMAT, "element %.*s is not defined: not in the %s", len, v->s.p,
                           of);
    case WHY_UNSAFE:
        return render_fail(r, E_FORMAT, "'%.*s' of a %s is not for templates: it is unsafe", len,
                           v->s.p, of);
    case WHY_PARAM:
        return render_fail(r, E_FORMAT, "the parameter '%.*s' got no argument", len, v->s.p);
    default:
        return render_fail(r, E_FORMAT, "%.*s", len, v->s.p);
    }
}

int value_refuse_undefined(struct render *r, const struct value *v)
{
    return v->kind == K_UNDEFINED ? value_undefined(r, v) : 0;
}

static struct value undefined_of(const struct value *v, enum undefined_why why, struct text name)
{
    return (struct value){.kind = K_UNDEFINED, .flag = (uint8_t)why, .of = v->kind, .s = name};
}

static int bind_method(struct render *r, const struct value *v, const struct builtin *m,
                       struct text name, struct value *out)
{
    if (strcmp(m->params, "!") == 0) {
        *out = undefined_of(v, WHY_UNSAFE, name);
        return 0;
    }
    if (!m->run)
        return render_fail(r, E_UNSUPPORTED, "'%s' of a %s is not supported in chat templates",
                           m->name, value_type(v));
    struct bound *b = render_alloc(r, 1, sizeof *b);
    if (!b)
        return render_failed(r);
    *b = (struct bound){m, *v};
    *out = (struct value){.kind = K_METHOD, .bound = b};
    return 0;
}

/* Attributes that are plain values. *out stays K_MISSING when there is none of the name. */
static int plain_attr(struct render *r, const struct value *v, struct text name, struct value *out)
{
    const struct value *field = NULL;
    switch ((enum kind)v->kind) {
    case K_NAMESPACE:
        field = dict_get(v->dict, name);
        if (field)
            *out = *field;
        return 0;
    case K_LOOP:
        return loop_attr(r, v->loop, name, out);
    case K_TUPLE:
        if (v->list->grouped && (text_is(name, "grouper") || text_is(name, "list")))
            *out = v->list->at[text_is(name, "list")];
        return 0;
    case K_RANGE:
        if (text_is(name, "start"))
            *out = V_INT(v->range->start);
        else if (text_is(name, "stop"))
            *out = V_INT(v->range->stop);
        else if (text_is(name, "step"))
            *out = V_INT(v->range->step);
        return 0;
    case K_CYCLER:
        if (text_is(name, "current"))
            *out = v->cycler->items->at[v->cycler->at];
        return 0;
    case K_MACRO:
        if (text_is(name, "name"))
            *out = V_STR(v->macro->node->name);
        return 0;
    default:
        return 0;
    }
}

int value_own_attr(struct render *r, const struct value *v, struct text name, struct value *out)
{
    *out = (struct value){.kind = K_MISSING};
    int rc = plain_attr(r, v, name, out);
    if (rc || out->kind != K_MISSING || v->kind == K_NAMESPACE)
        return rc;
    const struct builtin *m = method_find(v, name);
    if (m)
        return bind_method(r, v, m, name, out);
    if (name.len > 4 && memcmp(name.p, "__", 2) == 0)
        *out = undefined_of(v, WHY_UNSAFE, name);
    return 0;
}

int value_attr(struct render *r, const struct value *v, struct text name, struct value *out)
{
    int rc = value_refuse_undefined(r, v);
    if (!rc)
        rc = value_own_attr(r, v, name, out);
    if (rc || out->kind != K_MISSING)
        return rc;
    const struct value *field = v->kind == K_DICT ? dict_get(v->dict, name) : NULL;
    *out = field ? *field : undefined_of(v, WHY_ATTRIBUTE, name);
    return 0;
}

static int string_element(struct render *r, struct text t, int64_t i, struct value *out)
{
    int64_t count = (int64_t)text_count(t);
    int n;
    int rc = render_bytes(r, t.len * 2);
    if (i < 0)
        i += count;
    if (rc || i < 0 || i >= count)
        return rc;
    size_t at = text_offset(t, (size_t)i);
    text_char(t.p + at, t.p + t.len, &n);
    *out = V_STR(text_sub(t, at, at + (size_t)n));
    return 0;
}

/* An element proper; *out stays K_MISSING when there is none. */
static int find_element(struct render *r, const struct value *v, const struct value *key,
                        struct value *out)
{
    int64_t i, n;
    struct pair *p = NULL;
    *out = (struct value){.kind = K_MISSING};
    if (v->kind == K_DICT) {
        if (key->kind == K_LIST || key->kind == K_DICT || key->kind == K_VIEW)
            return 0;
        int rc = dict_find(r, v->dict, key, &p);
        if (p)
            *out = p->value;
        return rc;
    }
    if (!value_as_int(key, &i))
        return 0;
    if (v->kind == K_STR) {
        int rc = string_element(r, v->s, i, out);
        if (out->kind == K_STR)
            out->flag = v->flag;
        return rc;
    }
    if (v->kind != K_LIST && v->kind != K_TUPLE && v->kind != K_RANGE)
        return 0;
    int rc = value_length(r, v, &n);
    if (i < 0)
        i += n;
    return rc || i < 0 || i >= n ? rc : value_at(r, v, (size_t)i, out);
}

int value_item(struct render *r, const struct value *v, const struct value *key, struct value *out)
{
    int rc = value_refuse_undefined(r, v);
    if (!rc)
        rc = find_element(r, v, key, out);
    if (!rc && out->kind == K_MISSING && key->kind == K_STR)
        rc = value_own_attr(r, v, key->s, out);
    if (rc || out->kind != K_MISSING)
        return rc;
    if (key->kind == K_STR) {
        *out = undefined_of(v, WHY_ATTRIBUTE, key->s);
        return 0;
    }
    struct buf text = BUF_INIT;
    struct value name;
    rc = value_repr(r, key, &text);
    rc = render_take(r, &text, rc, &name);
    if (!rc)
        *out = undefined_of(v, WHY_ELEMENT, name.s);
    return rc;
}

/* Start, stop and step over n elements, and how many elements that takes, as Python has it. */
struct span {
    int64_t start, step, count;
};

static int64_t clamp(int64_t i, int64_t n, bool backwards)
{
    if (i < 0)
        i += n;
    int64_t lo = backwards ? -1 : 0, hi = backwards ? n - 1 : n;
    return i < lo ? lo : i > hi ? hi : i;
}

static int slice_span(struct render *r, const struct value part[3], int64_t n, struct span *out)
{
    int64_t v[3] = {0, 0, 1};
    for (int i = 0; i < 3; i++)
        if (part[i].kind != K_NONE && !value_as_int(&part[i], &v[i])) {
            int rc = value_refuse_undefined(r, &part[i]);
            return rc ? rc
                      : render_fail(r, E_FORMAT, "a slice wants whole numbers, found %s",
                                    value_type(&part[i]));
        }
    if (v[2] == 0)
        return render_fail(r, E_FORMAT, "the step of a slice is zero");
    bool back = v[2] < 0;
    int64_t step = v[2] < -INT64_MAX ? -INT64_MAX : v[2];
    int64_t start = part[0].kind == K_NONE ? (back ? n - 1 : 0) : clamp(v[0], n, back);
    int64_t stop = part[1].kind == K_NONE ? (back ? -1 : n) : clamp(v[1], n, back);
    int64_t far = back ? start - stop : stop - start;
    out->start = start;
    out->step = step;
    out->count = far <= 0 ? 0 : (far - 1) / (back ? -step : step) + 1;
    return 0;
}

static int slice_string(struct render *r, const struct value *v, const struct span *s, int64_t n,
                        struct value *out)
{
    struct text t = v->s;
    bool ascii = (size_t)n == t.len;
    int rc = render_bytes(r, t.len);
    struct buf text = BUF_INIT;
    if (rc)
        return rc;
    if (s->step == 1 || s->count == 0) {
        size_t from = ascii ? (size_t)s->start : text_offset(t, (size_t)s->start);
        size_t to = ascii ? from + (size_t)s->count
                          : from + text_offset(text_sub(t, from, t.len), (size_t)s->count);
        *out = V_STR(text_sub(t, from, s->count ? to : from));
    } else {
        size_t *at = ascii ? NULL : render_alloc(r, (size_t)n + 1, sizeof *at);
        if (!ascii && !at)
            return render_failed(r);
        for (size_t i = 0, k = 0; at && i < t.len; i++)
            if (((unsigned char)t.p[i] & 0xC0) != 0x80)
                at[k++] = i;
        if (at)
            at[n] = t.len;
        for (int64_t k = 0, i = s->start; k < s->count; k++, i += s->step)
            buf_add(&text, t.p + (at ? at[i] : (size_t)i), at ? at[i + 1] - at[i] : 1);
        rc = render_take(r, &text, 0, out);
    }
    if (!rc)
        out->flag = v->flag;
    return rc;
}

static int slice_range(struct render *r, const struct range *g, const struct span *s,
                       struct value *out)
{
    struct range *to = render_alloc(r, 1, sizeof *to);
    if (!to)
        return render_failed(r);
    to->start = g->start + s->start * g->step;
    to->step = s->count > 1 ? s->step * g->step : g->step;
    to->n = s->count;
    if (__builtin_mul_overflow(to->n, to->step, &to->stop) ||
        __builtin_add_overflow(to->start, to->stop, &to->stop))
        to->stop = to->step < 0 ? INT64_MIN : INT64_MAX;
    *out = (struct value){.kind = K_RANGE, .range = to};
    return 0;
}

int value_slice(struct render *r, const struct value *v, const struct value part[3],
                struct value *out)
{
    int64_t n;
    struct span s = {0};
    int rc = value_refuse_undefined(r, v);
    if (rc)
        return rc;
    if (v->kind != K_STR && v->kind != K_LIST && v->kind != K_TUPLE && v->kind != K_RANGE)
        return render_fail(r, E_FORMAT, "a value of type %s cannot be sliced", value_type(v));
    rc = value_length(r, v, &n);
    if (!rc)
        rc = slice_span(r, part, n, &s);
    if (rc)
        return rc;
    if (v->kind == K_STR)
        return slice_string(r, v, &s, n, out);
    if (v->kind == K_RANGE)
        return slice_range(r, v->range, &s, out);
    struct list *l = list_new(r, (size_t)s.count);
    rc = l ? render_steps(r, l->n / 8) : render_failed(r);
    for (int64_t k = 0, i = s.start; !rc && k < s.count; k++, i += s.step)
        l->at[k] = v->list->at[i];
    *out = v->kind == K_LIST ? V_LIST(l) : V_TUPLE(l);
    return rc;
}
