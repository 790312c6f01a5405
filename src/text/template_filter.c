/* Filters on single values: text, numbers, defaults, JSON. Those on lists are in
 * template_filter_list.c. Each filter's subject is call.self; params are Jinja2's names. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template_run.h"
#include "text/template_text.h"

const struct builtin *filter_find(struct text name)
{
    const struct builtin *b = builtin_find(filters_text, name);
    return b ? b : builtin_find(filters_list, name);
}

/* Applies an append-to-buffer function to the subject's text; what was marked safe stays so. */
static int through(struct render *r, const struct call *c, void (*fn)(struct text, struct buf *),
                   struct value *out)
{
    struct value s;
    struct buf text = BUF_INIT;
    int rc = value_str(r, &c->self, &s);
    if (rc)
        return rc;
    fn(s.s, &text);
    rc = render_take(r, &text, 0, out);
    out->flag = s.flag;
    return rc;
}

static int filter_upper(struct render *r, const struct call *c, struct value *out)
{
    return through(r, c, text_upper, out);
}

static int filter_lower(struct render *r, const struct call *c, struct value *out)
{
    return through(r, c, text_lower, out);
}

static int filter_capitalize(struct render *r, const struct call *c, struct value *out)
{
    return through(r, c, text_capitalize, out);
}

static bool separates_words(uint32_t c)
{
    return char_is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

/* Words begin behind blanks, dashes and opening brackets; each part is cased on its own. */
static void title_words(struct text t, struct buf *out)
{
    size_t i = 0;
    int n = 0;
    while (i < t.len) {
        size_t from = i;
        bool gap = separates_words(text_char(t.p + i, t.p + t.len, &n));
        size_t first = i + (size_t)n;
        while (i < t.len && separates_words(text_char(t.p + i, t.p + t.len, &n)) == gap)
            i += (size_t)n;
        text_upper(text_sub(t, from, first), out);
        text_lower(text_sub(t, first, i), out);
    }
}

static int filter_title(struct render *r, const struct call *c, struct value *out)
{
    return through(r, c, title_words, out);
}

static int filter_string(struct render *r, const struct call *c, struct value *out)
{
    return value_str(r, &c->self, out);
}

static int filter_safe(struct render *r, const struct call *c, struct value *out)
{
    int rc = value_str(r, &c->self, out);
    out->flag = 1;
    return rc;
}

static int filter_escape(struct render *r, const struct call *c, struct value *out)
{
    return value_escape(r, &c->self, out);
}

static int filter_forceescape(struct render *r, const struct call *c, struct value *out)
{
    int rc = through(r, c, text_escape_html, out);
    out->flag = 1;
    return rc;
}

static int filter_trim(struct render *r, const struct call *c, struct value *out)
{
    struct text chars;
    int rc = value_str(r, &c->self, out);
    bool has = call_has(c, 0) && c->arg[0].kind != K_NONE;
    if (!rc && has)
        rc = call_text(r, c, 0, &chars);
    if (!rc)
        out->s = text_strip(out->s, has ? &chars : NULL, STRIP_BOTH);
    return rc;
}

static int filter_default(struct render *r, const struct call *c, struct value *out)
{
    (void)r;
    bool use = c->self.kind == K_UNDEFINED || (call_truth(c, 1, false) && !value_truth(&c->self));
    *out = !use ? c->self : call_has(c, 0) ? c->arg[0] : V_STR(TEXT(""));
    return 0;
}

/* A float cut to a whole number. */
static int whole_of(struct render *r, double f, struct value *out)
{
    if (!(fabs(f) < 0x1p63))
        return render_fail(r, E_LIMIT, "a number does not fit in 64 bits");
    *out = V_INT((int64_t)f);
    return 0;
}

static int filter_int(struct render *r, const struct call *c, struct value *out)
{
    int64_t base = 10, i = 0;
    double f = NAN;
    int rc = value_refuse_undefined(r, &c->self);
    if (!rc)
        rc = call_int(r, c, 1, &base);
    if (rc)
        return rc;
    if (base != 0 && (base < 2 || base > 36))
        return render_fail(r, E_FORMAT, "int: base must be 0 or 2 to 36");
    *out = call_has(c, 0) ? c->arg[0] : V_INT(0);
    if (value_as_int(&c->self, &i)) {
        *out = V_INT(i);
        return 0;
    }
    if (c->self.kind == K_STR) {
        int bad = parse_int_text(c->self.s, (int)base, &i);
        if (bad == -2)
            return render_fail(r, E_LIMIT, "int: the number does not fit in 64 bits");
        if (!bad)
            *out = V_INT(i);
        if (!bad || parse_float_text(c->self.s, &f) || isnan(f))
            return 0;
        return whole_of(r, f, out);
    }
    if (c->self.kind != K_FLOAT || isnan(c->self.f))
        return 0;
    return whole_of(r, c->self.f, out);
}

static int filter_float(struct render *r, const struct call *c, struct value *out)
{
    double f;
    int rc = value_refuse_undefined(r, &c->self);
    if (rc)
        return rc;
    *out = call_has(c, 0) ? c->arg[0] : V_FLOAT(0);
    if (value_is_number(&c->self))
        *out = V_FLOAT(value_number(&c->self));
    else if (c->self.kind == K_STR && parse_float_text(c->self.s, &f) == 0)
        *out = V_FLOAT(f);
    return 0;
}

static int want_number(struct render *r, const struct call *c)
{
    int rc = value_refuse_undefined(r, &c->self);
    if (!rc && !value_is_number(&c->self))
        rc = render_fail(r, E_FORMAT, "%s wants a number, found %s", c->builtin->name,
                         value_type(&c->self));
    return rc;
}

static int filter_abs(struct render *r, const struct call *c, struct value *out)
{
    int64_t i = 0;
    int rc = want_number(r, c);
    if (rc)
        return rc;
    *out = V_FLOAT(fabs(c->self.f));
    if (value_as_int(&c->self, &i))
        return op_negate(r, &V_INT(i), i < 0, out);
    return 0;
}

/* The nearest number with so many digits behind the point, halves to even on the exact value. */
static double round_to(double f, int64_t digits)
{
    char s[400];
    if (!isfinite(f) || digits > 30)
        return f;
    if (digits >= 0) {
        snprintf(s, sizeof s, "%.*f", (int)digits, f);
        return strtod(s, NULL);
    }
    if (digits < -308)
        return copysign(0, f);
    double unit = pow(10, (double)-digits);
    return rint(f / unit) * unit;
}

static int round_int(struct render *r, int64_t i, int64_t digits, struct value *out)
{
    int64_t unit = 1;
    *out = V_INT(i);
    for (; digits < 0; digits++)
        if (__builtin_mul_overflow(unit, 10, &unit)) {
            *out = V_INT(0);
            return 0;
        }
    int64_t rest = ((i % unit) + unit) % unit, low = i - rest;
    bool up = rest * 2 > unit || (rest * 2 == unit && (low / unit) % 2 != 0);
    if (unit > INT64_MAX / 20 || __builtin_add_overflow(low, up ? unit : 0, &low))
        return render_fail(r, E_LIMIT, "round: the number does not fit in 64 bits");
    if (unit > 1)
        *out = V_INT(low);
    return 0;
}

static int filter_round(struct render *r, const struct call *c, struct value *out)
{
    int64_t digits = 0, i;
    struct text method = TEXT("common");
    int rc = want_number(r, c);
    if (!rc)
        rc = call_int(r, c, 0, &digits);
    if (!rc)
        rc = call_text(r, c, 1, &method);
    if (rc)
        return rc;
    bool up = text_is(method, "ceil"), down = text_is(method, "floor");
    if (!up && !down && !text_is(method, "common"))
        return render_fail(r, E_FORMAT, "round: method must be common, ceil or floor");
    if (!up && !down) {
        if (value_as_int(&c->self, &i))
            return round_int(r, i, digits, out);
        *out = V_FLOAT(round_to(c->self.f, digits));
        return 0;
    }
    double unit = pow(10, (double)digits), f = value_number(&c->self) * unit;
    if (!isfinite(f))
        return render_fail(r, E_FORMAT, "round: the number is not finite");
    *out = V_FLOAT((up ? ceil(f) : floor(f)) / unit);
    return 0;
}

static int filter_replace(struct render *r, const struct call *c, struct value *out)
{
    struct value s, old, new;
    int64_t count = -1;
    int rc = value_str(r, &c->self, &s);
    if (!rc)
        rc = value_str(r, &c->arg[0], &old);
    if (!rc)
        rc = value_str(r, &c->arg[1], &new);
    if (!rc && c->arg[2].kind != K_NONE)
        rc = call_int(r, c, 2, &count);
    if (rc)
        return rc;
    struct buf text = BUF_INIT;
    rc = text_replace(r, s.s, old.s, new.s, count, &text);
    return render_take(r, &text, rc, out);
}

static int filter_format(struct render *r, const struct call *c, struct value *out)
{
    struct value s, args;
    int rc = value_str(r, &c->self, &s);
    if (rc)
        return rc;
    if (c->raw->n && c->raw->n_named)
        return render_fail(r, E_FORMAT, "format: arguments with and without names mixed");
    if (c->raw->n_named) {
        struct dict *d = dict_new(r, c->raw->n_named);
        rc = d ? 0 : render_failed(r);
        for (size_t i = 0; i < c->raw->n_named && !rc; i++)
            rc = dict_set(r, d, c->raw->named[i].key, c->raw->named[i].value);
        args = V_DICT(d);
    } else {
        struct list *l = list_new(r, 0);
        if (!l)
            return render_failed(r);
        *l = (struct list){.n = c->raw->n, .at = c->raw->at};
        args = V_TUPLE(l);
    }
    return rc ? rc : format_percent(r, &s, &args, out);
}

static int filter_center(struct render *r, const struct call *c, struct value *out)
{
    struct value s;
    int64_t width = 80;
    int rc = value_str(r, &c->self, &s);
    if (!rc)
        rc = call_int(r, c, 0, &width);
    return rc ? rc : text_pad(r, &s, width, TEXT(" "), 'c', out);
}

static int filter_wordcount(struct render *r, const struct call *c, struct value *out)
{
    struct value s;
    int64_t n = 0;
    bool inside = false;
    int rc = value_str(r, &c->self, &s), len;
    for (size_t i = 0; !rc && i < s.s.len; i += (size_t)len) {
        uint32_t ch = text_char(s.s.p + i, s.s.p + s.s.len, &len);
        bool word = ch == '_' || char_is_alnum(ch);
        n += word && !inside;
        inside = word;
    }
    *out = V_INT(n);
    return rc;
}

static int filter_truncate(struct render *r, const struct call *c, struct value *out)
{
    int64_t length = 255, leeway = 5, n;
    struct text end = TEXT("...");
    if (c->self.kind != K_STR)
        return render_fail(r, E_FORMAT, "truncate wants text, found %s", value_type(&c->self));
    int rc = call_int(r, c, 0, &length);
    if (!rc)
        rc = call_text(r, c, 2, &end);
    if (!rc && c->arg[3].kind != K_NONE)
        rc = call_int(r, c, 3, &leeway);
    if (!rc)
        rc = value_length(r, &c->self, &n);
    if (rc)
        return rc;
    int64_t keep = length < 0 ? -1 : length - (int64_t)text_count(end);
    if (keep < 0 || leeway < 0)
        return render_fail(r, E_FORMAT, "truncate: length must cover the end, leeway be positive");
    *out = c->self;
    if (n - leeway <= length)
        return 0;
    struct value head = c->self;
    head.s.len = text_offset(head.s, (size_t)keep);
    if (!call_truth(c, 1, false)) {
        size_t blank = text_rfind(head.s, TEXT(" "));
        head.s.len = blank == SIZE_MAX ? head.s.len : blank;
    }
    struct value tail = call_has(c, 2) ? c->arg[2] : V_STR(end);
    return op_binary(r, T_ADD, &head, &tail, out);
}

static int filter_indent(struct render *r, const struct call *c, struct value *out)
{
    int64_t width = 4;
    struct buf text = BUF_INIT;
    bool first = call_truth(c, 1, false), blank = call_truth(c, 2, false), any = false;
    int rc = value_refuse_undefined(r, &c->self);
    if (!rc && c->self.kind != K_STR)
        rc = render_fail(r, E_FORMAT, "indent wants text, found %s", value_type(&c->self));
    struct value by = c->arg[0];
    if (!rc && by.kind != K_STR) {
        rc = call_int(r, c, 0, &width);
        by = V_STR(TEXT(" "));
        if (!rc)
            rc = op_binary(r, T_MUL, &V_STR(TEXT(" ")), &V_INT(width), &by);
    }
    struct text rest = c->self.s, line;
    for (bool more = true; !rc && more; any = true) {
        more =
            text_take_line(&rest, &line) > 0; /* a break at the end has an empty line behind it */
        if (any)
            buf_putc(&text, '\n');
        if (any ? blank || line.len : first)
            buf_add(&text, by.s.p, by.s.len);
        buf_add(&text, line.p, line.len);
        rc = render_grown(r, text.len, by.s.len);
    }
    rc = render_take(r, &text, rc, out);
    if (!rc)
        out->flag = c->self.flag;
    return rc;
}

static int style_separators(struct render *r, const struct call *c, struct json_style *s)
{
    struct list *l;
    if (!call_has(c, 2) || c->arg[2].kind == K_NONE)
        return 0;
    int rc = value_to_list(r, &c->arg[2], &l);
    if (rc)
        return rc;
    if (l->n != 2 || l->at[0].kind != K_STR || l->at[1].kind != K_STR)
        return call_wrong(r, c, 2, "two texts");
    s->item = l->at[0].s;
    s->key = l->at[1].s;
    return 0;
}

static int filter_tojson(struct render *r, const struct call *c, struct value *out)
{
    struct json_style s = {.ascii = call_truth(c, 0, false), .sort = call_truth(c, 3, false)};
    struct value indent = c->arg[1];
    struct buf text = BUF_INIT;
    int64_t width = 0;
    int rc = 0;
    bool lines = call_has(c, 1) && indent.kind != K_NONE;
    if (lines && indent.kind != K_STR) {
        rc = call_int(r, c, 1, &width);
        indent = V_STR(TEXT(""));
        if (!rc)
            rc = op_binary(r, T_MUL, &V_STR(TEXT(" ")), &V_INT(width), &indent);
    }
    if (lines)
        s.indent = indent.s;
    s.item = lines ? TEXT(",") : TEXT(", ");
    s.key = TEXT(": ");
    if (!rc)
        rc = style_separators(r, c, &s);
    if (!rc)
        rc = value_json(r, &c->self, &s, &text);
    return render_take(r, &text, rc, out);
}

static void url_quote(struct text t, bool slash, struct buf *out)
{
    for (size_t i = 0; i < t.len; i++) {
        unsigned char b = (unsigned char)t.p[i];
        bool plain = (b >= '0' && b <= '9') || (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') ||
                     (b && strchr("_.-~", b));
        if (plain || (b == '/' && slash))
            buf_putc(out, (char)b);
        else if (b == ' ' && !slash)
            buf_putc(out, '+');
        else
            buf_printf(out, "%%%02X", b);
    }
}

/* key=value, joined by "&", from pairs. */
static int url_pairs(struct render *r, const struct list *pairs, struct buf *out)
{
    for (size_t i = 0; i < pairs->n; i++) {
        struct list *pair;
        int rc = value_to_list(r, &pairs->at[i], &pair);
        if (!rc && pair->n != 2)
            rc = render_fail(r, E_FORMAT, "urlencode wants pairs");
        for (int k = 0; k < 2 && !rc; k++) {
            struct value s;
            rc = value_str(r, &pair->at[k], &s);
            if (!rc && (k || i))
                buf_putc(out, k ? '=' : '&');
            if (!rc)
                url_quote(s.s, false, out);
        }
        if (rc)
            return rc;
    }
    return 0;
}

static int filter_urlencode(struct render *r, const struct call *c, struct value *out)
{
    struct buf text = BUF_INIT;
    struct value s, over = c->self;
    struct list *l;
    int rc;
    if (c->self.kind == K_STR || !value_is_iterable(&c->self)) {
        rc = value_str(r, &c->self, &s);
        if (!rc)
            url_quote(s.s, true, &text);
    } else {
        if (over.kind == K_DICT)
            over = (struct value){.kind = K_VIEW, .flag = VIEW_ITEMS, .dict = over.dict};
        rc = value_to_list(r, &over, &l);
        if (!rc)
            rc = url_pairs(r, l, &text);
    }
    return render_take(r, &text, rc, out);
}

static int filter_attr(struct render *r, const struct call *c, struct value *out)
{
    struct text name = {0};
    int rc = value_refuse_undefined(r, &c->self);
    if (!rc)
        rc = call_text(r, c, 0, &name);
    if (!rc)
        rc = value_own_attr(r, &c->self, name, out);
    if (!rc && out->kind == K_MISSING)
        *out = (struct value){
            .kind = K_UNDEFINED, .flag = WHY_ATTRIBUTE, .of = c->self.kind, .s = name};
    return rc;
}

const struct builtin filters_text[] = {
    {"abs", "", filter_abs},
    {"attr", "name", filter_attr},
    {"capitalize", "", filter_capitalize},
    {"center", "width?", filter_center},
    {"d", "default_value? boolean?", filter_default},
    {"default", "default_value? boolean?", filter_default},
    {"e", "", filter_escape},
    {"escape", "", filter_escape},
    {"filesizeformat", "", NULL},
    {"float", "default?", filter_float},
    {"forceescape", "", filter_forceescape},
    {"format", "*", filter_format},
    {"indent", "width? first? blank?", filter_indent},
    {"int", "default? base?", filter_int},
    {"lower", "", filter_lower},
    {"pprint", "", NULL},
    {"replace", "old new count?", filter_replace},
    {"round", "precision? method?", filter_round},
    {"safe", "", filter_safe},
    {"string", "", filter_string},
    {"striptags", "", NULL},
    {"title", "", filter_title},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", filter_tojson},
    {"trim", "chars?", filter_trim},
    {"truncate", "length? killwords? end? leeway?", filter_truncate},
    {"upper", "", filter_upper},
    {"urlencode", "", filter_urlencode},
    {"urlize", "", NULL},
    {"wordcount", "", filter_wordcount},
    {"wordwrap", "", NULL},
    {"xmlattr", "", NULL},
    {0},
};
