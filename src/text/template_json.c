/* The filter `tojson` as transformers defines it: Python's json.dumps without HTML escapes, by
 * default on one line with ", " and ": ", insertion order, and characters above U+007F as they
 * are. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "text/template_run.h"
#include "text/template_text.h"

struct writer {
    struct render *r;
    const struct json_style *style;
    struct buf *out;
    size_t level;
};

static int write_value(struct writer *w, const struct value *v);

static void write_char(struct writer *w, uint32_t c, const char *p, int n)
{
    static const char from[] = "\"\\\n\r\t\b\f", into[] = "\"\\nrtbf";
    const char *simple = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    if (simple) {
        buf_printf(w->out, "\\%c", into[simple - from]);
    } else if (c < 0x20 || (c >= 0x7F && w->style->ascii && c < 0x10000)) {
        buf_printf(w->out, "\\u%04" PRIx32, c);
    } else if (c >= 0x10000 && w->style->ascii) {
        buf_printf(w->out, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xD800 + ((c - 0x10000) >> 10),
                   0xDC00 + ((c - 0x10000) & 0x3FF));
    } else {
        buf_add(w->out, p, (size_t)n);
    }
}

static int write_text(struct writer *w, struct text t)
{
    int n;
    buf_putc(w->out, '"');
    for (size_t i = 0; i < t.len; i += (size_t)n) {
        uint32_t c = text_char(t.p + i, t.p + t.len, &n);
        write_char(w, c, t.p + i, n);
    }
    buf_putc(w->out, '"');
    return render_grown(w->r, w->out->len, t.len);
}

static void write_float(struct writer *w, double f)
{
    if (isfinite(f))
        number_repr(f, w->out);
    else
        buf_puts(w->out, isnan(f) ? "NaN" : f < 0 ? "-Infinity" : "Infinity");
}

/* A line break and the indentation of the current level, if the style has any. */
static int write_break(struct writer *w)
{
    if (!w->style->indent.p)
        return 0;
    buf_putc(w->out, '\n');
    for (size_t i = 0; i < w->level; i++)
        buf_add(w->out, w->style->indent.p, w->style->indent.len);
    return render_grown(w->r, w->out->len, w->level * w->style->indent.len);
}

static int open_level(struct writer *w, char bracket)
{
    buf_putc(w->out, bracket);
    w->level++;
    return render_enter(w->r);
}

static int close_level(struct writer *w, char bracket, bool empty)
{
    w->level--;
    render_leave(w->r);
    int rc = empty ? 0 : write_break(w);
    buf_putc(w->out, bracket);
    return rc;
}

static int between(struct writer *w, size_t i)
{
    int rc = render_steps(w->r, 1);
    if (i)
        buf_add(w->out, w->style->item.p, w->style->item.len);
    return rc ? rc : write_break(w);
}

static int write_list(struct writer *w, const struct list *l)
{
    int rc = open_level(w, '[');
    for (size_t i = 0; i < l->n && !rc; i++) {
        rc = between(w, i);
        if (!rc)
            rc = write_value(w, &l->at[i]);
    }
    return rc ? rc : close_level(w, ']', l->n == 0);
}

/* Keys that are no text are written as text; others than numbers and none cannot be keys. */
static int write_key(struct writer *w, const struct value *key)
{
    if (key->kind == K_STR)
        return write_text(w, key->s);
    if (!value_is_number(key) && key->kind != K_NONE)
        return render_fail(w->r, E_FORMAT, "tojson: a key of type %s, want text or a number",
                           value_type(key));
    buf_putc(w->out, '"');
    int rc = write_value(w, key);
    buf_putc(w->out, '"');
    return rc;
}

static int sorted_pairs(struct render *r, const struct dict *d, struct value *keys,
                        struct value *values)
{
    for (size_t i = 0; i < d->n; i++) {
        keys[i] = d->at[i].key;
        values[i] = d->at[i].value;
    }
    return value_sort(r, keys, values, d->n, false);
}

static int write_dict(struct writer *w, const struct dict *d)
{
    struct value *keys = NULL, *values = NULL;
    int rc = open_level(w, '{');
    if (!rc && w->style->sort) {
        keys = render_alloc(w->r, d->n, sizeof *keys);
        values = render_alloc(w->r, d->n, sizeof *values);
        rc = keys && values ? sorted_pairs(w->r, d, keys, values) : -w->r->e->code;
    }
    for (size_t i = 0; i < d->n && !rc; i++) {
        rc = between(w, i);
        if (!rc)
            rc = write_key(w, keys ? &keys[i] : &d->at[i].key);
        buf_add(w->out, w->style->key.p, w->style->key.len);
        if (!rc)
            rc = write_value(w, values ? &values[i] : &d->at[i].value);
    }
    return rc ? rc : close_level(w, '}', d->n == 0);
}

static int write_value(struct writer *w, const struct value *v)
{
    switch ((enum kind)v->kind) {
    case K_NONE:
        buf_puts(w->out, "null");
        return 0;
    case K_BOOL:
        buf_puts(w->out, v->b ? "true" : "false");
        return 0;
    case K_INT:
        buf_printf(w->out, "%" PRId64, v->i);
        return 0;
    case K_FLOAT:
        write_float(w, v->f);
        return 0;
    case K_STR:
        return write_text(w, v->s);
    case K_LIST:
    case K_TUPLE:
        return write_list(w, v->list);
    case K_DICT:
        return write_dict(w, v->dict);
    default: {
        int rc = value_refuse_undefined(w->r, v);
        return rc ? rc
                  : render_fail(w->r, E_FORMAT, "tojson: a value of type %s has no JSON form",
                                value_type(v));
    }
    }
}

int value_json(struct render *r, const struct value *v, const struct json_style *style,
               struct buf *out)
{
    struct writer w = {.r = r, .style = style, .out = out};
    return write_value(&w, v);
}
