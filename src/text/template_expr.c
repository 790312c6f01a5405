/* Expressions to trees, by precedence, as Jinja2 reads them. Weakest first: `x if c else y`, or,
 * and, not, comparisons and in, + -, ~, * / // %, **, unary + -, then .name [index] (call)
 * |filter is test.
 *
 * Recursion is bounded: parser_enter counts nested expressions, and the tree's height, which
 * chains like a.b.c.d raise too, is checked when names are resolved. */
#include <string.h>

#include "text/template_ast.h"

enum level { L_OR, L_AND, L_NOT, L_COMPARE, L_SUM, L_CONCAT, L_PRODUCT, L_POWER, L_UNARY };

static int parse_level(struct parser *p, enum level level, struct node **out);
static int parse_not(struct parser *p, struct node **out);
static int parse_unary(struct parser *p, bool filters, struct node **out);
static int parse_postfix(struct parser *p, struct node **n);
static int parse_filters_and_tests(struct parser *p, struct node **n);
static int parse_primary(struct parser *p, struct node **out);
static int parse_list(struct parser *p, struct node **out);
static int parse_dict(struct parser *p, struct node **out);
static int parse_dot(struct parser *p, struct node **n);
static int parse_subscript(struct parser *p, struct node **n);
static int parse_index(struct parser *p, struct node *subject, int line, struct node **out);
static int parse_call(struct parser *p, struct node **n);
static int parse_test(struct parser *p, struct node **n);

static int expression(struct parser *p, bool cond, struct node **out)
{
    int rc = parser_enter(p);
    int line = parser_token(p)->line;
    if (!rc)
        rc = parse_level(p, L_OR, out);
    while (!rc && cond && parser_skip_word(p, "if")) {
        struct node *n = parser_node(p, N_COND, line);
        if (!n)
            return -E_NOMEM;
        n->b = *out;
        *out = n;
        rc = parse_level(p, L_OR, &n->a);
        if (!rc && parser_skip_word(p, "else"))
            rc = parse_expression(p, &n->c);
    }
    parser_leave(p);
    return rc;
}

int parse_expression(struct parser *p, struct node **out)
{
    return expression(p, true, out);
}

/* Goes past an operator of this level; false when the current token is none. */
static bool take_operator(struct parser *p, enum level level, enum token_type *op)
{
    static const struct {
        enum level level;
        enum token_type first, last;
    } ranges[] = {{L_COMPARE, T_EQ, T_LE},
                  {L_SUM, T_ADD, T_SUB},
                  {L_CONCAT, T_TILDE, T_TILDE},
                  {L_PRODUCT, T_MUL, T_MOD},
                  {L_POWER, T_POW, T_POW}};
    *op = parser_token(p)->type;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (ranges[i].level == level && *op >= ranges[i].first && *op <= ranges[i].last)
            return parser_skip(p, *op);
    if (level == L_OR || level == L_AND)
        return parser_skip_word(p, level == L_OR ? "or" : "and");
    if (level != L_COMPARE)
        return false;
    bool negated = parser_is_word(p, 0, "not") && parser_is_word(p, 1, "in");
    *op = negated ? T_NOT_IN : T_IN;
    if (negated)
        parser_skip_word(p, "not");
    return parser_skip_word(p, "in");
}

/* Operands of a level with its operators between them: one flat node for the whole row. */
static int parse_level(struct parser *p, enum level level, struct node **out)
{
    static const enum node_kind kinds[] = {
        [L_OR] = N_OR,         [L_AND] = N_AND,       [L_COMPARE] = N_COMPARE, [L_SUM] = N_CHAIN,
        [L_CONCAT] = N_CONCAT, [L_PRODUCT] = N_CHAIN, [L_POWER] = N_CHAIN};
    if (level == L_UNARY)
        return parse_unary(p, true, out);
    if (level == L_NOT && parser_is_word(p, 0, "not"))
        return parse_not(p, out);
    struct node *row = NULL;
    enum token_type op;
    int line = parser_token(p)->line;
    int rc = parse_level(p, level + 1, out);
    while (!rc && level != L_NOT && take_operator(p, level, &op)) {
        struct node *kid;
        if (!row) {
            row = parser_node(p, kinds[level], line);
            rc = row ? nodes_push(p, &row->kids, *out) : -E_NOMEM;
            *out = row;
        }
        if (!rc)
            rc = parse_level(p, level + 1, &kid);
        if (!rc) {
            kid->op = op;
            rc = nodes_push(p, &row->kids, kid);
        }
    }
    return rc;
}

static int parse_not(struct parser *p, struct node **out)
{
    int rc = parser_enter(p);
    *out = parser_node(p, N_NOT, parser_token(p)->line);
    if (!*out)
        return -E_NOMEM;
    parser_skip_word(p, "not");
    if (!rc)
        rc = parse_level(p, L_NOT, &(*out)->a);
    parser_leave(p);
    return rc;
}

static int parse_unary(struct parser *p, bool filters, struct node **out)
{
    const struct token *t = parser_token(p);
    int rc = parser_enter(p);
    if (!rc && (t->type == T_SUB || t->type == T_ADD)) {
        *out = parser_node(p, t->type == T_SUB ? N_NEG : N_POS, t->line);
        if (!*out)
            return -E_NOMEM;
        parser_skip(p, t->type);
        rc = parse_unary(p, false, &(*out)->a);
    } else if (!rc) {
        rc = parse_primary(p, out);
    }
    if (!rc)
        rc = parse_postfix(p, out);
    if (!rc && filters)
        rc = parse_filters_and_tests(p, out);
    parser_leave(p);
    return rc;
}

static int parse_postfix(struct parser *p, struct node **n)
{
    int rc = 0;
    while (!rc) {
        enum token_type type = parser_token(p)->type;
        if (type == T_DOT)
            rc = parse_dot(p, n);
        else if (type == T_LBRACKET)
            rc = parse_subscript(p, n);
        else if (type == T_LPAREN)
            rc = parse_call(p, n);
        else
            break;
    }
    return rc;
}

static int parse_filters_and_tests(struct parser *p, struct node **n)
{
    int rc = 0;
    while (!rc) {
        if (parser_token(p)->type == T_PIPE)
            rc = parse_filters(p, *n, false, n);
        else if (parser_is_word(p, 0, "is"))
            rc = parse_test(p, n);
        else if (parser_token(p)->type == T_LPAREN)
            rc = parse_call(p, n);
        else
            break;
    }
    return rc;
}

static int constant(struct parser *p, struct value v, struct node **out)
{
    *out = parser_node(p, N_CONST, parser_token(p)->line);
    if (!*out)
        return -E_NOMEM;
    (*out)->value = v;
    return parser_skip(p, parser_token(p)->type) ? 0 : -E_FORMAT;
}

static int parse_name(struct parser *p, struct node **out)
{
    static const struct {
        const char *word;
        struct value v;
    } words[] = {{"true", {.kind = K_BOOL, .b = true}},
                 {"True", {.kind = K_BOOL, .b = true}},
                 {"false", {.kind = K_BOOL, .b = false}},
                 {"False", {.kind = K_BOOL, .b = false}},
                 {"none", {.kind = K_NONE}},
                 {"None", {.kind = K_NONE}}};
    const struct token *t = parser_token(p);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (text_is(t->text, words[i].word))
            return constant(p, words[i].v, out);
    *out = parser_node(p, N_NAME, t->line);
    if (!*out)
        return -E_NOMEM;
    (*out)->name = t->text;
    parser_skip(p, T_NAME);
    return 0;
}

/* One string, or several side by side, which are one. */
static int parse_string(struct parser *p, struct node **out)
{
    struct text all = parser_token(p)->text;
    int rc = constant(p, V_STR(all), out);
    while (!rc && parser_token(p)->type == T_STRING) {
        struct text next = parser_token(p)->text;
        char *to = compile_alloc(p->c, all.len + next.len + 1, 1);
        if (!to)
            return -E_NOMEM;
        memcpy(to, all.p, all.len);
        memcpy(to + all.len, next.p, next.len);
        all = (struct text){to, all.len + next.len};
        (*out)->value = V_STR(all);
        parser_skip(p, T_STRING);
    }
    return rc;
}

static int parse_primary(struct parser *p, struct node **out)
{
    const struct token *t = parser_token(p);
    switch (t->type) {
    case T_NAME:
        return parse_name(p, out);
    case T_STRING:
        return parse_string(p, out);
    case T_INT:
        return constant(p, V_INT(t->i), out);
    case T_FLOAT:
        return constant(p, V_FLOAT(t->f), out);
    case T_LPAREN: {
        parser_skip(p, T_LPAREN);
        int rc = parse_tuple(p, TUPLE_PAREN, NULL, out);
        return rc ? rc : parser_expect(p, T_RPAREN);
    }
    case T_LBRACKET:
        return parse_list(p, out);
    case T_LBRACE:
        return parse_dict(p, out);
    default:
        return parser_unexpected(p, "an expression");
    }
}

static bool tuple_ends(const struct parser *p, const char *end_word)
{
    enum token_type t = parser_token(p)->type;
    return t == T_PRINT_CLOSE || t == T_TAG_CLOSE || t == T_RPAREN ||
           (end_word && parser_is_word(p, 0, end_word));
}

int parse_tuple(struct parser *p, int flags, const char *end_word, struct node **out)
{
    struct nodes items = {0};
    bool is_tuple = false;
    int line = parser_token(p)->line, rc = 0;
    while (!rc) {
        if (items.n)
            rc = parser_expect(p, T_COMMA);
        if (rc || tuple_ends(p, end_word))
            break;
        struct node *item;
        rc = flags & TUPLE_TARGET ? parse_primary(p, &item)
                                  : expression(p, !(flags & TUPLE_NO_COND), &item);
        if (!rc)
            rc = nodes_push(p, &items, item);
        if (rc || parser_token(p)->type != T_COMMA)
            break;
        is_tuple = true;
    }
    if (rc)
        return rc;
    if (!is_tuple && items.n) {
        *out = items.at[0];
        return 0;
    }
    if (!items.n && !(flags & TUPLE_PAREN))
        return parser_unexpected(p, "an expression");
    *out = parser_node(p, N_TUPLE, line);
    if (!*out)
        return -E_NOMEM;
    (*out)->kids = items;
    return 0;
}

static int parse_list(struct parser *p, struct node **out)
{
    struct node *n = *out = parser_node(p, N_LIST, parser_token(p)->line);
    int rc = n ? 0 : -E_NOMEM;
    parser_skip(p, T_LBRACKET);
    while (!rc && parser_token(p)->type != T_RBRACKET) {
        struct node *item;
        if (n->kids.n)
            rc = parser_expect(p, T_COMMA);
        if (rc || parser_token(p)->type == T_RBRACKET)
            break;
        rc = parse_expression(p, &item);
        if (!rc)
            rc = nodes_push(p, &n->kids, item);
    }
    return rc ? rc : parser_expect(p, T_RBRACKET);
}

static int parse_dict(struct parser *p, struct node **out)
{
    struct node *n = *out = parser_node(p, N_DICT, parser_token(p)->line);
    int rc = n ? 0 : -E_NOMEM;
    parser_skip(p, T_LBRACE);
    while (!rc && parser_token(p)->type != T_RBRACE) {
        struct node *key, *value;
        if (n->kids.n)
            rc = parser_expect(p, T_COMMA);
        if (rc || parser_token(p)->type == T_RBRACE)
            break;
        rc = parse_expression(p, &key);
        if (!rc)
            rc = nodes_push(p, &n->kids, key);
        if (!rc)
            rc = parser_expect(p, T_COLON);
        if (!rc)
            rc = parse_expression(p, &value);
        if (!rc)
            rc = nodes_push(p, &n->kids, value);
    }
    return rc ? rc : parser_expect(p, T_RBRACE);
}

static int parse_dot(struct parser *p, struct node **n)
{
    parser_skip(p, T_DOT);
    const struct token *t = parser_token(p);
    if (t->type != T_NAME && t->type != T_INT)
        return parser_unexpected(p, "a name or number behind '.'");
    struct node *outer = parser_node(p, t->type == T_NAME ? N_ATTR : N_ITEM, t->line);
    if (!outer)
        return -E_NOMEM;
    outer->a = *n;
    outer->name = t->text;
    *n = outer;
    if (t->type == T_INT)
        return constant(p, V_INT(t->i), &outer->b);
    parser_skip(p, T_NAME);
    return 0;
}

static int parse_subscript(struct parser *p, struct node **n)
{
    int line = parser_token(p)->line;
    struct nodes items = {0};
    struct node *subject = *n;
    parser_skip(p, T_LBRACKET);
    int rc = 0;
    while (!rc && parser_token(p)->type != T_RBRACKET) {
        struct node *item = NULL;
        if (items.n)
            rc = parser_expect(p, T_COMMA);
        if (!rc)
            rc = parse_index(p, subject, line, &item);
        if (!rc)
            rc = nodes_push(p, &items, item);
    }
    if (!rc && items.n == 0)
        return parser_unexpected(p, "an index");
    if (!rc)
        rc = parser_expect(p, T_RBRACKET);
    if (rc)
        return rc;
    if (items.n == 1) {
        *n = items.at[0];
        return 0;
    }
    struct node *tuple = parser_node(p, N_TUPLE, line), *outer = parser_node(p, N_ITEM, line);
    if (!tuple || !outer)
        return -E_NOMEM;
    for (size_t i = 0; i < items.n; i++) {
        if (items.at[i]->kind == N_SLICE)
            return parser_fail(p, "a slice cannot stand beside other indices");
        rc = nodes_push(p, &tuple->kids, items.at[i]->b);
        if (rc)
            return rc;
    }
    outer->a = subject;
    outer->b = tuple;
    *n = outer;
    return 0;
}

/* One index or slice between brackets: the whole of subject[...]. */
static int parse_index(struct parser *p, struct node *subject, int line, struct node **out)
{
    struct node *part[3] = {NULL};
    int i = 0, rc = 0;
    for (; !rc; i++) {
        enum token_type t = parser_token(p)->type;
        if (t != T_COLON && t != T_RBRACKET && t != T_COMMA)
            rc = parse_expression(p, &part[i]);
        if (rc || i == 2 || !parser_skip(p, T_COLON))
            break;
    }
    if (rc)
        return rc;
    if (i == 0 && !part[0])
        return parser_unexpected(p, "an index");
    struct node *n = *out = parser_node(p, i == 0 ? N_ITEM : N_SLICE, line);
    if (!n)
        return -E_NOMEM;
    n->a = subject;
    n->b = part[0];
    n->c = part[1];
    n->d = part[2];
    return 0;
}

static int parse_keyword(struct parser *p, struct node *call)
{
    struct node *n = parser_node(p, N_KEYWORD, parser_token(p)->line);
    if (!n)
        return -E_NOMEM;
    n->name = parser_token(p)->text;
    for (size_t i = 0; i < call->more.n; i++)
        if (text_eq(call->more.at[i]->name, n->name))
            return parser_fail(p, "the argument '%.*s' is given twice", (int)n->name.len,
                               n->name.p);
    parser_skip(p, T_NAME);
    parser_skip(p, T_ASSIGN);
    int rc = parse_expression(p, &n->a);
    return rc ? rc : nodes_push(p, &call->more, n);
}

static int parse_argument(struct parser *p, struct node *call)
{
    bool is_word = parser_token(p)->type == T_NAME && parser_token(p)[1].type == T_ASSIGN;
    if (call->c || (call->b && !is_word && parser_token(p)->type != T_POW))
        return parser_fail(p, "an argument behind *arguments or **keywords");
    if (parser_skip(p, T_MUL))
        return parse_expression(p, &call->b);
    if (parser_skip(p, T_POW))
        return parse_expression(p, &call->c);
    if (is_word)
        return parse_keyword(p, call);
    if (call->more.n)
        return parser_fail(p, "an argument without a name behind one with a name");
    struct node *n;
    int rc = parse_expression(p, &n);
    return rc ? rc : nodes_push(p, &call->kids, n);
}

int parse_call_args(struct parser *p, struct node *call)
{
    int rc = parser_expect(p, T_LPAREN);
    bool first = true;
    while (!rc && parser_token(p)->type != T_RPAREN) {
        if (!first)
            rc = parser_expect(p, T_COMMA);
        if (rc || parser_token(p)->type == T_RPAREN)
            break;
        rc = parse_argument(p, call);
        first = false;
    }
    return rc ? rc : parser_expect(p, T_RPAREN);
}

static int parse_call(struct parser *p, struct node **n)
{
    struct node *call = parser_node(p, N_CALL, parser_token(p)->line);
    if (!call)
        return -E_NOMEM;
    call->a = *n;
    *n = call;
    return parse_call_args(p, call);
}

/* The name of a filter or test; dots may be part of it. */
static int parse_dotted(struct parser *p, struct text *out)
{
    *out = parser_token(p)->text;
    int rc = parser_expect(p, T_NAME);
    while (!rc && parser_skip(p, T_DOT)) {
        struct text part = parser_token(p)->text;
        rc = parser_expect(p, T_NAME);
        if (!rc)
            out->len = (size_t)(part.p + part.len - out->p);
    }
    return rc;
}

int parse_filters(struct parser *p, struct node *a, bool bare, struct node **out)
{
    int rc = 0;
    *out = a;
    while (!rc && (bare || parser_skip(p, T_PIPE))) {
        struct node *n = parser_node(p, N_FILTER, parser_token(p)->line);
        if (!n)
            return -E_NOMEM;
        n->a = *out;
        *out = n;
        bare = false;
        rc = parse_dotted(p, &n->name);
        if (!rc && parser_token(p)->type == T_LPAREN)
            rc = parse_call_args(p, n);
    }
    return rc;
}

/* Whether the token starts the argument of a test without parentheses: `is divisibleby 3`. */
static bool starts_argument(const struct parser *p)
{
    switch (parser_token(p)->type) {
    case T_NAME:
        return !parser_is_word(p, 0, "else") && !parser_is_word(p, 0, "or") &&
               !parser_is_word(p, 0, "and");
    case T_STRING:
    case T_INT:
    case T_FLOAT:
    case T_LBRACKET:
    case T_LBRACE:
        return true;
    default:
        return false;
    }
}

static int parse_test(struct parser *p, struct node **n)
{
    struct node *test = parser_node(p, N_TEST, parser_token(p)->line), *arg;
    if (!test)
        return -E_NOMEM;
    parser_skip_word(p, "is");
    bool negated = parser_skip_word(p, "not");
    test->a = *n;
    *n = test;
    int rc = parse_dotted(p, &test->name);
    if (rc)
        return rc;
    if (parser_token(p)->type == T_LPAREN) {
        rc = parse_call_args(p, test);
    } else if (parser_is_word(p, 0, "is")) {
        return parser_fail(p, "one `is` behind another; put the first test in parentheses");
    } else if (starts_argument(p)) {
        rc = parse_primary(p, &arg);
        if (!rc)
            rc = parse_postfix(p, &arg);
        if (!rc)
            rc = nodes_push(p, &test->kids, arg);
    }
    if (rc || !negated)
        return rc;
    *n = parser_node(p, N_NOT, test->line);
    if (!*n)
        return -E_NOMEM;
    (*n)->a = test;
    return 0;
}
