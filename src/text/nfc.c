/* Form C: see nfc.h. Text is cut before characters that cannot combine with what precedes them, so
 * that each run between two cuts is normalised alone: decomposed, its marks sorted by class (a
 * counting sort; utf8proc's own is quadratic in the length of a run), composed. */
#include "text/nfc.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <utf8proc.h>

#include "base/mem.h"
#include "base/utf8.h"

enum {
    DECOMPOSED_MAX = 18, /* most code points that one decomposes to (U+FDFA, by compatibility) */
    N_CLASSES = 256,
    LOW_PLAIN = 0x300, /* below this every character is plain */
};

/* Plain characters: class 0, unchanged by form C, never the second of a composition. All of them
 * assigned, so that no later Unicode changes this. A test asks utf8proc about each. */
static const struct {
    uint32_t lo, hi;
} plain[] = {
    {0x38E, 0x3A1},     {0x3A3, 0x482},     {0x48A, 0x52F},    {0x531, 0x556},   {0x5D0, 0x5EA},
    {0x620, 0x64A},     {0x660, 0x66F},     {0x671, 0x6D5},    {0x900, 0x93B},   {0x93D, 0x94C},
    {0x960, 0x983},     {0x993, 0x9A8},     {0xC12, 0xC28},    {0xC2A, 0xC39},   {0xE01, 0xE37},
    {0xE4C, 0xE5B},     {0x1000, 0x102D},   {0x103B, 0x108C},  {0x10D0, 0x10FF}, {0x1780, 0x17D1},
    {0x1E00, 0x1F15},   {0x2002, 0x2064},   {0x20A0, 0x20C0},  {0x2190, 0x2328}, {0x232B, 0x2426},
    {0x2460, 0x2ADB},   {0x2ADD, 0x2B73},   {0x3000, 0x3029},  {0x3030, 0x303F}, {0x3041, 0x3096},
    {0x309B, 0x30FF},   {0x3220, 0xA48C},   {0xAC00, 0xD7A3},  {0xFF01, 0xFFBE}, {0x1D400, 0x1D454},
    {0x1F300, 0x1F6D7}, {0x1F900, 0x1FA53}, {0x20000, 0x2A6DF}};

/* Code points of a run, with room for its decomposition; kept from run to run. */
struct points {
    int32_t *at;
    size_t n, cap;
};

static int put_run(const char *s, size_t n, struct points *p, struct buf *out, struct err *e);

static bool is_plain(uint32_t cp)
{
    size_t lo = 0, hi = sizeof plain / sizeof plain[0];
    if (cp < LOW_PLAIN)
        return true;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (plain[mid].hi < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < sizeof plain / sizeof plain[0] && cp >= plain[lo].lo;
}

/* The length of the plain characters at the start of s; *last is where the last of them starts. */
static size_t plain_prefix(const char *s, size_t n, size_t *last)
{
    size_t i = 0;
    *last = 0;
    while (i < n) {
        uint32_t cp = (unsigned char)s[i];
        int k = cp < 0x80 ? 1 : utf8_decode(s + i, n - i, &cp);
        if (!is_plain(cp))
            break;
        *last = i;
        i += (size_t)k;
    }
    return i;
}

/* The length of the characters at the start of s that are not plain. */
static size_t other_prefix(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint32_t cp = 0;
        int k = utf8_decode(s + i, n - i, &cp);
        if (is_plain(cp))
            break;
        i += (size_t)k;
    }
    return i;
}

bool nfc_is_normal(const char *s, size_t n)
{
    size_t last;
    return plain_prefix(s, n, &last) == n;
}

int nfc_put(const char *s, size_t n, struct buf *out, struct err *e)
{
    struct points p = {0};
    int rc = 0;
    for (size_t i = 0; i < n && !rc;) {
        size_t last, same = plain_prefix(s + i, n - i, &last);
        if (i + same < n)
            same = last; /* what follows may combine with the last plain one */
        buf_add(out, s + i, same);
        i += same;
        if (i == n)
            break;
        uint32_t cp = 0;
        size_t run = (size_t)utf8_decode(s + i, n - i, &cp);
        run += other_prefix(s + i + run, n - i - run);
        rc = put_run(s + i, run, &p, out, e);
        i += run;
    }
    mem_free(p.at);
    return rc ? rc : buf_check(out, e);
}

static int points_reserve(struct points *p, size_t n, struct err *e)
{
    if (n <= p->cap)
        return 0;
    size_t cap = n + n / 2;
    int32_t *at = cap < SIZE_MAX / 2 / sizeof *at ? mem_realloc(p->at, cap * sizeof *at) : NULL;
    if (!at)
        return ERR(e, E_NOMEM, "out of memory while normalising text");
    p->at = at;
    p->cap = cap;
    return 0;
}

static int class_of(int32_t cp)
{
    return utf8proc_get_property(cp)->combining_class & (N_CLASSES - 1);
}

/* Sorts n marks by class, equal classes in the order they have. room: n code points. */
static void sort_marks(int32_t *at, size_t n, int32_t *room)
{
    size_t start[N_CLASSES + 1] = {0};
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++)
        sorted = class_of(at[i - 1]) <= class_of(at[i]);
    if (sorted)
        return;
    for (size_t i = 0; i < n; i++)
        start[class_of(at[i]) + 1]++;
    for (int c = 1; c <= N_CLASSES; c++)
        start[c] += start[c - 1];
    for (size_t i = 0; i < n; i++)
        room[start[class_of(at[i])]++] = at[i];
    memcpy(at, room, n * sizeof *at);
}

static int decompose(const char *s, size_t n, struct points *p, struct err *e)
{
    p->n = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        int bound = 0;
        int rc = points_reserve(p, p->n + DECOMPOSED_MAX, e);
        if (rc)
            return rc;
        i += (size_t)utf8_decode(s + i, n - i, &cp);
        p->n += (size_t)utf8proc_decompose_char((int32_t)cp, p->at + p->n, DECOMPOSED_MAX,
                                                UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &bound);
    }
    return points_reserve(p, 2 * p->n, e);
}

static int put_run(const char *s, size_t n, struct points *p, struct buf *out, struct err *e)
{
    int rc = decompose(s, n, p, e);
    if (rc)
        return rc;
    assert(p->at); /* a run is never empty */
    for (size_t i = 0; i < p->n;) {
        size_t k = 1;
        if (class_of(p->at[i]))
            while (i + k < p->n && class_of(p->at[i + k]))
                k++;
        sort_marks(p->at + i, k, p->at + p->n);
        i += k;
    }
    p->n = (size_t)utf8proc_normalize_utf32(p->at, (utf8proc_ssize_t)p->n,
                                            UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    char *to = buf_reserve(out, p->n * 4);
    for (size_t i = 0; to && i < p->n; i++)
        out->len += (size_t)utf8_put((uint32_t)p->at[i], out->data + out->len);
    if (to)
        out->data[out->len] = '\0';
    return buf_check(out, e);
}
