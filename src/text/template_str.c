/* Methods of texts, as Python's str has them, and the work on texts that filters share.
 * Positions are characters. A text that was marked safe gives texts that are. */
#include <string.h>

#include "text/template_run.h"
#include "text/template_text.h"

int text_replace(struct render *r, struct text t, struct text old, struct text by, int64_t count,
                 struct buf *out)
{
    int rc = render_bytes(r, t.len);
    int n = 1;
    while (!rc && count != 0) {
        size_t at = text_find(t, old);
        if (at == SIZE_MAX)
            break;
        buf_add(out, t.p, at);
        buf_add(out, by.p, by.len);
        t = text_sub(t, at + old.len, t.len);
        count -= count > 0;
        rc = render_steps(r, 1);
        if (!rc)
            rc = render_grown(r, out->len, by.len);
        if (old.len == 0) { /* nothing matches before every character and at the end */
            if (t.len == 0)
                return rc;
            text_char(t.p, t.p + t.len, &n);
            buf_add(out, t.p, (size_t)n);
            t = text_sub(t, (size_t)n, t.len);
        }
    }
    buf_add(out, t.p, t.len);
    return rc;
}

int text_pad(struct render *r, const struct value *s, int64_t width, struct text fill, char side,
             struct value *out)
{
    struct buf text = BUF_INIT;
    int64_t pad = width <= 0 ? 0 : width - (int64_t)text_count(s->s);
    if (text_count(fill) != 1)
        return render_fail(r, E_FORMAT, "the padding must be one character");
    *out = *s;
    if (pad <= 0)
        return 0;
    if ((size_t)pad > r->lim.bytes / fill.len)
        return render_grown(r, SIZE_MAX, 0);
    int64_t left = side == 'r' ? pad : side == 'l' ? 0 : pad / 2 + (pad & width & 1);
    for (int64_t i = 0; i < left; i++)
        buf_add(&text, fill.p, fill.len);
    buf_add(&text, s->s.p, s->s.len);
    for (int64_t i = left; i < pad; i++)
        buf_add(&text, fill.p, fill.len);
    int rc = render_take(r, &text, 0, out);
    out->flag = s->flag;
    return rc;
}

size_t text_take_line(struct text *rest, struct text *line)
{
    size_t at = 0, len = 0;
    int n;
    for (; at < rest->len; at += (size_t)n) {
        uint32_t c = text_char(rest->p + at, rest->p + rest->len, &n);
        if (!char_is_linebreak(c))
            continue;
        len = (size_t)n;
        len += c == '\r' && at + 1 < rest->len && rest->p[at + 1] == '\n';
        break;
    }
    *line = text_sub(*rest, 0, at);
    *rest = text_sub(*rest, at + len, rest->len);
    return len;
}

static int through(struct render *r, const struct call *c, void (*fn)(struct text, struct buf *),
                   struct value *out)
{
    struct buf text = BUF_INIT;
    fn(c->self.s, &text);
    int rc = render_take(r, &text, 0, out);
    out->flag = c->self.flag;
    return rc;
}

static int str_case(struct render *r, const struct call *c, struct value *out)
{
    static const struct {
        const char *name;
        void (*fn)(struct text, struct buf *);
    } cases[] = {{"upper", text_upper},       {"lower", text_lower},
                 {"title", text_title},       {"capitalize", text_capitalize},
                 {"swapcase", text_swapcase}, {"casefold", text_casefold}};
    size_t i = 0;
    while (strcmp(cases[i].name, c->builtin->name) != 0)
        i++;
    return through(r, c, cases[i].fn, out);
}

static int str_strip(struct render *r, const struct call *c, struct value *out)
{
    struct text chars;
    char which = c->builtin->name[0];
    bool has = call_has(c, 0) && c->arg[0].kind != K_NONE;
    int rc = has ? call_text(r, c, 0, &chars) : 0;
    *out = c->self;
    if (!rc)
        out->s = text_strip(out->s, has ? &chars : NULL,
                            which == 'l'   ? STRIP_LEFT
                            : which == 'r' ? STRIP_RIGHT
                                           : STRIP_BOTH);
    return rc;
}

/* The part of the text between the characters that arguments i and i + 1 name; *from is where it
 * begins, in characters. False when that lies behind the end. */
static int window(struct render *r, const struct call *c, int i, struct text *out, int64_t *from,
                  bool *inside)
{
    int64_t n = (int64_t)text_count(c->self.s), to = n;
    int rc = 0;
    *from = 0;
    if (c->arg[i].kind != K_NONE)
        rc = call_int(r, c, i, from);
    if (!rc && c->arg[i + 1].kind != K_NONE)
        rc = call_int(r, c, i + 1, &to);
    if (*from < 0)
        *from = *from + n < 0 ? 0 : *from + n;
    if (to < 0)
        to = to + n < 0 ? 0 : to + n;
    if (to > n)
        to = n;
    *inside = *from <= to;
    size_t a = text_offset(c->self.s, (size_t)*from);
    size_t b =
        *inside ? a + text_offset(text_sub(c->self.s, a, c->self.s.len), (size_t)(to - *from)) : a;
    *out = text_sub(c->self.s, a, b);
    return rc ? rc : render_bytes(r, c->self.s.len);
}

/* find, rfind, index, rindex */
static int str_find(struct render *r, const struct call *c, struct value *out)
{
    struct text part = {0}, in = {0};
    int64_t from;
    bool inside, last = c->builtin->name[0] == 'r', must = strstr(c->builtin->name, "index");
    int rc = call_text(r, c, 0, &part);
    if (!rc)
        rc = window(r, c, 1, &in, &from, &inside);
    if (!rc && last)
        rc = render_steps(r, in.len / STEP_BYTES * (1 + part.len / STEP_BYTES));
    if (rc)
        return rc;
    size_t at = !inside ? SIZE_MAX : last ? text_rfind(in, part) : text_find(in, part);
    if (at == SIZE_MAX && must)
        return render_fail(r, E_FORMAT, "%s: the text does not contain '%.*s'", c->builtin->name,
                           (int)(part.len > 60 ? 60 : part.len), part.p);
    *out = V_INT(at == SIZE_MAX ? -1 : from + (int64_t)text_count(text_sub(in, 0, at)));
    return 0;
}

static int str_count(struct render *r, const struct call *c, struct value *out)
{
    struct text part, in;
    int64_t from, n = 0;
    bool inside;
    int rc = call_text(r, c, 0, &part);
    if (!rc)
        rc = window(r, c, 1, &in, &from, &inside);
    if (rc)
        return rc;
    if (part.len == 0) {
        n = inside ? (int64_t)text_count(in) + 1 : 0;
    } else {
        for (size_t at; (at = text_find(in, part)) != SIZE_MAX; n++)
            in = text_sub(in, at + part.len, in.len);
    }
    *out = V_INT(n);
    return 0;
}

static bool has_end(struct text t, struct text part, bool start)
{
    return part.len <= t.len &&
           text_eq(start ? text_sub(t, 0, part.len) : text_sub(t, t.len - part.len, t.len), part);
}

/* startswith, endswith: one text or a tuple of them. */
static int str_starts(struct render *r, const struct call *c, struct value *out)
{
    struct text in, part;
    int64_t from;
    bool inside, start = c->builtin->name[0] == 's', yes = false;
    int rc = window(r, c, 1, &in, &from, &inside);
    if (rc)
        return rc;
    if (c->arg[0].kind == K_TUPLE) {
        const struct list *l = c->arg[0].list;
        for (size_t i = 0; i < l->n; i++) {
            if (l->at[i].kind != K_STR)
                return call_wrong(r, c, 0, "a tuple of texts");
            yes |= inside && has_end(in, l->at[i].s, start);
        }
    } else {
        rc = call_text(r, c, 0, &part);
        yes = !rc && inside && has_end(in, part, start);
    }
    *out = V_BOOL(yes);
    return rc;
}

static int push_text(struct render *r, const struct call *c, struct list *l, size_t *cap,
                     struct text t)
{
    struct value v = V_STR(t);
    v.flag = c->self.flag;
    int rc = render_steps(r, 1);
    return rc ? rc : list_push(r, l, cap, v);
}

/* Cuts at blanks, from the left; at most max cuts if max >= 0. */
static int split_blanks(struct render *r, const struct call *c, int64_t max, struct list *l)
{
    struct text rest = text_strip(c->self.s, NULL, STRIP_LEFT);
    size_t cap = 0;
    int rc = 0, n;
    while (!rc && rest.len) {
        size_t at = 0;
        for (; at < rest.len && max != 0; at += (size_t)n)
            if (char_is_space(text_char(rest.p + at, rest.p + rest.len, &n)))
                break;
        if (max == 0)
            at = rest.len;
        rc = push_text(r, c, l, &cap, text_sub(rest, 0, at));
        rest = text_strip(text_sub(rest, at, rest.len), NULL, STRIP_LEFT);
        max -= max > 0;
    }
    return rc;
}

static int rsplit_blanks(struct render *r, const struct call *c, int64_t max, struct list *l)
{
    struct text rest = text_strip(c->self.s, NULL, STRIP_RIGHT);
    size_t cap = 0;
    int rc = 0, n;
    while (!rc && rest.len) {
        size_t at = max == 0 ? 0 : rest.len;
        while (at > 0) {
            size_t last = at - 1;
            while (last && ((unsigned char)rest.p[last] & 0xC0) == 0x80)
                last--;
            if (char_is_space(text_char(rest.p + last, rest.p + rest.len, &n)))
                break;
            at = last;
        }
        rc = push_text(r, c, l, &cap, text_sub(rest, at, rest.len));
        rest = text_strip(text_sub(rest, 0, at), NULL, STRIP_RIGHT);
        max -= max > 0;
    }
    return rc;
}

static int split_at(struct render *r, const struct call *c, struct text sep, int64_t max,
                    struct list *l)
{
    struct text rest = c->self.s;
    bool right = c->builtin->name[0] == 'r';
    size_t cap = 0;
    int rc = 0;
    if (right)
        rc = render_steps(r, rest.len / STEP_BYTES * (1 + sep.len / STEP_BYTES));
    for (;;) {
        size_t at = max == 0 ? SIZE_MAX : right ? text_rfind(rest, sep) : text_find(rest, sep);
        if (rc || at == SIZE_MAX)
            break;
        struct text head = text_sub(rest, 0, at), tail = text_sub(rest, at + sep.len, rest.len);
        rc = push_text(r, c, l, &cap, right ? tail : head);
        rest = right ? head : tail;
        max -= max > 0;
    }
    return rc ? rc : push_text(r, c, l, &cap, rest);
}

static void turn_round(struct list *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        struct value swap = l->at[i];
        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = swap;
    }
}

/* split, rsplit */
static int str_split(struct render *r, const struct call *c, struct value *out)
{
    struct list *l = list_new(r, 0);
    struct text sep = {0};
    int64_t max = -1;
    bool right = c->builtin->name[0] == 'r', has = call_has(c, 0) && c->arg[0].kind != K_NONE;
    int rc = l ? render_bytes(r, c->self.s.len) : render_failed(r);
    if (!rc && has)
        rc = call_text(r, c, 0, &sep);
    if (!rc)
        rc = call_int(r, c, 1, &max);
    if (!rc && has && sep.len == 0)
        rc = render_fail(r, E_FORMAT, "%s: the separator is empty", c->builtin->name);
    if (rc)
        return rc;
    if (has)
        rc = split_at(r, c, sep, max, l);
    else
        rc = right ? rsplit_blanks(r, c, max, l) : split_blanks(r, c, max, l);
    if (right)
        turn_round(l);
    *out = V_LIST(l);
    return rc;
}

static int str_splitlines(struct render *r, const struct call *c, struct value *out)
{
    struct list *l = list_new(r, 0);
    struct text rest = c->self.s, line;
    size_t cap = 0;
    int rc = l ? render_bytes(r, rest.len) : render_failed(r);
    while (!rc && rest.len) {
        size_t brk = text_take_line(&rest, &line);
        if (call_truth(c, 0, false))
            line.len += brk;
        rc = push_text(r, c, l, &cap, line);
    }
    *out = V_LIST(l);
    return rc;
}

/* partition, rpartition */
static int str_partition(struct render *r, const struct call *c, struct value *out)
{
    struct list *l = list_new(r, 3);
    struct text sep = {0}, t = c->self.s;
    bool right = c->builtin->name[0] == 'r';
    int rc = l ? call_text(r, c, 0, &sep) : render_failed(r);
    if (!rc && sep.len == 0)
        rc = render_fail(r, E_FORMAT, "%s: the separator is empty", c->builtin->name);
    if (rc)
        return rc;
    size_t at = right ? text_rfind(t, sep) : text_find(t, sep);
    bool found = at != SIZE_MAX;
    struct text none = text_sub(t, 0, 0);
    struct text part[3] = {found   ? text_sub(t, 0, at)
                           : right ? none
                                   : t,
                           found ? sep : none,
                           found   ? text_sub(t, at + sep.len, t.len)
                           : right ? t
                                   : none};
    for (int i = 0; i < 3; i++) {
        l->at[i] = V_STR(part[i]);
        l->at[i].flag = c->self.flag;
    }
    *out = V_TUPLE(l);
    return render_bytes(r, t.len);
}

static int str_replace(struct render *r, const struct call *c, struct value *out)
{
    struct value old = c->arg[0], by = c->arg[1];
    int64_t count = -1;
    struct text t;
    int rc = call_text(r, c, 0, &t);
    if (!rc)
        rc = call_text(r, c, 1, &t);
    if (!rc)
        rc = call_int(r, c, 2, &count);
    if (!rc && c->self.flag)
        rc = value_escape(r, &c->arg[0], &old);
    if (!rc && c->self.flag)
        rc = value_escape(r, &c->arg[1], &by);
    if (rc)
        return rc;
    struct buf text = BUF_INIT;
    rc = text_replace(r, c->self.s, old.s, by.s, count, &text);
    rc = render_take(r, &text, rc, out);
    out->flag = c->self.flag;
    return rc;
}

static int str_join(struct render *r, const struct call *c, struct value *out)
{
    struct cursor cursor;
    struct value v;
    struct buf text = BUF_INIT;
    int rc = cursor_init(r, &cursor, &c->arg[0]);
    for (bool first = true; !rc; first = false) {
        rc = cursor_next(r, &cursor, &v);
        if (rc || v.kind == K_MISSING)
            break;
        if (!first)
            buf_add(&text, c->self.s.p, c->self.s.len);
        if (c->self.flag)
            rc = value_escape(r, &v, &v);
        else if (v.kind != K_STR)
            rc = render_fail(r, E_FORMAT, "join wants texts, found %s", value_type(&v));
        if (!rc)
            rc = value_print(r, &v, &text);
        if (!rc)
            rc = render_grown(r, text.len, c->self.s.len);
    }
    rc = render_take(r, &text, rc, out);
    out->flag = c->self.flag;
    return rc;
}

/* ljust, rjust, center */
static int str_just(struct render *r, const struct call *c, struct value *out)
{
    int64_t width = 0;
    struct text fill = TEXT(" ");
    int rc = call_int(r, c, 0, &width);
    if (!rc)
        rc = call_text(r, c, 1, &fill);
    return rc ? rc : text_pad(r, &c->self, width, fill, c->builtin->name[0], out);
}

static int str_zfill(struct render *r, const struct call *c, struct value *out)
{
    int64_t width = 0;
    struct value zeros, sign = c->self, body = c->self, padded;
    struct text t = c->self.s;
    int rc = call_int(r, c, 0, &width);
    if (rc)
        return rc;
    bool has_sign = t.len && (t.p[0] == '+' || t.p[0] == '-');
    sign.s = text_sub(t, 0, has_sign);
    body.s = text_sub(t, has_sign, t.len);
    zeros = body;
    rc = text_pad(r, &zeros, width > 0 ? width - has_sign : 0, TEXT("0"), 'r', &padded);
    return rc ? rc : op_binary(r, T_ADD, &sign, &padded, out);
}

/* removeprefix, removesuffix */
static int str_remove(struct render *r, const struct call *c, struct value *out)
{
    struct text part;
    bool start = c->builtin->name[6] == 'p';
    int rc = call_text(r, c, 0, &part);
    *out = c->self;
    if (!rc && has_end(c->self.s, part, start))
        out->s = start ? text_sub(out->s, part.len, out->s.len)
                       : text_sub(out->s, 0, out->s.len - part.len);
    return rc;
}

static int str_expandtabs(struct render *r, const struct call *c, struct value *out)
{
    int64_t size = 8, column = 0;
    struct buf text = BUF_INIT;
    int n, rc = call_int(r, c, 0, &size);
    if (!rc && size > 1000)
        rc = render_fail(r, E_LIMIT, "expandtabs: tabs wider than 1000");
    for (size_t i = 0; !rc && i < c->self.s.len; i += (size_t)n) {
        uint32_t ch = text_char(c->self.s.p + i, c->self.s.p + c->self.s.len, &n);
        int64_t blanks = ch == '\t' && size > 0 ? size - column % size : 0;
        if (ch != '\t')
            buf_add(&text, c->self.s.p + i, (size_t)n);
        for (int64_t k = 0; k < blanks; k++)
            buf_putc(&text, ' ');
        column = ch == '\n' || ch == '\r' ? 0 : column + (ch == '\t' ? blanks : 1);
        rc = render_grown(r, text.len, 0);
    }
    rc = render_take(r, &text, rc, out);
    out->flag = c->self.flag;
    return rc;
}

static int str_format(struct render *r, const struct call *c, struct value *out)
{
    return format_braces(r, &c->self, c->raw, out);
}

static int str_format_map(struct render *r, const struct call *c, struct value *out)
{
    struct args a = {0};
    if (c->arg[0].kind != K_DICT)
        return call_wrong(r, c, 0, "a dictionary");
    a.named = c->arg[0].dict->at;
    a.n_named = c->arg[0].dict->n;
    for (size_t i = 0; i < a.n_named; i++)
        if (a.named[i].key.kind != K_STR)
            return call_wrong(r, c, 0, "a dictionary with names for keys");
    return format_braces(r, &c->self, &a, out);
}

const struct builtin methods_str[] = {
    {"capitalize", "/", str_case},
    {"casefold", "/", str_case},
    {"center", "/width fillchar?", str_just},
    {"count", "/sub start? end?", str_count},
    {"encode", "/", NULL},
    {"endswith", "/suffix start? end?", str_starts},
    {"expandtabs", "tabsize?", str_expandtabs},
    {"find", "/sub start? end?", str_find},
    {"format", "*", str_format},
    {"format_map", "/mapping", str_format_map},
    {"index", "/sub start? end?", str_find},
    {"isalnum", "/", str_is_all},
    {"isalpha", "/", str_is_all},
    {"isascii", "/", str_is_ascii},
    {"isdecimal", "/", str_is_all},
    {"isdigit", "/", str_is_all},
    {"isidentifier", "/", str_is_identifier},
    {"islower", "/", str_is_cased},
    {"isnumeric", "/", str_is_all},
    {"isprintable", "/", str_is_all},
    {"isspace", "/", str_is_all},
    {"istitle", "/", str_is_cased},
    {"isupper", "/", str_is_cased},
    {"join", "/iterable", str_join},
    {"ljust", "/width fillchar?", str_just},
    {"lower", "/", str_case},
    {"lstrip", "/chars?", str_strip},
    {"maketrans", "/", NULL},
    {"partition", "/sep", str_partition},
    {"removeprefix", "/prefix", str_remove},
    {"removesuffix", "/suffix", str_remove},
    {"replace", "/old new count?", str_replace},
    {"rfind", "/sub start? end?", str_find},
    {"rindex", "/sub start? end?", str_find},
    {"rjust", "/width fillchar?", str_just},
    {"rpartition", "/sep", str_partition},
    {"rsplit", "sep? maxsplit?", str_split},
    {"rstrip", "/chars?", str_strip},
    {"split", "sep? maxsplit?", str_split},
    {"splitlines", "keepends?", str_splitlines},
    {"startswith", "/prefix start? end?", str_starts},
    {"strip", "/chars?", str_strip},
    {"swapcase", "/", str_case},
    {"title", "/", str_case},
    {"translate", "/", NULL},
    {"upper", "/", str_case},
    {"zfill", "/width", str_zfill},
    {0},
};
