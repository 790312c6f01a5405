/* Numbers of a range as GBNF: see schema_parts.h. Between two numbers of equally many digits the
 * first digit decides whether those behind it are free:
 *
 *      213 to 478:   "2" (13 to 99) | [3-3] [0-9]{2} | "4" (00 to 78)
 */
#include "text/schema_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS_MAX = 18 };

static void put_digit(struct buf *out, char from, char to, size_t free)
{
    buf_printf(out, from == to ? "\"%c\" " : "[%c-%c] ", from, to);
    if (free)
        buf_printf(out, "[0-9]{%zu} ", free);
}

/* n digits from lo to hi, both as text of n digits. */
static void put_digits(struct buf *out, const char *lo, const char *hi, size_t n)
{
    static const char nines[] = "999999999999999999", zeros[] = "000000000000000000";
    const char *nine = nines + DIGITS_MAX - n, *zero = zeros + DIGITS_MAX - n;
    if (n == 0)
        return;
    if (lo[0] == hi[0]) {
        put_digit(out, lo[0], lo[0], 0);
        put_digits(out, lo + 1, hi + 1, n - 1);
        return;
    }
    if (memcmp(lo, zero, n) == 0 && memcmp(hi, nine, n) == 0) {
        put_digit(out, '0', '9', n - 1);
        return;
    }
    const bool whole_lo = memcmp(lo + 1, zero + 1, n - 1) == 0;
    const bool whole_hi = memcmp(hi + 1, nine + 1, n - 1) == 0;
    const char from = (char)(lo[0] + !whole_lo), to = (char)(hi[0] - !whole_hi);
    buf_puts(out, "( ");
    if (!whole_lo) {
        put_digit(out, lo[0], lo[0], 0);
        put_digits(out, lo + 1, nine + 1, n - 1);
    }
    if (from <= to) {
        buf_puts(out, whole_lo ? "" : "| ");
        put_digit(out, from, to, n - 1);
    }
    if (!whole_hi) {
        buf_puts(out, whole_lo && from > to ? "" : "| ");
        put_digit(out, hi[0], hi[0], 0);
        put_digits(out, zero + 1, hi + 1, n - 1);
    }
    buf_puts(out, ") ");
}

/* Whole numbers, 0 <= lo <= hi, without useless zeros: by how many digits they have. */
static void put_whole(struct buf *out, int64_t lo, int64_t hi)
{
    int64_t power = 10; /* the first number of one digit more */
    const char *before = "( ";
    while (power <= lo)
        power *= 10;
    while (lo <= hi) {
        char from[24], to[24];
        const int64_t last = hi < power ? hi : power - 1;
        const int n = snprintf(from, sizeof from, "%" PRId64, lo);
        snprintf(to, sizeof to, "%" PRId64, last);
        buf_puts(out, before);
        put_digits(out, from, to, (size_t)n);
        before = "| ";
        lo = last + 1;
        power *= last < hi ? 10 : 1;
    }
    buf_puts(out, ") ");
}

/* 0 <= lo <= hi */
static void put_side(struct buf *out, int64_t lo, int64_t hi, bool whole)
{
    if (whole) {
        put_whole(out, lo, hi);
        return;
    }
    buf_puts(out, "( ");
    if (lo < hi) {
        put_whole(out, lo, hi - 1);
        buf_puts(out, "(\".\" [0-9]{1,20})? | ");
    }
    buf_printf(out, "\"%" PRId64 "\" ) ", hi);
}

void schema_range(struct buf *out, int64_t lo, int64_t hi, bool whole)
{
    buf_puts(out, "( ");
    if (lo < 0) {
        const int64_t least = hi < 0 ? -hi : !whole ? 0 : 1;
        buf_puts(out, "\"-\" ");
        put_side(out, least, -lo, whole);
        buf_puts(out, hi >= 0 ? "| " : "");
    }
    if (hi >= 0)
        put_side(out, lo > 0 ? lo : 0, hi, whole);
    buf_puts(out, ") ");
}
