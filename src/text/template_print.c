/* Values as text, as Python's str() and repr() write them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template_run.h"
#include "text/template_text.h"

/* The fewest significant digits (at most 17) that read back as f, f finite and positive: digits
 * without point into room, the decimal exponent of the first one returned. */
static int shortest_digits(double f, char room[24])
{
    char s[40];
    for (int n = 1; n <= 17; n++) {
        snprintf(s, sizeof s, "%.*e", n - 1, f);
        bool exact = strtod(s, NULL) == f;
        if (!exact && n < 17) {
            /* Just above a power of two the nearest decimal may lie in the narrower gap below and
             * read back wrong, while its neighbour above reads back right. */
            char up[40];
            snprintf(up, sizeof up, "%.*e", n - 1, nextafter(f, INFINITY));
            if (strcmp(up, s) != 0 && strtod(up, NULL) == f) {
                memcpy(s, up, sizeof s);
                exact = true;
            }
        }
        if (exact || n == 17)
            break;
    }
    char *e = strchr(s, 'e');
    size_t n = 0;
    for (char *p = s; p < e; p++)
        if (*p != '.')
            room[n++] = *p;
    while (n > 1 && room[n - 1] == '0')
        n--;
    room[n] = '\0';
    return (int)strtol(e + 1, NULL, 10);
}

void number_repr(double f, struct buf *out)
{
    char digits[24];
    if (isnan(f)) {
        buf_puts(out, "nan");
        return;
    }
    if (signbit(f))
        buf_putc(out, '-');
    f = fabs(f);
    if (isinf(f)) {
        buf_puts(out, "inf");
        return;
    }
    if (f == 0) {
        buf_puts(out, "0.0");
        return;
    }
    int exp = shortest_digits(f, digits), n = (int)strlen(digits);
    if (exp < -4 || exp >= 16) {
        buf_printf(out, "%c%s%se%c%02d", digits[0], n > 1 ? "." : "", digits + 1,
                   exp < 0 ? '-' : '+', abs(exp));
    } else if (exp < 0) {
        buf_printf(out, "0.%.*s%s", -exp - 1, "0000", digits);
    } else if (n <= exp + 1) {
        buf_printf(out, "%s%.*s.0", digits, exp + 1 - n, "0000000000000000");
    } else {
        buf_printf(out, "%.*s.%s", exp + 1, digits, digits + exp + 1);
    }
}

static void repr_char(uint32_t c, const char *p, int n, char quote, struct buf *out)
{
    if (c == (uint32_t)quote || c == '\\')
        buf_printf(out, "\\%c", (char)c);
    else if (c == '\n' || c == '\r' || c == '\t')
        buf_puts(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    else if (char_is_printable(c))
        buf_add(out, p, (size_t)n);
    else if (c < 0x100)
        buf_printf(out, "\\x%02" PRIx32, c);
    else
        buf_printf(out, c < 0x10000 ? "\\u%04" PRIx32 : "\\U%08" PRIx32, c);
}

static int repr_text(struct render *r, const struct value *v, struct buf *out)
{
    struct text t = v->s;
    bool single = text_find(t, TEXT("'")) != SIZE_MAX, dbl = text_find(t, TEXT("\"")) != SIZE_MAX;
    char quote = single && !dbl ? '"' : '\'';
    if (v->flag)
        buf_puts(out, "Markup(");
    buf_putc(out, quote);
    int n;
    for (size_t i = 0; i < t.len; i += (size_t)n) {
        uint32_t c = text_char(t.p + i, t.p + t.len, &n);
        repr_char(c, t.p + i, n, quote, out);
    }
    buf_putc(out, quote);
    if (v->flag)
        buf_putc(out, ')');
    return render_grown(r, out->len, t.len);
}

static int repr_items(struct render *r, const struct value *v, size_t n, const char *open,
                      const char *close, struct buf *out)
{
    int rc = render_enter(r);
    buf_puts(out, open);
    for (size_t i = 0; i < n && !rc; i++) {
        struct value one;
        if (i)
            buf_puts(out, ", ");
        rc = render_steps(r, 1);
        if (!rc)
            rc = value_at(r, v, i, &one);
        if (!rc)
            rc = value_repr(r, &one, out);
        if (!rc)
            rc = render_grown(r, out->len, 0);
    }
    buf_puts(out, close);
    render_leave(r);
    return rc;
}

static int repr_dict(struct render *r, const struct dict *d, struct buf *out)
{
    int rc = render_enter(r);
    buf_putc(out, '{');
    for (size_t i = 0; i < d->n && !rc; i++) {
        if (i)
            buf_puts(out, ", ");
        rc = render_steps(r, 1);
        if (!rc)
            rc = value_repr(r, &d->at[i].key, out);
        buf_puts(out, ": ");
        if (!rc)
            rc = value_repr(r, &d->at[i].value, out);
        if (!rc)
            rc = render_grown(r, out->len, 0);
    }
    buf_putc(out, '}');
    render_leave(r);
    return rc;
}

static int repr_namespace(struct render *r, const struct value *v, struct buf *out)
{
    buf_puts(out, "<Namespace ");
    int rc = repr_dict(r, v->dict, out);
    buf_putc(out, '>');
    return rc;
}

static int repr_view(struct render *r, const struct value *v, struct buf *out)
{
    buf_printf(out, "%s(", value_type(v));
    return repr_items(r, v, v->dict->n, "[", "])", out);
}

static void repr_range(const struct range *g, struct buf *out)
{
    buf_printf(out, "range(%" PRId64 ", %" PRId64, g->start, g->stop);
    if (g->step != 1)
        buf_printf(out, ", %" PRId64, g->step);
    buf_putc(out, ')');
}

static int repr_loop(struct render *r, struct loop *l, struct buf *out)
{
    struct value length;
    int rc = loop_attr(r, l, TEXT("length"), &length);
    if (!rc)
        buf_printf(out, "<LoopContext %" PRId64 "/%" PRId64 ">", l->index0 + 1, length.i);
    return rc;
}

/* Things that Python prints with a memory address: only their type. */
static int repr_object(const struct value *v, struct buf *out)
{
    if (v->kind == K_MACRO && v->macro->node->name.len)
        buf_printf(out, "<Macro '%.*s'>", (int)v->macro->node->name.len, v->macro->node->name.p);
    else if (v->kind == K_MACRO)
        buf_puts(out, "<Macro anonymous>");
    else if (v->kind == K_METHOD || v->kind == K_FUNCTION)
        buf_printf(out, "<built-in %s %s>", v->kind == K_METHOD ? "method" : "function",
                   v->bound->builtin->name);
    else
        buf_printf(out, "<%s object>", value_type(v));
    return 0;
}

int value_repr(struct render *r, const struct value *v, struct buf *out)
{
    switch ((enum kind)v->kind) {
    case K_UNDEFINED:
        buf_puts(out, "Undefined");
        return 0;
    case K_NONE:
        buf_puts(out, "None");
        return 0;
    case K_BOOL:
        buf_puts(out, v->b ? "True" : "False");
        return 0;
    case K_INT:
        buf_printf(out, "%" PRId64, v->i);
        return 0;
    case K_FLOAT:
        number_repr(v->f, out);
        return 0;
    case K_STR:
        return repr_text(r, v, out);
    case K_LIST:
        return repr_items(r, v, v->list->n, "[", "]", out);
    case K_TUPLE:
        return repr_items(r, v, v->list->n, "(", v->list->n == 1 ? ",)" : ")", out);
    case K_DICT:
        return repr_dict(r, v->dict, out);
    case K_RANGE:
        repr_range(v->range, out);
        return 0;
    case K_VIEW:
        return repr_view(r, v, out);
    case K_NAMESPACE:
        return repr_namespace(r, v, out);
    case K_LOOP:
        return repr_loop(r, v->loop, out);
    default:
        return repr_object(v, out);
    }
}

int value_print(struct render *r, const struct value *v, struct buf *out)
{
    if (v->kind == K_STR) {
        buf_add(out, v->s.p, v->s.len);
        return render_grown(r, out->len, v->s.len);
    }
    return v->kind == K_UNDEFINED ? 0 : value_repr(r, v, out);
}

int value_str(struct render *r, const struct value *v, struct value *out)
{
    struct buf text = BUF_INIT;
    if (v->kind == K_STR) {
        *out = *v;
        return 0;
    }
    int rc = value_print(r, v, &text);
    return render_take(r, &text, rc, out);
}
