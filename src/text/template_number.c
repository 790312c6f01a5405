/* Formatting of single values, and reading numbers from text: see template_format.h. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template_format.h"
#include "text/template_text.h"

static void put_fill(const struct format *f, int64_t n, struct buf *out)
{
    for (; n > 0; n--) {
        if (f->fill.len)
            buf_add(out, f->fill.p, f->fill.len);
        else
            buf_putc(out, f->zero && f->align == '=' ? '0' : ' ');
    }
}

/* lead (sign and prefix) and body, padded to the width; count characters in all. */
static int put_padded(struct render *r, const struct format *f, char align, const char *lead,
                      struct text body, struct buf *out)
{
    int64_t pad = f->width - (int64_t)(strlen(lead) + text_count(body));
    if (pad > 0 && (size_t)pad > r->lim.bytes / (f->fill.len + 1))
        return render_grown(r, SIZE_MAX, 0);
    if (pad < 0)
        pad = 0;
    int64_t left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    put_fill(f, left, out);
    buf_puts(out, lead);
    put_fill(f, align == '=' ? pad : 0, out);
    buf_add(out, body.p, body.len);
    put_fill(f, align == '<' ? pad : align == '^' ? pad - left : 0, out);
    return render_grown(r, out->len, (size_t)pad + body.len);
}

int format_text(struct render *r, const struct format *f, struct text t, struct buf *out)
{
    if (f->prec >= 0)
        t.len = text_offset(t, (size_t)f->prec);
    if (f->align == '=' || f->sign || f->group)
        return render_fail(r, E_FORMAT, "this format is not for text");
    return put_padded(r, f, f->align ? f->align : '<', "", t, out);
}

/* Puts a separator between groups of digits, counted from the end of the whole part. Zeros that a
 * width with 0 asks for are grouped too. */
static void group_digits(const struct format *f, const char *digits, size_t whole, int64_t room,
                         int size, struct buf *out)
{
    size_t zeros = 0;
    bool fill = f->align == '=' && (f->zero || text_is(f->fill, "0"));
    while (fill) {
        int64_t n = (int64_t)(whole + zeros);
        if (n + (n - 1) / size >= room)
            break;
        zeros++;
    }
    for (size_t i = 0; i < zeros + whole; i++) {
        size_t left = zeros + whole - i;
        if (i && left % (size_t)size == 0)
            buf_putc(out, f->group);
        buf_putc(out, i < zeros ? '0' : digits[i - zeros]);
    }
    buf_puts(out, digits + whole);
}

/* A number from its sign, prefix and digits. */
static int put_number(struct render *r, const struct format *f, bool minus, const char *prefix,
                      const char *digits, struct buf *out)
{
    char lead[4];
    struct buf grouped = BUF_INIT;
    snprintf(lead, sizeof lead, "%s%s",
             minus            ? "-"
             : f->sign == '+' ? "+"
             : f->sign        ? " "
                              : "",
             prefix);
    char align = f->align ? f->align : '>';
    struct text body = text_of(digits);
    if (f->group && f->width <= (int64_t)(r->lim.bytes / 4)) {
        size_t whole = strspn(digits, "0123456789abcdefABCDEF");
        group_digits(f, digits, whole,
                     f->width - (int64_t)strlen(lead) - (int64_t)(body.len - whole),
                     f->type && strchr("boxX", f->type) ? 4 : 3, &grouped);
        body = text_of(buf_str(&grouped));
    }
    int rc = put_padded(r, f, align, lead, body, out);
    if (!rc && grouped.failed)
        rc = render_fail(r, E_NOMEM, "out of memory");
    buf_free(&grouped);
    return rc;
}

static void binary(uint64_t v, char room[72])
{
    int n = 0;
    for (uint64_t w = v; n == 0 || w; w >>= 1)
        n++;
    for (int i = 0; i < n; i++)
        room[i] = (char)('0' + ((v >> (n - 1 - i)) & 1));
    room[n] = '\0';
}

int format_int(struct render *r, const struct format *f, int64_t v, struct buf *out)
{
    char digits[72], padded[FORMAT_PREC_MAX + 80];
    uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;
    const char *prefix = "";
    switch (f->type) {
    case 'b':
        binary(u, digits);
        prefix = "0b";
        break;
    case 'o':
        snprintf(digits, sizeof digits, "%" PRIo64, u);
        prefix = "0o";
        break;
    case 'x':
    case 'X':
        snprintf(digits, sizeof digits, f->type == 'x' ? "%" PRIx64 : "%" PRIX64, u);
        prefix = f->type == 'x' ? "0x" : "0X";
        break;
    default:
        snprintf(digits, sizeof digits, "%" PRIu64, u);
    }
    int zeros = f->prec - (int)strlen(digits); /* only % has a precision for whole numbers */
    snprintf(padded, sizeof padded, "%0*d", zeros > 0 ? zeros : 1, 0);
    snprintf(padded + (zeros > 0 ? zeros : 0), 72, "%s", digits);
    return put_number(r, f, v < 0, f->alt ? prefix : "", padded, out);
}

/* `g` as the types 'g' and none have it: none keeps a digit behind the point. */
static void general(double v, int prec, bool alt, bool dot, struct buf *out)
{
    char s[FORMAT_PREC_MAX + 40];
    if (prec == 0)
        prec = 1;
    snprintf(s, sizeof s, "%.*e", prec - 1, v);
    int exp = (int)strtol(strchr(s, 'e') + 1, NULL, 10), n = 0;
    for (char *p = s; *p != 'e'; p++)
        if (*p != '.')
            s[n++] = *p;
    while (!alt && n > 1 && s[n - 1] == '0')
        n--;
    s[n] = '\0';
    if (exp < -4 || exp >= prec - dot) {
        buf_printf(out, "%c%s%se%c%02d", s[0], n > 1 || alt ? "." : "", s + 1, exp < 0 ? '-' : '+',
                   abs(exp));
    } else if (exp < 0) {
        buf_printf(out, "0.%.*s%s", -exp - 1, "0000", s);
    } else {
        for (int i = 0; i < n || i <= exp; i++) {
            if (i == exp + 1)
                buf_putc(out, '.');
            buf_putc(out, i < n ? s[i] : '0');
        }
        if (n <= exp + 1 && (dot || alt))
            buf_puts(out, dot ? ".0" : ".");
    }
}

static void upper_ascii(struct buf *b)
{
    for (size_t i = 0; i < b->len; i++)
        if (b->data[i] >= 'a' && b->data[i] <= 'z')
            b->data[i] = (char)(b->data[i] - 32);
}

int format_float(struct render *r, const struct format *f, double v, struct buf *out)
{
    struct buf s = BUF_INIT;
    int prec = f->prec < 0 ? 6 : f->prec;
    double a = fabs(v);
    char lower = f->type >= 'A' && f->type <= 'Z' ? (char)(f->type + 32) : f->type;
    if (!isfinite(v))
        buf_puts(&s, isnan(v) ? "nan" : "inf");
    else if (lower == 'e')
        buf_printf(&s, f->alt ? "%#.*e" : "%.*e", prec, a);
    else if (lower == 'f' || lower == '%')
        buf_printf(&s, f->alt ? "%#.*f" : "%.*f", prec, lower == '%' ? a * 100 : a);
    else if (lower == 'g' || lower == 'n')
        general(a, prec, f->alt, false, &s);
    else if (f->prec >= 0)
        general(a, prec, f->alt, true, &s);
    else
        number_repr(a, &s);
    if (lower == '%')
        buf_putc(&s, '%');
    if (f->type != lower)
        upper_ascii(&s);
    int rc = s.failed ? render_fail(r, E_NOMEM, "out of memory")
                      : put_number(r, f, signbit(v) && !isnan(v), "", buf_str(&s), out);
    buf_free(&s);
    return rc;
}

/* Digits of any script, without blanks around and single underscores inside, as ASCII. */
static int ascii_number(struct text t, char *room, size_t size)
{
    size_t n = 0;
    int len;
    char before = 0;
    t = text_strip(t, NULL, STRIP_BOTH);
    for (size_t i = 0; i < t.len; i += (size_t)len) {
        uint32_t c = text_char(t.p + i, t.p + t.len, &len);
        int d = char_digit(c);
        char now = d >= 0 ? (char)('0' + d) : c < 0x80 ? (char)c : 0;
        bool joins = now == '_' && before && strchr("0123456789abcdefABCDEFxXoObB", before);
        if (!now || n + 1 >= size || (now == '_' && !joins) || (before == '_' && now == '_'))
            return -1;
        if (now != '_')
            room[n++] = now;
        before = now;
    }
    room[n] = '\0';
    return n == 0 || before == '_' ? -1 : 0;
}

int parse_int_text(struct text t, int base, int64_t *out)
{
    char s[100], *p = s, *end;
    if (ascii_number(t, s, sizeof s))
        return -1;
    bool minus = *p == '-';
    p += *p == '-' || *p == '+';
    char letter = p[0] == '0' ? (char)(p[1] | 32) : 0;
    int own = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (own && (base == own || base == 0)) {
        p += 2;
        base = own;
    } else if (base == 0) {
        if (p[0] == '0' && p[strspn(p, "0")])
            return -1;
        base = 10;
    }
    if (*p == '-' || *p == '+' || *p == '\0' || (own && base == 16 && p[1] && (p[1] | 32) == 'x'))
        return -1;
    errno = 0;
    uint64_t u = strtoull(p, &end, base);
    if (*end)
        return -1;
    if (errno || u > (uint64_t)INT64_MAX + minus)
        return -2;
    *out = minus ? (int64_t)(0 - u) : (int64_t)u;
    return 0;
}

int parse_float_text(struct text t, double *out)
{
    char s[400], *end, *p = s;
    if (ascii_number(t, s, sizeof s))
        return -1;
    p += *p == '-' || *p == '+';
    bool word =
        strcasecmp(p, "inf") == 0 || strcasecmp(p, "infinity") == 0 || strcasecmp(p, "nan") == 0;
    if (!word && (!strspn(p, "0123456789.") || p[strspn(p, "0123456789.eE+-")]))
        return -1;
    *out = strtod(s, &end);
    return *end ? -1 : 0;
}
