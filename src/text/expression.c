/* Oniguruma to PCRE2: see expression.h. One pass from left to right: each construct is written out
 * in a form that PCRE2 reads as Oniguruma reads the original, or refused. */
#include "text/expression.h"

#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"
#include "text/unicode.h"

enum { DEPTH_MAX = 64 };

struct rewrite {
    const char *s;
    size_t n, at; /* the next byte to read */
    const char *where;
    struct buf *out;
    struct err *e;
    bool caseless[DEPTH_MAX]; /* by depth of groups; [0] is outside all */
    int depth;
    bool can_repeat; /* what was just written is an atom, so that a quantifier may follow */
    uint32_t before; /* the literal just written, 0 if it was something else */
};

/* One character or one set, as read from the expression. */
struct atom {
    bool is_set;
    uint32_t cp;        /* of a character */
    const char *inside; /* a set by a fixed text, inside a class */
    char category[3];   /* or by its general category */
    bool negated;
};

static int rewrite_element(struct rewrite *r);

int expression_rewrite(const char *s, size_t n, const char *where, struct buf *out, struct err *e)
{
    struct rewrite r = {.s = s, .n = n, .where = where, .out = out, .e = e};
    if (n >= 4 && memcmp(s, "(?i)", 4) == 0) {
        r.caseless[0] = true;
        r.at = 4;
        buf_puts(out, "(?i)");
    }
    while (r.at < n) {
        int rc = rewrite_element(&r);
        if (rc)
            return rc;
    }
    if (r.depth)
        return ERR(e, E_FORMAT, "%s: expression ends inside %d open group%s; a ) is missing", where,
                   r.depth, r.depth == 1 ? "" : "s");
    return buf_check(out, e);
}

static int refuse(struct rewrite *r, size_t at, size_t n, const char *why)
{
    n = utf8_valid_prefix(r->s + at, at + n > r->n ? r->n - at : n);
    return ERR(r->e, E_UNSUPPORTED,
               "%s: expression, byte %zu: '%.*s' is not supported: %s; the text would be split "
               "otherwise than the model was trained with",
               r->where, at, (int)n, r->s + at, why);
}

static int broken(struct rewrite *r, size_t at, const char *why)
{
    return ERR(r->e, E_FORMAT, "%s: expression, byte %zu: %s", r->where, at, why);
}

static bool starts(const struct rewrite *r, const char *word)
{
    size_t n = strlen(word);
    return r->n - r->at >= n && memcmp(r->s + r->at, word, n) == 0;
}

static bool is_punctuation(uint32_t c)
{
    return c < 0x80 && c && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)c);
}

/* A character on its own, whatever it means to PCRE2. */
static void put_literal(struct buf *out, uint32_t cp)
{
    char s[4];
    if (cp < 0x20 || cp == 0x7F) {
        buf_printf(out, "\\x{%x}", cp);
        return;
    }
    if (is_punctuation(cp))
        buf_putc(out, '\\');
    buf_add(out, s, (size_t)utf8_put(cp, s));
}

static void put_inside(struct buf *out, const struct atom *a)
{
    if (!a->is_set) {
        put_literal(out, a->cp);
    } else if (a->inside) {
        buf_puts(out, a->inside);
    } else {
        buf_printf(out, "\\p{%s}", a->category);
        unicode_late_put(a->category, out);
    }
}

static int hex_digits(struct rewrite *r, size_t lo, size_t hi, uint32_t *cp)
{
    size_t n = 0;
    *cp = 0;
    for (; n < hi && r->at < r->n; n++, r->at++) {
        const char *digits = "0123456789abcdef";
        char c = r->s[r->at];
        const char *d = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
        if (!d)
            break;
        *cp = *cp << 4 | (uint32_t)(d - digits);
    }
    if (n < lo)
        return broken(r, r->at, "a hexadecimal digit is missing");
    if (*cp > 0x10FFFF || (*cp >= 0xD800 && *cp <= 0xDFFF))
        return broken(r, r->at, "this number is no code point");
    return 0;
}

/* Behind \p or \P: {Category}. */
static int read_category(struct rewrite *r, size_t from, struct atom *a)
{
    static const char known[] = " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po "
                                "S Sm Sc Sk So Z Zs Zl Zp ";
    const char *open = r->s + r->at;
    const char *close = r->at < r->n ? memchr(open, '}', r->n - r->at) : NULL;
    if (!close || *open != '{')
        return refuse(r, from, 4, "a property has braces");
    size_t n = (size_t)(close - open) - 1;
    char word[5] = " ";
    if (n == 1 || n == 2) {
        memcpy(word + 1, open + 1, n);
        word[n + 1] = ' ';
    }
    r->at += n + 2;
    if (strlen(word) != n + 2 || word[1] == ' ' || !strstr(known, word))
        return refuse(r, from, n + 4, "only general categories are, not scripts or other names");
    if (r->caseless[r->depth] && n == 2 && strstr(" Lu Ll Lt ", word))
        return refuse(r, from, n + 4, "letters of one case within (?i)");
    memcpy(a->category, open + 1, n);
    a->is_set = true;
    return 0;
}

/* What a backslash means. */
static int read_escape(struct rewrite *r, struct atom *a)
{
    static const struct {
        char letter;
        char cp;
    } controls[] = {{'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'f', '\f'}, {'v', '\v'}};
    size_t from = r->at++;
    if (r->at >= r->n)
        return broken(r, from, "it ends with a backslash");
    char c = r->s[r->at++];
    for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++)
        if (controls[i].letter == c) {
            a->cp = (uint32_t)controls[i].cp;
            return 0;
        }
    a->negated = c == 'S' || c == 'D' || c == 'P';
    switch (c) {
    case 's':
    case 'S':
        a->is_set = true;
        a->inside = UNICODE_WHITE_CLASS;
        return 0;
    case 'd':
    case 'D':
        a->is_set = true;
        memcpy(a->category, "Nd", 3);
        return 0;
    case 'p':
    case 'P':
        return read_category(r, from, a);
    case 'u':
        return hex_digits(r, 4, 4, &a->cp);
    case 'x': {
        bool brace = r->at < r->n && r->s[r->at] == '{';
        r->at += brace;
        int rc = hex_digits(r, brace ? 1 : 2, brace ? 6 : 2, &a->cp);
        if (rc)
            return rc;
        if (!brace && a->cp >= 0x80)
            return refuse(r, from, 4, "it names a byte, not a character");
        if (brace && (r->at >= r->n || r->s[r->at++] != '}'))
            return broken(r, from, "\\x{ has no }");
        return 0;
    }
    default:
        if (!is_punctuation((unsigned char)c) && c != ' ')
            return refuse(r, from, 2, "this escape has no agreed meaning");
        a->cp = (unsigned char)c;
        return 0;
    }
}

static uint32_t read_character(struct rewrite *r)
{
    uint32_t cp = 0;
    r->at += (size_t)utf8_decode(r->s + r->at, r->n - r->at, &cp);
    return cp;
}

/* Under (?i): is this a literal whose case folding is one ASCII letter for one? */
static int check_caseless(struct rewrite *r, size_t from, uint32_t cp)
{
    static const char *const several[] = {"ss", "ff", "fi", "fl", "st"};
    if (!r->caseless[r->depth])
        return 0;
    if (cp >= 0x80)
        return refuse(r, from, r->at - from, "a character outside ASCII within (?i)");
    for (size_t i = 0; i < sizeof several / sizeof several[0]; i++)
        if ((r->before | 0x20) == (uint32_t)several[i][0] && (cp | 0x20) == (uint32_t)several[i][1])
            return refuse(r, from, 1,
                          "these two letters together within (?i) also match one character");
    return 0;
}

static int put_atom(struct rewrite *r, size_t from, const struct atom *a)
{
    r->can_repeat = true;
    if (a->is_set) {
        buf_puts(r->out, a->negated ? "[^" : "[");
        put_inside(r->out, a);
        buf_putc(r->out, ']');
        r->before = 0;
        return 0;
    }
    int rc = check_caseless(r, from, a->cp);
    put_literal(r->out, a->cp);
    r->before = a->cp;
    return rc;
}

/* One item of a class: a character, or a set. */
static int read_class_atom(struct rewrite *r, struct atom *a)
{
    size_t from = r->at;
    char c = r->s[from];
    *a = (struct atom){0};
    if (c == '[')
        return refuse(r, from, 8, "a class inside a class; a literal [ is written \\[");
    if (starts(r, "&&"))
        return refuse(r, from, 2, "an intersection of classes");
    if (c != '\\') {
        a->cp = read_character(r);
    } else {
        int rc = read_escape(r, a);
        if (rc)
            return rc;
        if (a->negated)
            return refuse(r, from, r->at - from, "a negated set inside a class");
    }
    r->before = 0;
    return a->is_set ? 0 : check_caseless(r, from, a->cp);
}

static int rewrite_class(struct rewrite *r)
{
    size_t from = r->at++;
    buf_putc(r->out, '[');
    if (starts(r, "^")) {
        buf_putc(r->out, '^');
        r->at++;
    }
    if (starts(r, "]"))
        return refuse(r, from, 3, "an empty class; a literal ] is written \\]");
    while (r->at < r->n && r->s[r->at] != ']') {
        struct atom a, b;
        int rc = read_class_atom(r, &a);
        if (rc)
            return rc;
        put_inside(r->out, &a);
        if (a.is_set || !starts(r, "-") || r->at + 1 >= r->n || r->s[r->at + 1] == ']')
            continue;
        size_t dash = r->at++;
        if ((rc = read_class_atom(r, &b)))
            return rc;
        if (b.is_set)
            return refuse(r, dash, 3, "a range that ends in a set");
        buf_putc(r->out, '-');
        put_inside(r->out, &b);
    }
    if (r->at >= r->n)
        return broken(r, from, "this class has no ]");
    r->at++;
    buf_putc(r->out, ']');
    r->can_repeat = true;
    r->before = 0;
    return 0;
}

static int rewrite_open(struct rewrite *r)
{
    static const struct {
        const char *onig, *pcre;
        bool caseless;
    } kinds[] = {{"(?:", "(?:", false}, {"(?i:", "(?i:", true},  {"(?=", "(?=", false},
                 {"(?!", "(?!", false}, {"(?<=", "(?<=", false}, {"(?<!", "(?<!", false},
                 {"(?>", "(?>", false}};
    const char *put = NULL;
    bool caseless = r->caseless[r->depth];
    if (r->depth + 1 >= DEPTH_MAX)
        return refuse(r, r->at, 1, "groups are nested too deeply");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !put; i++)
        if (starts(r, kinds[i].onig)) {
            put = kinds[i].pcre;
            caseless |= kinds[i].caseless;
            r->at += strlen(put);
        }
    if (!put && (starts(r, "(?") || starts(r, "(*")))
        return refuse(r, r->at, 4, "a group of this kind");
    if (!put) {
        put = "(?:";
        r->at++;
    }
    buf_puts(r->out, put);
    r->caseless[++r->depth] = caseless;
    r->can_repeat = false;
    r->before = 0;
    return 0;
}

static size_t digits_at(const struct rewrite *r, size_t at)
{
    size_t n = 0;
    while (at + n < r->n && r->s[at + n] >= '0' && r->s[at + n] <= '9')
        n++;
    return n;
}

/* {n} {n,} {n,m} {,m}, and lazily {n,}? {n,m}? */
static int rewrite_interval(struct rewrite *r)
{
    size_t from = r->at, at = from + 1;
    size_t low = digits_at(r, at);
    at += low;
    bool comma = at < r->n && r->s[at] == ',';
    size_t high = comma ? digits_at(r, at + 1) : 0;
    at += comma ? 1 + high : 0;
    if (at >= r->n || r->s[at] != '}' || low + high == 0)
        return refuse(r, from, 1, "a brace that opens no interval; a literal { is written \\{");
    buf_putc(r->out, '{');
    if (!low)
        buf_putc(r->out, '0');
    buf_add(r->out, r->s + from + 1, at - from);
    r->at = at + 1;
    if (starts(r, "+") || (!comma && starts(r, "?")))
        return refuse(r, from, r->at - from + 1, "this suffix means different things");
    if (starts(r, "?")) {
        buf_putc(r->out, '?');
        r->at++;
    }
    return 0;
}

static int rewrite_quantifier(struct rewrite *r)
{
    size_t from = r->at;
    if (!r->can_repeat)
        return broken(r, from, "there is nothing to repeat here");
    r->can_repeat = false;
    r->before = 0;
    if (r->s[from] == '{')
        return rewrite_interval(r);
    buf_putc(r->out, r->s[r->at++]);
    if (starts(r, "?") || starts(r, "+"))
        buf_putc(r->out, r->s[r->at++]);
    return 0;
}

static int rewrite_close(struct rewrite *r)
{
    if (!r->depth)
        return broken(r, r->at, "this ) closes nothing");
    buf_putc(r->out, ')');
    r->at++;
    r->depth--;
    r->can_repeat = true;
    r->before = 0;
    return 0;
}

static int rewrite_element(struct rewrite *r)
{
    size_t from = r->at;
    struct atom a = {0};
    int rc;
    switch (r->s[from]) {
    case '[':
        return rewrite_class(r);
    case '(':
        return rewrite_open(r);
    case ')':
        return rewrite_close(r);
    case '*':
    case '+':
    case '?':
    case '{':
        return rewrite_quantifier(r);
    case '^':
    case '$':
        return refuse(r, from, 1, "line anchors");
    case '|':
        buf_putc(r->out, '|');
        r->at++;
        r->can_repeat = false;
        r->before = 0;
        return 0;
    case '.':
        buf_puts(r->out, "[^\\n]");
        r->at++;
        r->can_repeat = true;
        r->before = 0;
        return 0;
    case '\\':
        rc = read_escape(r, &a);
        return rc ? rc : put_atom(r, from, &a);
    default:
        a.cp = read_character(r);
        return put_atom(r, from, &a);
    }
}
