/* GBNF: see gbnf.h. A part of a rule becomes a fragment, from its first place to a last one that is
 * a fork both ways of which lead to whatever comes behind. A repeated part is read again for each
 * copy. */
#include "text/gbnf.h"

#include <string.h>

#include "base/utf8.h"
#include "text/charset.h"

struct reader {
    struct rules *r;
    const char *text, *where;
    size_t at, len;
    bool own;
    int depth;
    struct err *e;
};

struct fragment {
    int32_t first, last;
};

static int read_choice(struct reader *g, struct fragment *out);

static int wrong(const struct reader *g, const char *what)
{
    int line = 1, column = 1;
    for (size_t i = 0; i < g->at && i < g->len; i++) {
        column = g->text[i] == '\n' ? 1 : column + 1;
        line += g->text[i] == '\n';
    }
    return ERR(g->e, E_FORMAT, "%s: line %d, column %d: %s", g->where, line, column, what);
}

static char peek(const struct reader *g)
{
    return g->at < g->len ? g->text[g->at] : '\0';
}

static void skip(struct reader *g)
{
    while (g->at < g->len) {
        if (peek(g) == '#')
            while (g->at < g->len && peek(g) != '\n')
                g->at++;
        else if (strchr(" \t\r\n", peek(g)) && peek(g))
            g->at++;
        else
            return;
    }
}

static bool is_name(const struct reader *g, char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || (c == '.' && g->own);
}

static size_t name_length(const struct reader *g)
{
    size_t n = 0;
    while (g->at + n < g->len && is_name(g, g->text[g->at + n]))
        n++;
    return n;
}

/* Whether a name and ::= stand here. */
static bool rule_begins(const struct reader *g)
{
    struct reader ahead = *g;
    size_t n = name_length(g);
    if (!n)
        return false;
    ahead.at += n;
    skip(&ahead);
    return ahead.len - ahead.at >= 3 && memcmp(ahead.text + ahead.at, "::=", 3) == 0;
}

/* --- fragments --- */

static int32_t place(struct reader *g, struct place p)
{
    return rules_place(g->r, p, g->e);
}

static int32_t join(struct reader *g)
{
    return place(g, (struct place){.kind = PLACE_FORK, .next = -1, .other = -1});
}

static void lead(struct reader *g, int32_t last, int32_t to)
{
    g->r->places[last].next = g->r->places[last].other = to;
}

static int empty(struct reader *g, struct fragment *out)
{
    out->first = out->last = join(g);
    return out->first < 0 ? -g->e->code : 0;
}

static int append(struct reader *g, struct fragment *to, struct fragment more)
{
    (void)g;
    lead(g, to->last, more.first);
    to->last = more.last;
    return 0;
}

/* One of two. */
static int fork_to(struct reader *g, struct fragment *a, struct fragment b)
{
    int32_t first =
        place(g, (struct place){.kind = PLACE_FORK, .next = a->first, .other = b.first});
    int32_t last = join(g);
    if (first < 0 || last < 0)
        return -g->e->code;
    lead(g, a->last, last);
    lead(g, b.last, last);
    *a = (struct fragment){first, last};
    return 0;
}

/* The fragment, or nothing; again: any number of times. */
static int optional(struct reader *g, struct fragment *f, bool again)
{
    int32_t last = join(g);
    int32_t first = place(g, (struct place){.kind = PLACE_FORK, .next = f->first, .other = last});
    if (first < 0 || last < 0)
        return -g->e->code;
    lead(g, f->last, again ? first : last);
    *f = (struct fragment){first, last};
    return 0;
}

/* A byte sequence, each of a range. */
static int bytes(struct reader *g, const uint8_t *low, const uint8_t *high, int n,
                 struct fragment *out)
{
    int32_t last = join(g), next = last;
    for (int i = n - 1; i >= 0 && next >= 0; i--)
        next = place(
            g, (struct place){.kind = PLACE_BYTES, .low = low[i], .high = high[i], .next = next});
    *out = (struct fragment){next, last};
    return next < 0 || last < 0 ? -g->e->code : 0;
}

/* --- characters --- */

static int hex(struct reader *g, int digits, uint32_t *cp)
{
    *cp = 0;
    for (int i = 0; i < digits; i++) {
        char c = peek(g);
        int v = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (v < 0)
            return wrong(g, "not a hexadecimal digit");
        *cp = *cp << 4 | (uint32_t)v;
        g->at++;
    }
    if (*cp > 0x10FFFF || (*cp >= 0xD800 && *cp < 0xE000))
        return wrong(g, "not a character of Unicode");
    return 0;
}

static int character(struct reader *g, uint32_t *cp)
{
    static const char escapes[] = "n\nt\tr\r\"\"\\\\[[]]--^^";
    int n = utf8_decode(g->text + g->at, g->len - g->at, cp);
    if (!n)
        return wrong(g, "not UTF-8");
    g->at += (size_t)n;
    if (*cp != '\\')
        return 0;
    char c = peek(g);
    g->at++;
    if (c == 'x')
        return hex(g, 2, cp);
    if (c == 'u')
        return hex(g, 4, cp);
    if (c == 'U')
        return hex(g, 8, cp);
    for (const char *p = escapes; *p; p += 2)
        if (*p == c) {
            *cp = (unsigned char)p[1];
            return 0;
        }
    g->at--;
    return wrong(g, "no such escape: want \\n \\t \\r \\\" \\\\ \\[ \\] \\- \\^ \\xHH \\uHHHH or "
                    "\\UHHHHHHHH");
}

static int read_literal(struct reader *g, struct fragment *out)
{
    if (empty(g, out))
        return -g->e->code;
    g->at++;
    while (peek(g) != '"') {
        struct fragment f = {-1, -1};
        uint32_t cp = 0;
        char s[4];
        if (g->at >= g->len)
            return wrong(g, "the text in quotes does not end");
        if (character(g, &cp))
            return -g->e->code;
        int n = utf8_put(cp, s);
        if (bytes(g, (uint8_t *)s, (uint8_t *)s, n, &f) || append(g, out, f))
            return -g->e->code;
    }
    g->at++;
    return 0;
}

struct sink {
    struct reader *g;
    struct fragment *out;
    bool any;
};

static int add_range(void *ctx, const uint8_t *low, const uint8_t *high, int n)
{
    struct sink *s = ctx;
    struct fragment f = {-1, -1};
    if (bytes(s->g, low, high, n, &f))
        return -1;
    if (!s->any)
        *s->out = f;
    else if (fork_to(s->g, s->out, f))
        return -1;
    s->any = true;
    return 0;
}

static int put_set(struct reader *g, struct charset *set, struct fragment *out)
{
    struct sink sink = {.g = g, .out = out};
    charset_each(set, add_range, &sink);
    if (g->e->code)
        return -g->e->code;
    return sink.any ? 0 : wrong(g, "no character is in this set");
}

static int read_set(struct reader *g, struct fragment *out)
{
    struct charset set = {0};
    g->at++;
    bool negated = peek(g) == '^';
    g->at += negated;
    while (peek(g) != ']') {
        uint32_t low = 0, high = 0;
        if (g->at >= g->len)
            return wrong(g, "the set in brackets does not end");
        if (character(g, &low))
            return -g->e->code;
        high = low;
        if (peek(g) == '-' && g->at + 1 < g->len && g->text[g->at + 1] != ']') {
            g->at++;
            if (character(g, &high))
                return -g->e->code;
        }
        if (high < low)
            return wrong(g, "the range ends before it begins");
        if (!charset_add(&set, low, high))
            return wrong(g, "too many ranges in a set");
    }
    g->at++;
    charset_finish(&set, negated);
    return put_set(g, &set, out);
}

/* --- rules --- */

static int read_call(struct reader *g, struct fragment *out)
{
    size_t n = name_length(g);
    int32_t rule = rules_name(g->r, g->text + g->at, n, g->e), last = join(g), first = -1;
    g->at += n;
    if (rule >= 0 && last >= 0)
        first = place(g, (struct place){.kind = PLACE_CALL, .next = last, .other = rule});
    *out = (struct fragment){first, last};
    return first < 0 ? -g->e->code : 0;
}

static int read_one(struct reader *g, struct fragment *out)
{
    char c = peek(g);
    if (c == '"')
        return read_literal(g, out);
    if (c == '[')
        return read_set(g, out);
    if (c == '.') {
        struct charset any = {0};
        g->at++;
        charset_finish(&any, true);
        return put_set(g, &any, out);
    }
    if (is_name(g, c))
        return read_call(g, out);
    if (c != '(')
        return wrong(g, "want a name, \"text\", [a set], . or (");
    if (++g->depth > GBNF_DEPTH_MAX)
        return wrong(g, "parentheses are too deep");
    g->at++;
    if (read_choice(g, out))
        return -g->e->code;
    if (peek(g) != ')')
        return wrong(g, "want )");
    g->at++;
    g->depth--;
    return 0;
}

static int number(struct reader *g, int *out)
{
    int n = 0, digits = 0;
    for (; peek(g) >= '0' && peek(g) <= '9' && n <= GBNF_REPEAT_MAX; digits++)
        n = 10 * n + (g->text[g->at++] - '0');
    if (!digits || n > GBNF_REPEAT_MAX)
        return wrong(g, "want a number of repetitions up to 10000");
    *out = n;
    return 0;
}

/* What stands behind an item: least and most times, most -1 for any number. */
static int read_times(struct reader *g, int *least, int *most)
{
    char c = peek(g);
    *least = c == '*' || c == '?' ? 0 : 1;
    *most = c == '*' || c == '+' ? -1 : 1;
    if (c == '*' || c == '+' || c == '?')
        g->at++;
    if (c != '{')
        return 0;
    g->at++;
    if (number(g, least))
        return -g->e->code;
    *most = *least;
    if (peek(g) == ',') {
        g->at++;
        *most = -1;
        if (peek(g) != '}' && number(g, most))
            return -g->e->code;
    }
    if (peek(g) != '}')
        return wrong(g, "want }");
    if (*most >= 0 && *most < *least)
        return wrong(g, "the most is less than the least");
    g->at++;
    return 0;
}

/* A part that is repeated: where it begins, and its first copy until that is used. */
struct item {
    size_t from;
    struct fragment first;
    bool used;
};

/* One more copy. The first is not read twice: parts nest, and each level would double the work. */
static int take(struct reader *g, struct item *item, struct fragment *out)
{
    const size_t at = g->at;
    int rc = 0;
    if (!item->used) {
        *out = item->first;
    } else {
        g->at = item->from;
        rc = read_one(g, out);
        g->at = at;
    }
    item->used = true;
    return rc;
}

static int read_item(struct reader *g, struct fragment *out)
{
    struct item item = {.from = g->at};
    struct fragment f = {-1, -1}, rest = f;
    int least, most;
    if (read_one(g, &item.first) || read_times(g, &least, &most) || empty(g, out))
        return -g->e->code;
    for (int i = 0; i < least; i++)
        if (take(g, &item, &f) || append(g, out, f))
            return -g->e->code;
    if (most < 0)
        return take(g, &item, &f) || optional(g, &f, true) ? -g->e->code : append(g, out, f);
    if (most == least)
        return 0;
    if (empty(g, &rest))
        return -g->e->code;
    for (int i = least; i < most; i++) { /* from the inside: x (x (x)?)? */
        if (take(g, &item, &f) || append(g, &f, rest) || optional(g, &f, false))
            return -g->e->code;
        rest = f;
    }
    return append(g, out, rest);
}

static int read_sequence(struct reader *g, struct fragment *out)
{
    if (empty(g, out))
        return -g->e->code;
    for (skip(g); g->at < g->len && peek(g) != '|' && peek(g) != ')' && !rule_begins(g); skip(g)) {
        struct fragment f = {-1, -1};
        if (read_item(g, &f) || append(g, out, f))
            return -g->e->code;
    }
    return 0;
}

static int read_choice(struct reader *g, struct fragment *out)
{
    if (read_sequence(g, out))
        return -g->e->code;
    while (peek(g) == '|') {
        struct fragment f = {-1, -1};
        g->at++;
        if (read_sequence(g, &f) || fork_to(g, out, f))
            return -g->e->code;
    }
    return 0;
}

static int read_rule(struct reader *g)
{
    struct fragment f = {-1, -1};
    if (!rule_begins(g))
        return wrong(g, "want a rule: name ::= ...");
    size_t n = name_length(g);
    int32_t rule = rules_name(g->r, g->text + g->at, n, g->e);
    if (rule < 0)
        return -g->e->code;
    if (g->r->rules[rule].start >= 0)
        return wrong(g, "this rule was defined before");
    g->at += n;
    skip(g);
    g->at += 3;
    if (read_choice(g, &f))
        return -g->e->code;
    if (g->at < g->len && !rule_begins(g))
        return wrong(g, "want an item, |, or the next rule");
    int32_t end = place(g, (struct place){.kind = PLACE_END, .next = -1, .other = -1});
    if (end < 0)
        return -g->e->code;
    lead(g, f.last, end);
    g->r->rules[rule].start = f.first;
    return 0;
}

/* Past forks that only lead on, so that a call which ends its rule is seen to. */
static int32_t past(const struct rules *r, int32_t to)
{
    for (int32_t left = r->n_places; to >= 0 && left; left--) {
        const struct place *p = &r->places[to];
        if (p->kind != PLACE_FORK || p->next != p->other)
            break;
        to = p->next;
    }
    return to;
}

int gbnf_add(struct rules *r, const char *text, size_t len, bool own, const char *where,
             struct err *e)
{
    struct reader g = {.r = r, .text = text, .where = where, .len = len, .own = own, .e = e};
    int32_t from = r->n_places;
    if (len > GBNF_BYTES_MAX)
        return ERR(e, E_LIMIT, "%s: %zu bytes, at most %d are read", where, len, GBNF_BYTES_MAX);
    for (skip(&g); g.at < g.len; skip(&g))
        if (read_rule(&g))
            return -e->code;
    for (int32_t i = r->n_places - 1; i >= from; i--) {
        struct place *p = &r->places[i];
        p->next = past(r, p->next);
        if (p->kind == PLACE_FORK)
            p->other = past(r, p->other);
    }
    return 0;
}
