/* Template text to tokens: text outside tags, and what is inside {{ }}, {% %}; {# #} is dropped.
 *
 * Whitespace control is done here, as Jinja2 does it with trim_blocks and lstrip_blocks on: "-"
 * next to a tag takes all blanks on that side; without a sign, a newline behind {% %} and {# #}
 * goes, and so do blanks between the start of a line and {% or {#; "+" keeps them. One newline
 * at the end of the source is dropped. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/template_ast.h"
#include "text/template_text.h"

struct lexer {
    struct compile *c;
    struct text src; /* newlines are LF */
    size_t at;
    size_t line_at; /* where `line` was counted up to */
    int line;
    bool line_start;            /* the last tag ended with a newline, or there was none yet */
    char open[PARSE_DEPTH_MAX]; /* closing brackets awaited inside the tag */
    int n_open;
};

static int lex_root(struct lexer *l);
static int lex_tag(struct lexer *l, bool print);
static int lex_comment(struct lexer *l);
static int lex_raw(struct lexer *l, size_t body);
static int lex_number(struct lexer *l);
static int lex_string(struct lexer *l);
static int lex_operator(struct lexer *l);
static size_t raw_begin(const struct lexer *l, size_t at);

/* The line of byte offset `at`; offsets never go back. */
static int line_of(struct lexer *l, size_t at)
{
    for (; l->line_at < at; l->line_at++)
        l->line += l->src.p[l->line_at] == '\n';
    return l->line;
}

static int push(struct lexer *l, enum token_type type, size_t from, size_t to)
{
    struct compile *c = l->c;
    if (c->n_tokens == c->cap_tokens) {
        size_t cap = c->cap_tokens ? c->cap_tokens * 2 : 256;
        struct token *t = mem_realloc(c->tokens, cap * sizeof *t);
        if (!t)
            return ERR(c->e, E_NOMEM, "%s: out of memory after %zu tokens", c->name, c->n_tokens);
        c->tokens = t;
        c->cap_tokens = cap;
    }
    c->tokens[c->n_tokens++] =
        (struct token){.type = type, .line = line_of(l, from), .text = text_sub(l->src, from, to)};
    return 0;
}

static bool starts(const struct lexer *l, size_t at, const char *s)
{
    size_t n = strlen(s);
    return at <= l->src.len && l->src.len - at >= n && memcmp(l->src.p + at, s, n) == 0;
}

static size_t skip_space(const struct lexer *l, size_t at)
{
    while (at < l->src.len) {
        int n;
        if (!char_is_space(text_char(l->src.p + at, l->src.p + l->src.len, &n)))
            break;
        at += (size_t)n;
    }
    return at;
}

/* The source with LF newlines and without one at its end, in the arena. */
static int normalise(struct compile *c, struct text source, struct text *out)
{
    char *to = compile_alloc(c, source.len + 1, 1);
    size_t n = 0;
    if (!to)
        return -E_NOMEM;
    for (size_t i = 0; i < source.len; i++) {
        if (source.p[i] == '\r') {
            to[n++] = '\n';
            i += i + 1 < source.len && source.p[i + 1] == '\n';
        } else {
            to[n++] = source.p[i];
        }
    }
    if (n && to[n - 1] == '\n')
        n--;
    *out = (struct text){to, n};
    return 0;
}

int template_lex(struct compile *c, struct text source)
{
    struct lexer l = {.c = c, .line = 1, .line_start = true};
    int rc = normalise(c, source, &l.src);
    while (!rc && l.at < l.src.len)
        rc = lex_root(&l);
    return rc ? rc : push(&l, T_END, l.src.len, l.src.len);
}

/* The text in front of a tag that starts at `tag` with `sign` ('-', '+' or another character),
 * after whitespace control. */
static int push_data(struct lexer *l, size_t tag, char sign, bool print)
{
    struct text t = text_sub(l->src, l->at, tag);
    if (sign == '-') {
        t = text_strip(t, NULL, STRIP_RIGHT);
    } else if (sign != '+' && !print) {
        size_t line = t.len;
        while (line && t.p[line - 1] != '\n')
            line--;
        if (line < t.len && (line > 0 || l->line_start) &&
            skip_space(l, l->at + line) >= l->at + t.len)
            t.len = line;
    }
    return t.len ? push(l, T_DATA, l->at, l->at + t.len) : 0;
}

/* Text up to the next tag, and the tag. */
static int lex_root(struct lexer *l)
{
    size_t at = l->at;
    while (at < l->src.len && !(starts(l, at, "{{") || starts(l, at, "{%") || starts(l, at, "{#")))
        at++;
    if (at >= l->src.len) {
        int rc = push(l, T_DATA, l->at, l->src.len);
        l->at = l->src.len;
        return rc;
    }
    char what = l->src.p[at + 1];
    char sign = at + 2 < l->src.len ? l->src.p[at + 2] : 0;
    int rc = push_data(l, at, sign, what == '{');
    if (rc)
        return rc;
    size_t inner = at + 2 + (sign == '-' || sign == '+');
    size_t raw = what == '%' ? raw_begin(l, inner) : 0;
    l->at = inner;
    if (what == '#')
        return lex_comment(l);
    if (raw)
        return lex_raw(l, raw);
    rc = push(l, what == '{' ? T_PRINT_OPEN : T_TAG_OPEN, at, inner);
    return rc ? rc : lex_tag(l, what == '{');
}

/* Goes past the end of a tag, "%}" or "#}" or "}}" at `at`, with the blanks that `sign` takes. */
static void pass_end(struct lexer *l, size_t at, char sign, bool trim)
{
    l->at = at + 2;
    if (sign == '-')
        l->at = skip_space(l, l->at);
    else if (sign != '+' && trim && starts(l, l->at, "\n"))
        l->at++;
    l->line_start = l->src.p[l->at - 1] == '\n';
}

static int lex_comment(struct lexer *l)
{
    size_t at = l->at;
    while (at < l->src.len && !starts(l, at, "#}"))
        at++;
    if (at >= l->src.len)
        return compile_fail(l->c, E_FORMAT, line_of(l, l->at), "a comment {# has no end #}");
    char before = at > l->at ? l->src.p[at - 1] : 0;
    pass_end(l, at, before, true);
    return 0;
}

/* If a raw block starts at `at` (behind "{%" and its sign): where its text starts; else 0. */
static size_t raw_begin(const struct lexer *l, size_t at)
{
    at = skip_space(l, at);
    if (!starts(l, at, "raw"))
        return 0;
    at = skip_space(l, at + 3);
    if (starts(l, at, "-%}"))
        return skip_space(l, at + 3);
    return starts(l, at, "%}") ? at + 2 : 0;
}

/* If "{%" at `at` is an endraw tag: the offset of its "%}", with signs of both ends; else 0. */
static size_t raw_end(const struct lexer *l, size_t at, char *left, char *right)
{
    at += 2;
    *left = *right = 0;
    if (starts(l, at, "-") || starts(l, at, "+"))
        *left = l->src.p[at++];
    at = skip_space(l, at);
    if (!starts(l, at, "endraw"))
        return 0;
    at = skip_space(l, at + 6);
    if (starts(l, at, "-") || starts(l, at, "+"))
        *right = l->src.p[at++];
    return starts(l, at, "%}") ? at : 0;
}

static int lex_raw(struct lexer *l, size_t body)
{
    l->line_start = l->src.p[body - 1] == '\n';
    l->at = body;
    for (size_t at = body; at < l->src.len; at++) {
        char left, right;
        size_t end = starts(l, at, "{%") ? raw_end(l, at, &left, &right) : 0;
        if (!end)
            continue;
        int rc = push_data(l, at, left, false);
        pass_end(l, end, right, true);
        return rc;
    }
    return compile_fail(l->c, E_FORMAT, line_of(l, body), "a raw block has no {%% endraw %%}");
}

/* If the tag ends at l->at, goes past its end and pushes the token. */
static int tag_end(struct lexer *l, bool print, bool *done)
{
    char sign = l->src.p[l->at];
    size_t at = l->at + (sign == '-' || (sign == '+' && !print));
    *done = l->n_open == 0 && starts(l, at, print ? "}}" : "%}");
    if (!*done)
        return 0;
    int rc = push(l, print ? T_PRINT_CLOSE : T_TAG_CLOSE, l->at, at + 2);
    pass_end(l, at, sign, !print);
    return rc;
}

static int lex_name(struct lexer *l)
{
    size_t from = l->at;
    while (l->at < l->src.len) {
        int n;
        if (!char_is_id_part(text_char(l->src.p + l->at, l->src.p + l->src.len, &n)))
            break;
        l->at += (size_t)n;
    }
    return push(l, T_NAME, from, l->at);
}

static int lex_tag(struct lexer *l, bool print)
{
    int rc = 0, open_line = line_of(l, l->at);
    l->n_open = 0;
    while (!rc) {
        bool done;
        int n;
        l->at = skip_space(l, l->at);
        if (l->at >= l->src.len)
            return compile_fail(l->c, E_FORMAT, open_line, "a tag %s has no end %s",
                                print ? "{{" : "{%", print ? "}}" : "%}");
        rc = tag_end(l, print, &done);
        if (rc || done)
            return rc;
        char ch = l->src.p[l->at];
        if (ch >= '0' && ch <= '9')
            rc = lex_number(l);
        else if (ch == '\'' || ch == '"')
            rc = lex_string(l);
        else if (char_is_id_start(text_char(l->src.p + l->at, l->src.p + l->src.len, &n)))
            rc = lex_name(l);
        else
            rc = lex_operator(l);
    }
    return rc;
}

/* The end of a run of digits with single underscores between them; one digit is at `at`. */
static size_t digits_end(const struct lexer *l, size_t at)
{
    size_t end = at;
    while (at < l->src.len) {
        char ch = l->src.p[at];
        if (ch >= '0' && ch <= '9')
            end = ++at;
        else if (ch == '_' && end == at)
            at++;
        else
            break;
    }
    return end;
}

static bool digit_at(const struct lexer *l, size_t at)
{
    return at < l->src.len && l->src.p[at] >= '0' && l->src.p[at] <= '9';
}

/* The end of a float at l->at, or l->at when none is there. */
static size_t float_end(const struct lexer *l)
{
    if (l->at > 0 && l->src.p[l->at - 1] == '.')
        return l->at;
    size_t end = digits_end(l, l->at), whole = end;
    if (starts(l, end, ".") && digit_at(l, end + 1))
        end = digits_end(l, end + 1);
    if (starts(l, end, "e") || starts(l, end, "E")) {
        size_t exp = end + 1;
        exp += starts(l, exp, "+") || starts(l, exp, "-");
        if (digit_at(l, exp))
            end = digits_end(l, exp);
    }
    return end == whole ? l->at : end;
}

/* The end of an integer at l->at and its base. */
static size_t integer_end(const struct lexer *l, int *base)
{
    static const struct {
        const char *prefix, *digits;
        int base;
    } forms[] = {{"0b", "01", 2},
                 {"0B", "01", 2},
                 {"0o", "01234567", 8},
                 {"0O", "01234567", 8},
                 {"0x", "0123456789abcdefABCDEF", 16},
                 {"0X", "0123456789abcdefABCDEF", 16},
                 {"0", "0", 10},
                 {"", "0123456789", 10}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (!starts(l, l->at, forms[i].prefix))
            continue;
        size_t at = l->at + strlen(forms[i].prefix), end = at;
        for (;;) {
            size_t digit = at + (at > l->at && starts(l, at, "_"));
            if (digit >= l->src.len || !l->src.p[digit] ||
                !strchr(forms[i].digits, l->src.p[digit]))
                break;
            at = end = digit + 1;
        }
        *base = forms[i].base;
        if (end > l->at + strlen(forms[i].prefix) || (forms[i].base == 10 && end > l->at))
            return end;
    }
    return l->at;
}

static int lex_number(struct lexer *l)
{
    char digits[400];
    size_t from = l->at, end = float_end(l), n = 0;
    bool is_float = end > from;
    int base = 10;
    if (!is_float)
        end = integer_end(l, &base);
    for (size_t i = from + (base == 10 ? 0 : 2); i < end && n < sizeof digits - 1; i++)
        if (l->src.p[i] != '_')
            digits[n++] = l->src.p[i];
    digits[n] = '\0';
    errno = 0;
    int64_t whole = is_float ? 0 : (int64_t)strtoll(digits, NULL, base);
    if (n == sizeof digits - 1 || (!is_float && errno))
        return compile_fail(l->c, E_LIMIT, line_of(l, from),
                            "the number %.40s... does not fit in 64 bits", digits);
    l->at = end;
    int rc = push(l, is_float ? T_FLOAT : T_INT, from, end);
    if (rc)
        return rc;
    struct token *t = &l->c->tokens[l->c->n_tokens - 1];
    if (is_float)
        t->f = strtod(digits, NULL);
    else
        t->i = whole;
    return 0;
}

/* Hexadecimal digits at p: their value, or -1. */
static int64_t hex_value(const char *p, const char *end, int n)
{
    int64_t v = 0;
    if (end - p < n)
        return -1;
    for (int i = 0; i < n; i++) {
        const char *all = "0123456789abcdef0123456789ABCDEF", *at = p[i] ? strchr(all, p[i]) : NULL;
        if (!at)
            return -1;
        v = v * 16 + (at - all) % 16;
    }
    return v;
}

/* One escape sequence: p is behind the backslash. Appends what it stands for to *to and returns
 * what follows it, or NULL when it is malformed. */
static const char *unescape_one(const char *p, const char *end, char **to)
{
    static const char from[] = "abfnrtv\\'\"", into[] = "\a\b\f\n\r\t\v\\'\"";
    const char *simple = *p ? strchr(from, *p) : NULL;
    if (simple) {
        *(*to)++ = into[simple - from];
        return p + 1;
    }
    if (*p == '\n')
        return p + 1;
    int64_t cp = 0;
    if (*p >= '0' && *p <= '7') {
        int n = 0;
        for (; n < 3 && p + n < end && p[n] >= '0' && p[n] <= '7'; n++)
            cp = cp * 8 + (p[n] - '0');
        p += n;
    } else if (*p == 'x' || *p == 'u' || *p == 'U') {
        int n = *p == 'x' ? 2 : *p == 'u' ? 4 : 8;
        cp = hex_value(p + 1, end, n);
        p += 1 + n;
    } else if (*p == 'N') {
        return NULL;
    } else {
        *(*to)++ = '\\'; /* no escape: the backslash stays */
        return p;
    }
    if (cp < 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        return NULL;
    *to += utf8_put((uint32_t)cp, *to);
    return p;
}

/* Python's quirk: a backslash before a character above U+007F leaves the character's own escape,
 * spelled out. */
static const char *spell_out(const char *p, const char *end, char **to)
{
    int n;
    uint32_t cp = text_char(p, end, &n);
    int digits = cp < 0x100 ? 2 : cp < 0x10000 ? 4 : 8;
    *to += snprintf(*to, 11, "\\%c%0*" PRIx32,
                    digits == 2   ? 'x'
                    : digits == 4 ? 'u'
                                  : 'U',
                    digits, cp);
    return p + n;
}

static int lex_string(struct lexer *l)
{
    size_t from = l->at, at = from + 1;
    char quote = l->src.p[from];
    while (at < l->src.len && l->src.p[at] != quote)
        at += l->src.p[at] == '\\' ? 2 : 1;
    if (at >= l->src.len)
        return compile_fail(l->c, E_FORMAT, line_of(l, from), "a string has no closing %c", quote);
    const char *p = l->src.p + from + 1, *end = l->src.p + at;
    char *start = compile_alloc(l->c, (size_t)(end - p) * 3 + 12, 1), *to = start;
    if (!start)
        return -E_NOMEM;
    while (p && p < end) {
        if (*p != '\\')
            *to++ = *p++;
        else if ((unsigned char)p[1] >= 0x80)
            p = spell_out(p + 1, end, &to);
        else
            p = unescape_one(p + 1, end, &to);
    }
    if (!p)
        return compile_fail(l->c, E_FORMAT, line_of(l, from),
                            "a string has an escape sequence that names no character");
    l->at = at + 1;
    int rc = push(l, T_STRING, from, l->at);
    if (!rc)
        l->c->tokens[l->c->n_tokens - 1].text = (struct text){start, (size_t)(to - start)};
    return rc;
}

static int balance(struct lexer *l, char ch)
{
    const char *opening = "([{", *closing = ")]}";
    const char *open = strchr(opening, ch), *close = strchr(closing, ch);
    if (open) {
        if (l->n_open == PARSE_DEPTH_MAX)
            return compile_fail(l->c, E_LIMIT, line_of(l, l->at),
                                "brackets are nested deeper than %d levels", PARSE_DEPTH_MAX);
        l->open[l->n_open++] = closing[open - opening];
    } else if (close) {
        if (l->n_open == 0)
            return compile_fail(l->c, E_FORMAT, line_of(l, l->at), "'%c' closes nothing", ch);
        if (l->open[--l->n_open] != ch)
            return compile_fail(l->c, E_FORMAT, line_of(l, l->at), "found '%c', want '%c'", ch,
                                l->open[l->n_open]);
    }
    return 0;
}

static int lex_operator(struct lexer *l)
{
    static const struct {
        const char *s;
        enum token_type type;
    } ops[] = {{"//", T_FLOORDIV}, {"**", T_POW},     {"==", T_EQ},    {"!=", T_NE},
               {">=", T_GE},       {"<=", T_LE},      {"+", T_ADD},    {"-", T_SUB},
               {"*", T_MUL},       {"/", T_DIV},      {"%", T_MOD},    {"~", T_TILDE},
               {"[", T_LBRACKET},  {"]", T_RBRACKET}, {"(", T_LPAREN}, {")", T_RPAREN},
               {"{", T_LBRACE},    {"}", T_RBRACE},   {">", T_GT},     {"<", T_LT},
               {"=", T_ASSIGN},    {".", T_DOT},      {":", T_COLON},  {"|", T_PIPE},
               {",", T_COMMA},     {";", T_SEMICOLON}};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (!starts(l, l->at, ops[i].s))
            continue;
        int rc = balance(l, ops[i].s[0]);
        size_t from = l->at;
        l->at += strlen(ops[i].s);
        return rc ? rc : push(l, ops[i].type, from, l->at);
    }
    int n;
    text_char(l->src.p + l->at, l->src.p + l->src.len, &n);
    return compile_fail(l->c, E_FORMAT, line_of(l, l->at), "unexpected character '%.*s'", n,
                        l->src.p + l->at);
}
