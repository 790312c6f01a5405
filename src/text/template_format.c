/* Texts with places for values: "%s has %d" % (...) and "{} has {n}".format(...). */
#include <math.h>
#include <string.h>

#include "text/template_format.h"
#include "text/template_text.h"

/* The values that % takes one after another. */
struct supply {
    const struct value *all;
    size_t next;
    bool tuple, mapping;
};

static int supply_next(struct render *r, struct supply *s, struct value *out)
{
    size_t n = s->tuple ? s->all->list->n : 1;
    if (s->next >= n)
        return render_fail(r, E_FORMAT, "%%: the format wants more values than there are");
    *out = s->tuple ? s->all->list->at[s->next] : *s->all;
    s->next++;
    return 0;
}

/* A number behind % or "*": *v stays when there is none. */
static int percent_number(struct render *r, struct supply *s, const char **p, const char *end,
                          int64_t *v)
{
    if (*p < end && **p == '*') {
        struct value star;
        int rc = supply_next(r, s, &star);
        (*p)++;
        if (!rc && !value_as_int(&star, v))
            rc = render_fail(r, E_FORMAT, "%%: '*' wants a whole number, found %s",
                             value_type(&star));
        return rc;
    }
    if (*p < end && **p >= '0' && **p <= '9')
        for (*v = 0; *p < end && **p >= '0' && **p <= '9'; (*p)++)
            *v = *v < 100000000 ? *v * 10 + (**p - '0') : *v;
    return 0;
}

/* Flags, width, precision and type behind a "%" or a "%(key)". */
static int percent_spec(struct render *r, struct supply *s, const char **p, const char *end,
                        struct format *f)
{
    int64_t prec = -1;
    *f = (struct format){.prec = -1};
    for (; *p < end && strchr("#0- +", **p) && **p; (*p)++) {
        f->alt |= **p == '#';
        f->zero |= **p == '0';
        if (**p == '-')
            f->align = '<';
        if (**p == '+' || (**p == ' ' && !f->sign))
            f->sign = **p;
    }
    int rc = percent_number(r, s, p, end, &f->width);
    if (!rc && f->width < 0) {
        f->align = '<';
        f->width = f->width < -INT32_MAX ? INT32_MAX : -f->width;
    }
    if (!rc && *p < end && **p == '.') {
        (*p)++;
        prec = 0;
        rc = percent_number(r, s, p, end, &prec);
    }
    if (rc)
        return rc;
    if (prec > FORMAT_PREC_MAX)
        return render_fail(r, E_LIMIT, "%%: a precision beyond %d", FORMAT_PREC_MAX);
    f->prec = (int)prec;
    while (*p < end && strchr("hlL", **p) && **p)
        (*p)++;
    if (*p >= end)
        return render_fail(r, E_FORMAT, "%%: the format ends inside a conversion");
    f->type = *(*p)++;
    if (f->zero && !f->align)
        f->align = '=';
    return 0;
}

static int percent_text(struct render *r, const struct format *f, const struct value *v, bool safe,
                        struct buf *out)
{
    struct buf text = BUF_INIT, clean = BUF_INIT;
    struct format plain = {
        .width = f->width, .prec = f->prec, .align = f->align == '<' ? '<' : '>'};
    int rc = f->type == 's' ? value_print(r, v, &text) : value_repr(r, v, &text);
    bool escape = safe && !(f->type == 's' && v->kind == K_STR && v->flag);
    if (escape)
        text_escape_html((struct text){text.data, text.len}, &clean);
    struct buf *b = escape ? &clean : &text;
    if (!rc && (text.failed || clean.failed))
        rc = render_fail(r, E_NOMEM, "out of memory");
    if (!rc)
        rc = format_text(r, &plain, (struct text){b->data, b->len}, out);
    buf_free(&text);
    buf_free(&clean);
    return rc;
}

static int percent_char(struct render *r, const struct format *f, const struct value *v,
                        struct buf *out)
{
    struct format plain = {.width = f->width, .prec = -1, .align = f->align == '<' ? '<' : '>'};
    if (v->kind == K_STR && text_count(v->s) == 1)
        return format_text(r, &plain, v->s, out);
    return render_fail(r, E_FORMAT, "%%c wants a text of one character");
}

static int percent_value(struct render *r, const struct format *f, const struct value *v, bool safe,
                         struct buf *out)
{
    int64_t i;
    if (strchr("sra", f->type))
        return percent_text(r, f, v, safe, out);
    if (f->type == 'c')
        return percent_char(r, f, v, out);
    bool whole = strchr("diu", f->type) != NULL, hex = strchr("oxX", f->type) != NULL;
    if (!whole && !hex && !strchr("eEfFgG", f->type))
        return render_fail(r, E_FORMAT, "%%: there is no conversion '%c'", f->type);
    int rc = value_refuse_undefined(r, v);
    if (rc)
        return rc;
    if ((whole || hex) && value_as_int(v, &i))
        return format_int(r, f, i, out);
    if (whole && v->kind == K_FLOAT && fabs(v->f) < 0x1p63)
        return format_int(r, f, (int64_t)v->f, out);
    if (whole || hex || !value_is_number(v))
        return render_fail(r, E_FORMAT, "%%%c wants a number, found %s", f->type, value_type(v));
    return format_float(r, f, value_number(v), out);
}

/* The value for "%(key)". */
static int percent_key(struct render *r, const struct supply *s, const char **p, const char *end,
                       struct value *out)
{
    const char *from = *p + 1;
    int depth = 1;
    for ((*p)++; *p < end && depth; (*p)++)
        depth += (**p == '(') - (**p == ')');
    if (depth || s->all->kind != K_DICT)
        return render_fail(r, E_FORMAT, "%%(name) wants a dictionary and a closing ')'");
    struct text key = {from, (size_t)(*p - 1 - from)};
    const struct value *v = dict_get(s->all->dict, key);
    if (!v)
        return render_fail(r, E_FORMAT, "%%(%.*s): no such key", (int)key.len, key.p);
    *out = *v;
    return 0;
}

static int percent_one(struct render *r, struct supply *s, const char **p, const char *end,
                       bool safe, struct buf *out)
{
    struct value v = {.kind = K_MISSING};
    struct format f;
    int rc = 0;
    if (*p < end && **p == '(')
        rc = percent_key(r, s, p, end, &v);
    if (!rc)
        rc = percent_spec(r, s, p, end, &f);
    if (rc)
        return rc;
    if (f.type == '%') {
        buf_putc(out, '%');
        return 0;
    }
    if (v.kind == K_MISSING)
        rc = supply_next(r, s, &v);
    return rc ? rc : percent_value(r, &f, &v, safe, out);
}

int format_percent(struct render *r, const struct value *fmt, const struct value *args,
                   struct value *out)
{
    struct supply s = {.all = args, .tuple = args->kind == K_TUPLE};
    s.mapping = args->kind == K_DICT || args->kind == K_LIST || args->kind == K_RANGE ||
                args->kind == K_UNDEFINED;
    struct buf text = BUF_INIT;
    const char *p = fmt->s.p, *end = p + fmt->s.len;
    int rc = 0;
    while (p < end && !rc) {
        const char *at = memchr(p, '%', (size_t)(end - p));
        buf_add(&text, p, (size_t)((at ? at : end) - p));
        p = at ? at + 1 : end;
        if (at)
            rc = render_steps(r, 1);
        if (at && !rc)
            rc = percent_one(r, &s, &p, end, fmt->flag, &text);
    }
    if (!rc && !s.mapping && s.next < (s.tuple ? args->list->n : 1))
        rc = render_fail(r, E_FORMAT, "%%: there are more values than the format wants");
    rc = render_take(r, &text, rc, out);
    if (!rc)
        out->flag = fmt->flag;
    return rc;
}

static bool take(struct text *s, const char *set, char *to)
{
    if (!s->len || !*s->p || !strchr(set, *s->p))
        return false;
    *to = *s->p;
    *s = text_sub(*s, 1, s->len);
    return true;
}

static int64_t take_number(struct text *s, int64_t otherwise)
{
    char d;
    int64_t v = 0;
    bool any = false;
    for (; take(s, "0123456789", &d); any = true)
        v = v < 100000000 ? v * 10 + (d - '0') : v;
    return any ? v : otherwise;
}

static int parse_spec(struct render *r, struct text s, struct format *f)
{
    char dump;
    int n;
    *f = (struct format){.prec = -1};
    if (s.len)
        text_char(s.p, s.p + s.len, &n);
    if (s.len > (size_t)1 && s.len > (size_t)n && strchr("<>^=", s.p[n])) {
        f->fill = text_sub(s, 0, (size_t)n);
        s = text_sub(s, (size_t)n, s.len);
    }
    take(&s, "<>^=", &f->align);
    if (take(&s, "+- ", &f->sign) && f->sign == '-')
        f->sign = 0;
    f->alt = take(&s, "#", &dump);
    f->zero = take(&s, "0", &dump);
    if (f->zero && !f->align)
        f->align = '=';
    f->width = take_number(&s, 0);
    take(&s, ",_", &f->group);
    int64_t prec = -1;
    if (take(&s, ".", &dump)) {
        prec = take_number(&s, -1);
        if (prec < 0)
            return render_fail(r, E_FORMAT, "format: a precision is missing behind '.'");
    }
    if (prec > FORMAT_PREC_MAX)
        return render_fail(r, E_LIMIT, "format: a precision beyond %d", FORMAT_PREC_MAX);
    f->prec = (int)prec;
    take(&s, "bcdeEfFgGnosxX%", &f->type);
    if (s.len)
        return render_fail(r, E_FORMAT, "format: '%.*s' is no format", (int)s.len, s.p);
    return 0;
}

int format_spec(struct render *r, const struct value *v, struct text spec, struct buf *out)
{
    struct format f;
    int64_t i;
    if (spec.len == 0)
        return value_print(r, v, out);
    int rc = parse_spec(r, spec, &f);
    if (rc)
        return rc;
    if (v->kind == K_STR && (!f.type || f.type == 's')) {
        if (f.zero && f.align == '=')
            f.align = '<';
        return format_text(r, &f, v->s, out);
    }
    if (value_as_int(v, &i) && (!f.type || strchr("bdoxXn", f.type)) && f.prec < 0)
        return format_int(r, &f, i, out);
    if (value_is_number(v) && (!f.type || strchr("eEfFgGn%", f.type)) &&
        (f.type || v->kind == K_FLOAT))
        return format_float(r, &f, value_number(v), out);
    rc = value_refuse_undefined(r, v);
    return rc ? rc
              : render_fail(r, E_FORMAT, "format: '%.*s' does not suit a %s", (int)spec.len, spec.p,
                            value_type(v));
}

/* str.format at work. */
struct braces {
    struct render *r;
    const struct args *args;
    bool safe;
    int64_t next; /* for places without a number; -1 once numbers were used */
};

static const struct value *named_arg(const struct args *a, struct text name)
{
    for (size_t i = 0; i < a->n_named; i++)
        if (text_eq(a->named[i].key.s, name))
            return &a->named[i].value;
    return NULL;
}

/* The argument that a place begins with: a number, a name, or nothing for the next one. */
static int first_field(struct braces *b, struct text name, struct value *out)
{
    int64_t i = -1;
    bool numbered = name.len && parse_int_text(name, 10, &i) == 0;
    if (!name.len || numbered) {
        if (numbered ? b->next > 0 : b->next < 0)
            return render_fail(b->r, E_FORMAT, "format: places with and without numbers mixed");
        i = numbered ? i : b->next;
        b->next = numbered ? -1 : b->next + 1;
        if (i < 0 || (size_t)i >= b->args->n)
            return render_fail(b->r, E_FORMAT, "format: there is no argument for place %d", (int)i);
        *out = b->args->at[i];
        return 0;
    }
    const struct value *v = named_arg(b->args, name);
    if (!v)
        return render_fail(b->r, E_FORMAT, "format: there is no argument '%.*s'", (int)name.len,
                           name.p);
    *out = *v;
    return 0;
}

/* "name.attr[index]" */
static int field_value(struct braces *b, struct text f, struct value *out)
{
    size_t n = 0;
    while (n < f.len && f.p[n] != '.' && f.p[n] != '[')
        n++;
    int rc = first_field(b, text_sub(f, 0, n), out);
    f = text_sub(f, n, f.len);
    while (!rc && f.len) {
        struct value v = *out;
        bool dot = f.p[0] == '.';
        for (n = 1; n < f.len && (dot ? f.p[n] != '.' && f.p[n] != '[' : f.p[n] != ']');)
            n++;
        struct text part = text_sub(f, 1, n);
        if (part.len == 0 || (!dot && (f.p[0] != '[' || n >= f.len)))
            return render_fail(b->r, E_FORMAT, "format: a malformed place");
        int64_t i;
        struct value key = parse_int_text(part, 10, &i) == 0 ? V_INT(i) : V_STR(part);
        rc = dot ? value_attr(b->r, &v, part, out) : value_item(b->r, &v, &key, out);
        f = text_sub(f, n + !dot, f.len);
    }
    return rc;
}

static int put_field(struct braces *b, struct text place, struct text spec, struct buf *out)
{
    struct value v, repr;
    char conv = 0;
    if (place.len >= 2 && place.p[place.len - 2] == '!') {
        conv = place.p[place.len - 1];
        place.len -= 2;
    }
    if (conv && conv != 'r' && conv != 's')
        return render_fail(b->r, E_FORMAT, "format: there is no conversion '!%c'", conv);
    int rc = field_value(b, place, &v);
    if (!rc && conv) {
        struct buf text = BUF_INIT;
        rc = conv == 'r' ? value_repr(b->r, &v, &text) : value_print(b->r, &v, &text);
        rc = render_take(b->r, &text, rc, &repr);
        v = repr;
    }
    if (rc || !b->safe)
        return rc ? rc : format_spec(b->r, &v, spec, out);
    struct buf text = BUF_INIT;
    rc = format_spec(b->r, &v, spec, &text);
    if (v.kind == K_STR && v.flag)
        buf_add(out, text.data, text.len);
    else
        text_escape_html((struct text){text.data, text.len}, out);
    buf_free(&text);
    return rc;
}

/* One place, p behind its "{"; places inside its specification are filled in first. */
static int braces_place(struct braces *b, const char **p, const char *end, int depth,
                        struct buf *out);

static int braces_text(struct braces *b, struct text t, int depth, struct buf *out)
{
    const char *p = t.p, *end = p + t.len;
    int rc = 0;
    while (p < end && !rc) {
        bool twice = p + 1 < end && p[1] == *p;
        if ((*p == '{' || *p == '}') && twice && depth == 0) {
            buf_putc(out, *p);
            p += 2;
        } else if (*p == '{') {
            p++;
            rc = render_steps(b->r, 1);
            if (!rc)
                rc = braces_place(b, &p, end, depth, out);
        } else if (*p == '}') {
            return render_fail(b->r, E_FORMAT, "format: a single '}'");
        } else {
            buf_putc(out, *p++);
        }
    }
    return rc;
}

static int braces_place(struct braces *b, const char **p, const char *end, int depth,
                        struct buf *out)
{
    const char *from = *p, *colon = NULL;
    int open = 1;
    for (; *p < end; (*p)++) {
        open += (**p == '{') - (**p == '}');
        if (open == 0)
            break;
        if (**p == ':' && !colon)
            colon = *p;
        if (**p == '[' && !colon)
            while (*p + 1 < end && **p != ']')
                (*p)++;
    }
    if (*p >= end || depth > 1)
        return render_fail(b->r, E_FORMAT,
                           depth > 1 ? "format: places are nested too deep"
                                     : "format: a '{' without its '}'");
    struct text place = {from, (size_t)((colon ? colon : *p) - from)};
    struct text spec = {colon ? colon + 1 : *p, colon ? (size_t)(*p - colon - 1) : 0};
    (*p)++;
    struct buf inner = BUF_INIT;
    int rc = braces_text(b, spec, depth + 1, &inner);
    if (!rc && inner.failed)
        rc = render_fail(b->r, E_NOMEM, "out of memory");
    if (!rc)
        rc = put_field(b, place, (struct text){inner.data, inner.len}, out);
    buf_free(&inner);
    return rc;
}

int format_braces(struct render *r, const struct value *fmt, const struct args *a,
                  struct value *out)
{
    struct braces b = {.r = r, .args = a, .safe = fmt->flag};
    struct buf text = BUF_INIT;
    int rc = braces_text(&b, fmt->s, 0, &text);
    rc = render_take(r, &text, rc, out);
    if (!rc)
        out->flag = fmt->flag;
    return rc;
}
