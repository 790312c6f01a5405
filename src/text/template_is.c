/* Questions: the tests behind `is`, and the methods of texts that answer yes or no. */
#include <string.h>

#include "text/template_run.h"
#include "text/template_text.h"

static int is_kind(struct render *r, const struct call *c, struct value *out)
{
    static const struct {
        const char *name;
        uint32_t kinds; /* bits by enum kind */
    } tests[] = {{"undefined", 1u << K_UNDEFINED},
                 {"none", 1u << K_NONE},
                 {"boolean", 1u << K_BOOL},
                 {"integer", 1u << K_INT},
                 {"float", 1u << K_FLOAT},
                 {"string", 1u << K_STR},
                 {"mapping", 1u << K_DICT},
                 {"number", 1u << K_BOOL | 1u << K_INT | 1u << K_FLOAT},
                 {"sequence", 1u << K_UNDEFINED | 1u << K_STR | 1u << K_LIST | 1u << K_TUPLE |
                                  1u << K_DICT | 1u << K_RANGE},
                 {"callable", 1u << K_MACRO | 1u << K_FUNCTION | 1u << K_METHOD | 1u << K_LOOP |
                                  1u << K_JOINER | 1u << K_UNDEFINED}};
    (void)r;
    size_t i = 0;
    while (strcmp(tests[i].name, c->builtin->name) != 0)
        i++;
    *out = V_BOOL(tests[i].kinds >> c->self.kind & 1);
    return 0;
}

static int is_defined(struct render *r, const struct call *c, struct value *out)
{
    (void)r;
    *out = V_BOOL(c->self.kind != K_UNDEFINED);
    return 0;
}

static int is_true(struct render *r, const struct call *c, struct value *out)
{
    (void)r;
    *out = V_BOOL(c->self.kind == K_BOOL && c->self.b == (c->builtin->name[0] == 't'));
    return 0;
}

static int is_iterable(struct render *r, const struct call *c, struct value *out)
{
    (void)r;
    *out = V_BOOL(value_is_iterable(&c->self));
    return 0;
}

static int is_escaped(struct render *r, const struct call *c, struct value *out)
{
    (void)r;
    *out = V_BOOL(c->self.kind == K_STR && c->self.flag);
    return 0;
}

/* The same object: for small things the same value. */
static int is_sameas(struct render *r, const struct call *c, struct value *out)
{
    const struct value *a = &c->self, *b = &c->arg[0];
    bool same = a->kind == b->kind;
    if (same && (a->kind == K_BOOL || a->kind == K_INT || a->kind == K_STR)) {
        int rc = op_equal(r, a, b, &same);
        if (rc)
            return rc;
    } else if (same && a->kind != K_NONE) {
        same = a->kind != K_FLOAT && a->kind != K_UNDEFINED && a->dict == b->dict;
    }
    *out = V_BOOL(same);
    return 0;
}

/* self % n == rest */
static int remainder_is(struct render *r, const struct call *c, const struct value *n, int64_t rest,
                        struct value *out)
{
    struct value m;
    bool yes = false;
    int rc = op_binary(r, T_MOD, &c->self, n, &m);
    if (!rc)
        rc = op_equal(r, &m, &V_INT(rest), &yes);
    *out = V_BOOL(yes);
    return rc;
}

static int is_odd(struct render *r, const struct call *c, struct value *out)
{
    return remainder_is(r, c, &V_INT(2), 1, out);
}

static int is_even(struct render *r, const struct call *c, struct value *out)
{
    return remainder_is(r, c, &V_INT(2), 0, out);
}

static int is_divisible(struct render *r, const struct call *c, struct value *out)
{
    return remainder_is(r, c, &c->arg[0], 0, out);
}

static int is_in(struct render *r, const struct call *c, struct value *out)
{
    bool yes = false;
    int rc = op_contains(r, &c->arg[0], &c->self, &yes);
    *out = V_BOOL(yes);
    return rc;
}

static int is_compared(struct render *r, const struct call *c, struct value *out)
{
    static const struct {
        const char *name;
        enum token_type op;
    } tests[] = {{"==", T_EQ}, {"eq", T_EQ}, {"equalto", T_EQ},     {"!=", T_NE}, {"ne", T_NE},
                 {">", T_GT},  {"gt", T_GT}, {"greaterthan", T_GT}, {">=", T_GE}, {"ge", T_GE},
                 {"<", T_LT},  {"lt", T_LT}, {"lessthan", T_LT},    {"<=", T_LE}, {"le", T_LE}};
    bool yes = false;
    size_t i = 0;
    while (strcmp(tests[i].name, c->builtin->name) != 0)
        i++;
    int rc = op_compare(r, tests[i].op, &c->self, &c->arg[0], &yes);
    *out = V_BOOL(yes);
    return rc;
}

/* Whether there is a filter or test of that name. */
static int is_builtin(struct render *r, const struct call *c, struct value *out)
{
    (void)r;
    bool filter = c->builtin->name[0] == 'f';
    const struct builtin *b = NULL;
    if (c->self.kind == K_STR)
        b = filter ? filter_find(c->self.s) : test_find(c->self.s);
    *out = V_BOOL(b && b->run);
    return 0;
}

/* is lower, is upper: of the value's text. */
static int is_cased(struct render *r, const struct call *c, struct value *out)
{
    struct builtin method = {c->builtin->name[0] == 'l' ? "islower" : "isupper", "/", NULL};
    struct call inner = {.builtin = &method};
    int rc = value_str(r, &c->self, &inner.self);
    return rc ? rc : str_is_cased(r, &inner, out);
}

const struct builtin *test_find(struct text name)
{
    static const struct builtin tests[] = {
        {"!=", "other", is_compared},
        {"<", "other", is_compared},
        {"<=", "other", is_compared},
        {"==", "other", is_compared},
        {">", "other", is_compared},
        {">=", "other", is_compared},
        {"boolean", "", is_kind},
        {"callable", "", is_kind},
        {"defined", "", is_defined},
        {"divisibleby", "num", is_divisible},
        {"eq", "other", is_compared},
        {"equalto", "other", is_compared},
        {"escaped", "", is_escaped},
        {"even", "", is_even},
        {"false", "", is_true},
        {"filter", "", is_builtin},
        {"float", "", is_kind},
        {"ge", "other", is_compared},
        {"greaterthan", "other", is_compared},
        {"gt", "other", is_compared},
        {"in", "seq", is_in},
        {"integer", "", is_kind},
        {"iterable", "", is_iterable},
        {"le", "other", is_compared},
        {"lessthan", "other", is_compared},
        {"lower", "", is_cased},
        {"lt", "other", is_compared},
        {"mapping", "", is_kind},
        {"ne", "other", is_compared},
        {"none", "", is_kind},
        {"number", "", is_kind},
        {"odd", "", is_odd},
        {"sameas", "other", is_sameas},
        {"sequence", "", is_kind},
        {"string", "", is_kind},
        {"test", "", is_builtin},
        {"true", "", is_true},
        {"undefined", "", is_kind},
        {"upper", "", is_cased},
        {0},
    };
    return builtin_find(tests, name);
}

/* Every character is of a class, and there is one (printable and ascii hold for no characters
 * too). */
int str_is_all(struct render *r, const struct call *c, struct value *out)
{
    static const struct {
        const char *name;
        bool (*is)(uint32_t);
    } classes[] = {{"isalnum", char_is_alnum},        {"isalpha", char_is_alpha},
                   {"isdecimal", char_is_decimal},    {"isdigit", char_is_digit},
                   {"isnumeric", char_is_numeric},    {"isspace", char_is_space},
                   {"isprintable", char_is_printable}};
    size_t k = 0;
    while (strcmp(classes[k].name, c->builtin->name) != 0)
        k++;
    struct text t = c->self.s;
    bool yes = t.len > 0 || classes[k].is == char_is_printable;
    int n;
    for (size_t i = 0; i < t.len && yes; i += (size_t)n)
        yes = classes[k].is(text_char(t.p + i, t.p + t.len, &n));
    *out = V_BOOL(yes);
    return render_bytes(r, t.len);
}

/* islower, isupper: some letters with case, all of them so. istitle: words begin with capitals. */
int str_is_cased(struct render *r, const struct call *c, struct value *out)
{
    struct text t = c->self.s;
    char want = c->builtin->name[2];
    bool any = false, yes = true, inside = false;
    int n;
    for (size_t i = 0; i < t.len && yes; i += (size_t)n) {
        uint32_t ch = text_char(t.p + i, t.p + t.len, &n);
        bool title = char_is_title(ch), upper = char_is_upper(ch) || (title && want == 't');
        bool lower = char_is_lower(ch), cased = upper || lower || title;
        if (cased)
            yes = want == 'l' ? lower : want == 'u' ? upper : inside ? lower : upper;
        any |= cased;
        inside = cased;
    }
    *out = V_BOOL(any && yes);
    return render_bytes(r, t.len);
}

int str_is_ascii(struct render *r, const struct call *c, struct value *out)
{
    (void)r;
    *out = V_BOOL(text_count(c->self.s) == c->self.s.len);
    return 0;
}

int str_is_identifier(struct render *r, const struct call *c, struct value *out)
{
    struct text t = c->self.s;
    bool yes = t.len > 0;
    int n;
    for (size_t i = 0; i < t.len && yes; i += (size_t)n) {
        uint32_t ch = text_char(t.p + i, t.p + t.len, &n);
        yes = i ? char_is_id_part(ch) : char_is_id_start(ch);
    }
    *out = V_BOOL(yes);
    return render_bytes(r, t.len);
}
