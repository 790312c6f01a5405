/* Characters and their classes: see template_text.h. Categories come from utf8proc; the few
 * properties that are no categories (Other_Uppercase, Numeric_Type=Digit...) are ranges here. */
#include "text/template_text.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

struct span {
    uint32_t first, last;
};

static bool in_spans(uint32_t c, const struct span *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= s[i].first && c <= s[i].last)
            return true;
    return false;
}
#define IN(c, spans) in_spans((c), (spans), sizeof(spans) / sizeof(spans)[0])

struct text text_of(const char *s)
{
    return (struct text){s, strlen(s)};
}

bool text_eq(struct text a, struct text b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

bool text_is(struct text a, const char *s)
{
    return text_eq(a, text_of(s));
}

uint32_t text_char(const char *p, const char *end, int *n)
{
    uint32_t c = (unsigned char)*p;
    *n = 1;
    if (c < 0x80)
        return c;
    int len = utf8_decode(p, (size_t)(end - p), &c);
    if (len)
        *n = len;
    return c;
}

size_t text_count(struct text t)
{
    size_t n = 0;
    for (size_t i = 0; i < t.len; i++)
        n += ((unsigned char)t.p[i] & 0xC0) != 0x80;
    return n;
}

size_t text_offset(struct text t, size_t i)
{
    size_t at = 0;
    for (; at < t.len; at++)
        if (((unsigned char)t.p[at] & 0xC0) != 0x80 && i-- == 0)
            return at;
    return t.len;
}

struct text text_sub(struct text t, size_t from, size_t to)
{
    return (struct text){t.p ? t.p + from : NULL, to > from ? to - from : 0};
}

size_t text_find(struct text t, struct text part)
{
    if (part.len == 0)
        return 0;
    if (t.len < part.len)
        return SIZE_MAX;
    const char *at =
        part.len == 1 ? memchr(t.p, part.p[0], t.len) : memmem(t.p, t.len, part.p, part.len);
    return at ? (size_t)(at - t.p) : SIZE_MAX;
}

size_t text_rfind(struct text t, struct text part)
{
    if (part.len > t.len)
        return SIZE_MAX;
    for (size_t at = t.len - part.len + 1; at-- > 0;)
        if (part.len == 0 || (t.p[at] == part.p[0] && memcmp(t.p + at, part.p, part.len) == 0))
            return at;
    return SIZE_MAX;
}

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool char_is_space(uint32_t c)
{
    static const struct span spans[] = {
        {9, 13},          {28, 32},         {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
    return c < 0x80 ? c == 32 || (c >= 9 && c <= 13) || (c >= 28 && c <= 31) : IN(c, spans);
}

bool char_is_linebreak(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool char_is_alpha(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool char_is_decimal(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_ND;
}

bool char_is_digit(uint32_t c)
{
    static const struct span spans[] = {
        {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
        {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
        {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
        {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
        {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
    return char_is_decimal(c) || IN(c, spans);
}

bool char_is_numeric(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}

bool char_is_alnum(uint32_t c)
{
    return char_is_alpha(c) || char_is_numeric(c);
}

bool char_is_upper(uint32_t c)
{
    static const struct span spans[] = {{0x2160, 0x216F},
                                        {0x24B6, 0x24CF},
                                        {0x1F130, 0x1F149},
                                        {0x1F150, 0x1F169},
                                        {0x1F170, 0x1F189}};
    if (c < 0x80)
        return c >= 'A' && c <= 'Z';
    return category(c) == UTF8PROC_CATEGORY_LU || IN(c, spans);
}

bool char_is_lower(uint32_t c)
{
    static const struct span spans[] = {
        {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},
        {0x2E0, 0x2E4},     {0x345, 0x345},     {0x37A, 0x37A},     {0x1D2C, 0x1D6A},
        {0x1D78, 0x1D78},   {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},
        {0x2090, 0x209C},   {0x2170, 0x217F},   {0x24D0, 0x24E9},   {0x2C7C, 0x2C7D},
        {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F8, 0xA7F9},   {0xAB5C, 0xAB5F},
        {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA}};
    if (c < 0x80)
        return c >= 'a' && c <= 'z';
    return category(c) == UTF8PROC_CATEGORY_LL || IN(c, spans);
}

bool char_is_title(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_LT;
}

bool char_is_printable(uint32_t c)
{
    if (c < 0x7F)
        return c >= 32;
    utf8proc_category_t k = category(c);
    return k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}

bool char_is_id_start(uint32_t c)
{
    if (c < 0x80)
        return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return char_is_alpha(c) || category(c) == UTF8PROC_CATEGORY_NL;
}

bool char_is_id_part(uint32_t c)
{
    if (char_is_id_start(c) || (c >= '0' && c <= '9'))
        return true;
    utf8proc_category_t k = category(c);
    return c >= 0x80 && (k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_MN ||
                         k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_PC);
}

int char_digit(uint32_t c)
{
    if (c < 0x80)
        return c >= '0' && c <= '9' ? (int)c - '0' : -1;
    if (!char_is_decimal(c))
        return -1;
    if (c >= 0x1D7CE && c <= 0x1D7FF) /* five alphabets without a gap */
        return (int)(c - 0x1D7CE) % 10;
    int v = 0; /* the ten digits of a script are in order: count back to its zero */
    while (v < 9 && char_is_decimal(c - (uint32_t)v - 1))
        v++;
    return v;
}

static bool stripped(uint32_t c, const struct text *chars)
{
    char s[4] = {0};
    if (!chars)
        return char_is_space(c);
    size_t n = (size_t)utf8_put(c, s);
    return text_find(*chars, (struct text){s, n}) != SIZE_MAX;
}

struct text text_strip(struct text t, const struct text *chars, enum strip_side side)
{
    int n;
    while ((side & STRIP_LEFT) && t.len && stripped(text_char(t.p, t.p + t.len, &n), chars)) {
        t.p += n;
        t.len -= (size_t)n;
    }
    while ((side & STRIP_RIGHT) && t.len) {
        size_t last = t.len - 1;
        while (last && ((unsigned char)t.p[last] & 0xC0) == 0x80)
            last--;
        if (!stripped(text_char(t.p + last, t.p + t.len, &n), chars))
            break;
        t.len = last;
    }
    return t;
}

void text_escape_html(struct text t, struct buf *out)
{
    static const char *const into[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    static const char from[] = "&<>'\"";
    for (size_t i = 0; i < t.len; i++) {
        const char *at = t.p[i] ? strchr(from, t.p[i]) : NULL;
        if (at)
            buf_puts(out, into[at - from]);
        else
            buf_putc(out, t.p[i]);
    }
}
