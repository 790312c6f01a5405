/* UTF-8: see utf8.h. */
#include "base/utf8.h"

#include <string.h>

/* The number of bytes a lead byte announces and the range its second byte must be in, 0 if none. */
static int lead(unsigned char c, unsigned char *lo, unsigned char *hi)
{
    *lo = 0x80;
    *hi = 0xBF;
    if (c < 0x80)
        return 1;
    if (c >= 0xC2 && c <= 0xDF)
        return 2;
    if (c >= 0xE0 && c <= 0xEF) {
        if (c == 0xE0)
            *lo = 0xA0;
        if (c == 0xED)
            *hi = 0x9F;
        return 3;
    }
    if (c >= 0xF0 && c <= 0xF4) {
        if (c == 0xF0)
            *lo = 0x90;
        if (c == 0xF4)
            *hi = 0x8F;
        return 4;
    }
    return 0;
}

/* How many of the bytes at s fit together as the (possibly unfinished) start of one character; the
 * length announced by the lead byte goes to *want, 0 when the lead byte is none. */
static size_t fitting(const char *s, size_t n, int *want)
{
    unsigned char lo, hi;
    *want = lead((unsigned char)s[0], &lo, &hi);
    size_t k = 1;
    while (k < n && k < (size_t)*want) {
        unsigned char c = (unsigned char)s[k];
        if (c < lo || c > hi)
            break;
        lo = 0x80;
        hi = 0xBF;
        k++;
    }
    return k;
}

int utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    int want;
    if (fitting(s, n, &want) != (size_t)want)
        return 0;
    uint32_t v = (unsigned char)s[0];
    if (want > 1)
        v &= 0x7Fu >> want;
    for (int i = 1; i < want; i++)
        v = v << 6 | ((unsigned char)s[i] & 0x3F);
    *cp = v;
    return want;
}

int utf8_put(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (cp & 0x3F));
        cp >>= 6;
    }
    out[0] = (char)((0xF00 >> n & 0xFF) | cp);
    return n;
}

size_t utf8_valid_prefix(const char *s, size_t n)
{
    size_t i = 0;
    uint32_t cp;
    while (i < n) {
        uint64_t eight = 0; /* most text is ASCII, and large files of it are checked */
        for (; n - i >= sizeof eight; i += sizeof eight) {
            memcpy(&eight, s + i, sizeof eight);
            if (eight & 0x8080808080808080u)
                break;
        }
        if (i == n)
            break;
        int k = utf8_decode(s + i, n - i, &cp);
        if (!k)
            break;
        i += (size_t)k;
    }
    return i;
}

size_t utf8_incomplete_tail(const char *s, size_t n)
{
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        unsigned char c = (unsigned char)s[n - k];
        if ((c & 0xC0) == 0x80)
            continue;
        int want;
        size_t fit = fitting(s + n - k, k, &want);
        return fit == k && (size_t)want > k ? k : 0;
    }
    return 0;
}

size_t utf8_bad_length(const char *s, size_t n)
{
    int want;
    size_t k = fitting(s, n, &want);
    return want ? k : 1;
}

bool utf8_is_control(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7F && cp < 0xA0);
}

void utf8_make_plain(char *s)
{
    const char *end = s + strlen(s);
    while (s < end) {
        uint32_t cp = 0;
        int n = utf8_decode(s, (size_t)(end - s), &cp);
        if (!n || utf8_is_control(cp))
            memset(s, '?', (size_t)(n ? n : 1));
        s += n ? n : 1;
    }
}
