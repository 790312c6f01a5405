/* Sets of characters: see charset.h. */
#include "text/charset.h"

#include <stdlib.h>

#include "base/utf8.h"

enum { LAST = 0x10FFFF };

bool charset_add(struct charset *s, uint32_t low, uint32_t high)
{
    if (s->n == CHARSET_RANGES_MAX)
        return false;
    s->ranges[s->n].low = low;
    s->ranges[s->n++].high = high;
    return true;
}

static int order(const void *x, const void *y)
{
    const uint32_t *a = x, *b = y; /* low comes first */
    return (*a > *b) - (*a < *b);
}

void charset_finish(struct charset *s, bool negated)
{
    int n = 0;
    uint32_t from = 0;
    qsort(s->ranges, (size_t)s->n, sizeof s->ranges[0], order);
    for (int i = 0; i < s->n; i++) {
        if (n && s->ranges[i].low <= s->ranges[n - 1].high + 1) {
            if (s->ranges[i].high > s->ranges[n - 1].high)
                s->ranges[n - 1].high = s->ranges[i].high;
        } else {
            s->ranges[n++] = s->ranges[i];
        }
    }
    s->n = n;
    if (!negated)
        return;
    struct charset in = *s;
    s->n = 0;
    for (int i = 0; i < in.n; i++) {
        if (in.ranges[i].low > from) {
            s->ranges[s->n].low = from;
            s->ranges[s->n++].high = in.ranges[i].low - 1;
        }
        from = in.ranges[i].high + 1;
    }
    if (from <= LAST) {
        s->ranges[s->n].low = from;
        s->ranges[s->n++].high = LAST;
    }
}

struct each {
    int (*fn)(void *ctx, const uint8_t *low, const uint8_t *high, int n);
    void *ctx;
};

/* A range of characters of n bytes each: cut until all but leading bytes run over everything. */
static int cut(const struct each *to, uint32_t low, uint32_t high, int n)
{
    char a[4], b[4];
    for (int i = 1; i < n; i++) {
        uint32_t m = (1u << (6 * i)) - 1;
        if ((low & ~m) == (high & ~m))
            continue;
        if (low & m)
            return cut(to, low, low | m, n) || cut(to, (low | m) + 1, high, n);
        if ((high & m) != m)
            return cut(to, low, (high & ~m) - 1, n) || cut(to, high & ~m, high, n);
    }
    utf8_put(low, a);
    utf8_put(high, b);
    return to->fn(to->ctx, (const uint8_t *)a, (const uint8_t *)b, n);
}

void charset_each(const struct charset *s,
                  int (*fn)(void *ctx, const uint8_t *low, const uint8_t *high, int n), void *ctx)
{
    static const struct {
        uint32_t low, high;
        int n;
    } lengths[] = {{0, 0x7F, 1},
                   {0x80, 0x7FF, 2},
                   {0x800, 0xD7FF, 3},
                   {0xE000, 0xFFFF, 3},
                   {0x10000, LAST, 4}};
    const struct each to = {fn, ctx};
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < 5; k++) {
            uint32_t low = s->ranges[i].low, high = s->ranges[i].high;
            low = low > lengths[k].low ? low : lengths[k].low;
            high = high < lengths[k].high ? high : lengths[k].high;
            if (low <= high && cut(&to, low, high, lengths[k].n))
                return;
        }
}
