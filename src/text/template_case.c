/* Upper, lower, title and folded case with the full mappings of Unicode (one character may become
 * three), and Python's rules for words and the final sigma. See template_text.h. */
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/template_text.h"

/* Characters whose upper or title case is not one character, but for U+1F80..U+1FAF, which follow a
 * rule. From the Unicode data (SpecialCasing, unconditional mappings). */
static const struct special {
    uint16_t from, upper[3], title[3];
} specials[] = {
    {0x00DF, {0x53, 0x53}, {0x53, 0x73}},
    {0x0149, {0x2BC, 0x4E}, {0x2BC, 0x4E}},
    {0x01F0, {0x4A, 0x30C}, {0x4A, 0x30C}},
    {0x0390, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
    {0x03B0, {0x3A5, 0x308, 0x301}, {0x3A5, 0x308, 0x301}},
    {0x0587, {0x535, 0x552}, {0x535, 0x582}},
    {0x1E96, {0x48, 0x331}, {0x48, 0x331}},
    {0x1E97, {0x54, 0x308}, {0x54, 0x308}},
    {0x1E98, {0x57, 0x30A}, {0x57, 0x30A}},
    {0x1E99, {0x59, 0x30A}, {0x59, 0x30A}},
    {0x1E9A, {0x41, 0x2BE}, {0x41, 0x2BE}},
    {0x1F50, {0x3A5, 0x313}, {0x3A5, 0x313}},
    {0x1F52, {0x3A5, 0x313, 0x300}, {0x3A5, 0x313, 0x300}},
    {0x1F54, {0x3A5, 0x313, 0x301}, {0x3A5, 0x313, 0x301}},
    {0x1F56, {0x3A5, 0x313, 0x342}, {0x3A5, 0x313, 0x342}},
    {0x1FB2, {0x1FBA, 0x399}, {0x1FBA, 0x345}},
    {0x1FB3, {0x391, 0x399}, {0x1FBC}},
    {0x1FB4, {0x386, 0x399}, {0x386, 0x345}},
    {0x1FB6, {0x391, 0x342}, {0x391, 0x342}},
    {0x1FB7, {0x391, 0x342, 0x399}, {0x391, 0x342, 0x345}},
    {0x1FBC, {0x391, 0x399}, {0x1FBC}},
    {0x1FC2, {0x1FCA, 0x399}, {0x1FCA, 0x345}},
    {0x1FC3, {0x397, 0x399}, {0x1FCC}},
    {0x1FC4, {0x389, 0x399}, {0x389, 0x345}},
    {0x1FC6, {0x397, 0x342}, {0x397, 0x342}},
    {0x1FC7, {0x397, 0x342, 0x399}, {0x397, 0x342, 0x345}},
    {0x1FCC, {0x397, 0x399}, {0x1FCC}},
    {0x1FD2, {0x399, 0x308, 0x300}, {0x399, 0x308, 0x300}},
    {0x1FD3, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
    {0x1FD6, {0x399, 0x342}, {0x399, 0x342}},
    {0x1FD7, {0x399, 0x308, 0x342}, {0x399, 0x308, 0x342}},
    {0x1FE2, {0x3A5, 0x308, 0x300}, {0x3A5, 0x308, 0x300}},
    {0x1FE3, {0x3A5, 0x308, 0x301}, {0x3A5, 0x308, 0x301}},
    {0x1FE4, {0x3A1, 0x313}, {0x3A1, 0x313}},
    {0x1FE6, {0x3A5, 0x342}, {0x3A5, 0x342}},
    {0x1FE7, {0x3A5, 0x308, 0x342}, {0x3A5, 0x308, 0x342}},
    {0x1FF2, {0x1FFA, 0x399}, {0x1FFA, 0x345}},
    {0x1FF3, {0x3A9, 0x399}, {0x1FFC}},
    {0x1FF4, {0x38F, 0x399}, {0x38F, 0x345}},
    {0x1FF6, {0x3A9, 0x342}, {0x3A9, 0x342}},
    {0x1FF7, {0x3A9, 0x342, 0x399}, {0x3A9, 0x342, 0x345}},
    {0x1FFC, {0x3A9, 0x399}, {0x1FFC}},
    {0xFB00, {0x46, 0x46}, {0x46, 0x66}},
    {0xFB01, {0x46, 0x49}, {0x46, 0x69}},
    {0xFB02, {0x46, 0x4C}, {0x46, 0x6C}},
    {0xFB03, {0x46, 0x46, 0x49}, {0x46, 0x66, 0x69}},
    {0xFB04, {0x46, 0x46, 0x4C}, {0x46, 0x66, 0x6C}},
    {0xFB05, {0x53, 0x54}, {0x53, 0x74}},
    {0xFB06, {0x53, 0x54}, {0x53, 0x74}},
    {0xFB13, {0x544, 0x546}, {0x544, 0x576}},
    {0xFB14, {0x544, 0x535}, {0x544, 0x565}},
    {0xFB15, {0x544, 0x53B}, {0x544, 0x56B}},
    {0xFB16, {0x54E, 0x546}, {0x54E, 0x576}},
    {0xFB17, {0x544, 0x53D}, {0x544, 0x56D}},
};

static void put(struct buf *out, uint32_t cp)
{
    char s[4];
    buf_add(out, s, (size_t)utf8_put(cp, s));
}

static void put_all(struct buf *out, const uint16_t cp[3])
{
    for (int i = 0; i < 3 && cp[i]; i++)
        put(out, cp[i]);
}

static const struct special *special_find(uint32_t c)
{
    size_t lo = 0, hi = sizeof specials / sizeof specials[0];
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (specials[mid].from == c)
            return &specials[mid];
        if (specials[mid].from < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static void put_upper(struct buf *out, uint32_t c)
{
    static const uint16_t base[] = {0x1F08, 0x1F28, 0x1F68};
    const struct special *s = c < 0xDF ? NULL : special_find(c);
    if (s) {
        put_all(out, s->upper);
    } else if (c >= 0x1F80 && c <= 0x1FAF) { /* iota subscripts become capital iotas */
        put(out, base[(c >> 4) - 0x1F8] + (c & 7));
        put(out, 0x399);
    } else {
        put(out, (uint32_t)utf8proc_toupper((utf8proc_int32_t)c));
    }
}

static void put_title(struct buf *out, uint32_t c)
{
    const struct special *s = c < 0xDF ? NULL : special_find(c);
    if (s)
        put_all(out, s->title);
    else
        put(out, (uint32_t)utf8proc_totitle((utf8proc_int32_t)c));
}

static bool is_cased(uint32_t c)
{
    return char_is_upper(c) || char_is_lower(c) || char_is_title(c);
}

/* Characters that do not end a word when it comes to the final sigma. */
static bool is_ignorable(uint32_t c)
{
    static const uint16_t marks[] = {0x27,   0x2E,   0x3A,   0x5E,   0x60,   0xA8,
                                     0xAD,   0xAF,   0xB4,   0xB7,   0xB8,   0x387,
                                     0x55F,  0x5F4,  0x2018, 0x2019, 0x2024, 0x2027,
                                     0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (marks[i] == c)
            return true;
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK;
}

/* Whether the capital sigma at byte `at` of t ends a word: letters before it, none behind. */
static bool sigma_is_final(struct text t, size_t at)
{
    const char *end = t.p + t.len;
    bool before = false;
    int n;
    for (size_t i = at; i > 0;) {
        do
            i--;
        while (i > 0 && ((unsigned char)t.p[i] & 0xC0) == 0x80);
        uint32_t c = text_char(t.p + i, end, &n);
        if (is_ignorable(c))
            continue;
        before = is_cased(c);
        break;
    }
    if (!before)
        return false;
    for (const char *p = t.p + at + 2; p < end; p += n) {
        uint32_t c = text_char(p, end, &n);
        if (!is_ignorable(c))
            return !is_cased(c);
    }
    return true;
}

/* Lower case of the character c at byte `at` of t. */
static void put_lower(struct buf *out, struct text t, size_t at, uint32_t c)
{
    if (c == 0x3A3) {
        put(out, sigma_is_final(t, at) ? 0x3C2 : 0x3C3);
    } else if (c == 0x130) {
        put(out, 'i');
        put(out, 0x307);
    } else {
        put(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
    }
}

void text_upper(struct text t, struct buf *out)
{
    int n;
    for (size_t i = 0; i < t.len; i += (size_t)n)
        put_upper(out, text_char(t.p + i, t.p + t.len, &n));
}

void text_lower(struct text t, struct buf *out)
{
    int n;
    for (size_t i = 0; i < t.len; i += (size_t)n)
        put_lower(out, t, i, text_char(t.p + i, t.p + t.len, &n));
}

void text_title(struct text t, struct buf *out)
{
    bool inside = false;
    int n;
    for (size_t i = 0; i < t.len; i += (size_t)n) {
        uint32_t c = text_char(t.p + i, t.p + t.len, &n);
        if (inside)
            put_lower(out, t, i, c);
        else
            put_title(out, c);
        inside = is_cased(c);
    }
}

void text_capitalize(struct text t, struct buf *out)
{
    int n;
    for (size_t i = 0; i < t.len; i += (size_t)n) {
        uint32_t c = text_char(t.p + i, t.p + t.len, &n);
        if (i == 0)
            put_title(out, c);
        else
            put_lower(out, t, i, c);
    }
}

void text_swapcase(struct text t, struct buf *out)
{
    int n;
    for (size_t i = 0; i < t.len; i += (size_t)n) {
        uint32_t c = text_char(t.p + i, t.p + t.len, &n);
        if (char_is_upper(c))
            put_lower(out, t, i, c);
        else if (char_is_lower(c))
            put_upper(out, c);
        else
            put(out, c);
    }
}

void text_casefold(struct text t, struct buf *out)
{
    int n;
    for (size_t i = 0; i < t.len; i += (size_t)n) {
        utf8proc_int32_t to[8];
        int boundary;
        uint32_t c = text_char(t.p + i, t.p + t.len, &n);
        utf8proc_ssize_t k =
            utf8proc_decompose_char((utf8proc_int32_t)c, to, 8, UTF8PROC_CASEFOLD, &boundary);
        for (utf8proc_ssize_t m = 0; m < k && m < 8; m++)
            put(out, (uint32_t)to[m]);
    }
}
