/* Tags to trees: the statements of the language. See template_ast.h for what each node holds.
 *
 * Tags that reach outside the one template (include, import, extends, block) and tags that no chat
 * template runner enables are refused by name. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/template_ast.h"

/* What may end a body: words, NULL behind the last. */
struct ends {
    const char *word[4];
};

static int parse_body(struct parser *p, const struct ends *ends, struct nodes *out);
static int parse_tag(struct parser *p, struct node **out);
static int parse_for(struct parser *p, struct node *n);
static int parse_if(struct parser *p, struct node *n);
static int parse_set(struct parser *p, struct node *n);
static int parse_macro(struct parser *p, struct node *n);
static int parse_call_block(struct parser *p, struct node *n);
static int parse_generation(struct parser *p, struct node *n);
static int parse_filter_block(struct parser *p, struct node *n);
static int parse_with(struct parser *p, struct node *n);
static int parse_print(struct parser *p, struct node *n);
static int parse_jump(struct parser *p, struct node *n);

static const struct statement {
    const char *word;
    enum node_kind kind;
    int (*parse)(struct parser *p, struct node *n); /* NULL: refused */
} statements[] = {
    {"for", N_FOR, parse_for},
    {"if", N_IF, parse_if},
    {"set", N_SET, parse_set},
    {"macro", N_MACRO, parse_macro},
    {"call", N_CALLBLOCK, parse_call_block},
    {"generation", N_CALLBLOCK, parse_generation},
    {"filter", N_FILTERBLOCK, parse_filter_block},
    {"with", N_WITH, parse_with},
    {"print", N_PRINT, parse_print},
    {"break", N_BREAK, parse_jump},
    {"continue", N_CONTINUE, parse_jump},
    {"include", N_DATA, NULL},
    {"import", N_DATA, NULL},
    {"from", N_DATA, NULL},
    {"extends", N_DATA, NULL},
    {"block", N_DATA, NULL},
    {"autoescape", N_DATA, NULL},
    {"do", N_DATA, NULL},
    {"trans", N_DATA, NULL},
    {"debug", N_DATA, NULL},
};

int parser_fail(struct parser *p, const char *fmt, ...)
{
    char msg[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    return compile_fail(p->c, E_FORMAT, parser_token(p)->line, "%s", msg);
}

int parser_unexpected(struct parser *p, const char *want)
{
    const struct token *t = parser_token(p);
    if (t->type == T_END)
        return parser_fail(p, "want %s, found the end of the template", want);
    if (t->type == T_DATA)
        return parser_fail(p, "want %s, found text", want);
    return parser_fail(p, "want %s, found '%.*s'", want, t->text.len > 60 ? 60 : (int)t->text.len,
                       t->text.p);
}

bool parser_is_word(const struct parser *p, size_t ahead, const char *word)
{
    if (p->at + ahead >= p->c->n_tokens)
        return false;
    const struct token *t = parser_token(p) + ahead;
    return t->type == T_NAME && text_is(t->text, word);
}

bool parser_skip_word(struct parser *p, const char *word)
{
    bool is = parser_is_word(p, 0, word);
    p->at += is;
    return is;
}

bool parser_skip(struct parser *p, enum token_type type)
{
    bool is = parser_token(p)->type == type && type != T_END;
    p->at += is;
    return is;
}

int parser_expect(struct parser *p, enum token_type type)
{
    static const char *const names[] = {
        [T_TAG_CLOSE] = "%}", [T_PRINT_CLOSE] = "}}", [T_NAME] = "a name", [T_COMMA] = "','",
        [T_COLON] = "':'",    [T_LPAREN] = "'('",     [T_RPAREN] = "')'",  [T_RBRACKET] = "']'",
        [T_RBRACE] = "'}'",   [T_ASSIGN] = "'='"};
    if (parser_skip(p, type))
        return 0;
    return parser_unexpected(p, names[type]);
}

/* A bracket costs two: one for the expression, one for the operand. */
int parser_enter(struct parser *p)
{
    if (++p->depth > PARSE_DEPTH_MAX * 2)
        return compile_fail(p->c, E_LIMIT, parser_token(p)->line,
                            "expressions and tags are nested deeper than %d levels",
                            PARSE_DEPTH_MAX);
    return 0;
}

void parser_leave(struct parser *p)
{
    p->depth--;
}

struct node *parser_node(struct parser *p, enum node_kind kind, int line)
{
    struct node *n = compile_alloc(p->c, 1, sizeof *n);
    if (n) {
        n->kind = kind;
        n->line = line;
    }
    return n;
}

int nodes_push(struct parser *p, struct nodes *l, struct node *n)
{
    bool full = l->n == 0 || (l->n >= 4 && (l->n & (l->n - 1)) == 0);
    if (full) {
        struct node **at = compile_alloc(p->c, l->n ? l->n * 2 : 4, sizeof(struct node *));
        if (!at)
            return -E_NOMEM;
        if (l->n)
            memcpy(at, l->at, l->n * sizeof(struct node *));
        l->at = at;
    }
    l->at[l->n++] = n;
    return 0;
}

int template_parse(struct compile *c, struct nodes *out)
{
    struct parser p = {.c = c};
    return parse_body(&p, NULL, out);
}

static int push_data(struct parser *p, struct nodes *out)
{
    struct node *n = parser_node(p, N_DATA, parser_token(p)->line);
    if (!n)
        return -E_NOMEM;
    n->name = parser_token(p)->text;
    parser_skip(p, T_DATA);
    return nodes_push(p, out, n);
}

static int push_print(struct parser *p, struct nodes *out)
{
    struct node *n = parser_node(p, N_PRINT, parser_token(p)->line);
    if (!n)
        return -E_NOMEM;
    parser_skip(p, T_PRINT_OPEN);
    int rc = parse_tuple(p, 0, NULL, &n->a);
    if (!rc)
        rc = parser_expect(p, T_PRINT_CLOSE);
    return rc ? rc : nodes_push(p, out, n);
}

static bool at_end_word(const struct parser *p, const struct ends *ends)
{
    for (int i = 0; ends && i < 4 && ends->word[i]; i++)
        if (parser_is_word(p, 0, ends->word[i]))
            return true;
    return false;
}

/* Statements up to a tag with one of the words in `ends`, which is then the current token; or, when
 * ends is NULL, to the end of the template. */
static int parse_body(struct parser *p, const struct ends *ends, struct nodes *out)
{
    int rc = parser_enter(p);
    while (!rc && parser_token(p)->type != T_END) {
        if (parser_token(p)->type == T_DATA) {
            rc = push_data(p, out);
        } else if (parser_token(p)->type == T_PRINT_OPEN) {
            rc = push_print(p, out);
        } else {
            struct node *n = NULL;
            parser_skip(p, T_TAG_OPEN);
            if (at_end_word(p, ends))
                break;
            rc = parse_tag(p, &n);
            if (!rc)
                rc = parser_expect(p, T_TAG_CLOSE);
            if (!rc)
                rc = nodes_push(p, out, n);
        }
    }
    if (!rc && ends && parser_token(p)->type == T_END)
        rc = parser_fail(p, "the template ends where {%% %s %%} is wanted", ends->word[0]);
    parser_leave(p);
    return rc;
}

/* The rest of an opening tag and the statements behind it; the ending word is passed. */
static int parse_block(struct parser *p, const struct ends *ends, struct nodes *out)
{
    parser_skip(p, T_COLON);
    int rc = parser_expect(p, T_TAG_CLOSE);
    return rc ? rc : parse_body(p, ends, out);
}

static int parse_block_to(struct parser *p, const char *word, struct nodes *out)
{
    struct ends ends = {{word}};
    int rc = parse_block(p, &ends, out);
    if (!rc)
        parser_skip_word(p, word);
    return rc;
}

static int parse_tag(struct parser *p, struct node **out)
{
    const struct token *t = parser_token(p);
    if (t->type != T_NAME)
        return parser_unexpected(p, "the name of a tag");
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        const struct statement *s = &statements[i];
        if (!text_is(t->text, s->word))
            continue;
        if (!s->parse)
            return compile_fail(p->c, E_UNSUPPORTED, t->line,
                                "the tag '%s' is not supported in chat templates", s->word);
        *out = parser_node(p, s->kind, t->line);
        if (!*out)
            return -E_NOMEM;
        parser_skip(p, T_NAME);
        return s->parse(p, *out);
    }
    return parser_fail(p, "there is no tag '%.*s'%s", (int)(t->text.len > 60 ? 60 : t->text.len),
                       t->text.p,
                       t->text.len > 3 && memcmp(t->text.p, "end", 3) == 0
                           ? " to end here; is another block still open?"
                           : "");
}

/* Marks the names of a target; anything else is an error. */
static int mark_target(struct parser *p, struct node *n)
{
    if (n->kind == N_TUPLE) {
        for (size_t i = 0; i < n->kids.n; i++) {
            int rc = mark_target(p, n->kids.at[i]);
            if (rc)
                return rc;
        }
        return 0;
    }
    if (n->kind != N_NAME)
        return parser_fail(p, "only names can be assigned to");
    n->target = true;
    return 0;
}

/* A name, or names with commas. */
static int parse_target(struct parser *p, const char *end_word, struct node **out)
{
    int rc = parse_tuple(p, TUPLE_TARGET, end_word, out);
    return rc ? rc : mark_target(p, *out);
}

static int parse_name_target(struct parser *p, struct node **out)
{
    *out = parser_node(p, N_NAME, parser_token(p)->line);
    if (!*out)
        return -E_NOMEM;
    (*out)->name = parser_token(p)->text;
    (*out)->target = true;
    return parser_expect(p, T_NAME);
}

static int parse_for(struct parser *p, struct node *n)
{
    static const struct ends body = {{"endfor", "else"}};
    int rc = parse_target(p, "in", &n->a);
    if (rc)
        return rc;
    if (!parser_skip_word(p, "in"))
        return parser_unexpected(p, "'in'");
    rc = parse_tuple(p, TUPLE_NO_COND, "recursive", &n->b);
    if (!rc && parser_skip_word(p, "if"))
        rc = parse_expression(p, &n->c);
    if (rc)
        return rc;
    n->recursive = parser_skip_word(p, "recursive");
    p->loops++;
    rc = parse_block(p, &body, &n->kids);
    p->loops--;
    if (rc || parser_skip_word(p, "endfor"))
        return rc;
    parser_skip_word(p, "else");
    return parse_block_to(p, "endfor", &n->rest);
}

static int parse_if(struct parser *p, struct node *n)
{
    static const struct ends ends = {{"endif", "elif", "else"}};
    struct node *branch = n;
    for (;;) {
        int rc = parse_tuple(p, TUPLE_NO_COND, NULL, &branch->a);
        if (!rc)
            rc = parse_block(p, &ends, &branch->kids);
        if (rc || parser_skip_word(p, "endif"))
            return rc;
        if (parser_skip_word(p, "else"))
            return parse_block_to(p, "endif", &n->rest);
        parser_skip_word(p, "elif");
        branch = parser_node(p, N_IF, parser_token(p)->line);
        rc = branch ? nodes_push(p, &n->more, branch) : -E_NOMEM;
        if (rc)
            return rc;
    }
}

static int parse_set(struct parser *p, struct node *n)
{
    int rc;
    if (parser_token(p)->type == T_NAME && parser_token(p)[1].type == T_DOT) {
        n->a = parser_node(p, N_NSREF, parser_token(p)->line);
        if (!n->a)
            return -E_NOMEM;
        rc = parse_name_target(p, &n->a->a);
        parser_skip(p, T_DOT);
        n->a->name = parser_token(p)->text;
        if (!rc)
            rc = parser_expect(p, T_NAME);
    } else {
        rc = parse_target(p, NULL, &n->a);
    }
    if (rc)
        return rc;
    if (parser_skip(p, T_ASSIGN))
        return parse_tuple(p, 0, NULL, &n->b);
    n->kind = N_SETBLOCK;
    rc = parse_filters(p, NULL, false, &n->b);
    return rc ? rc : parse_block_to(p, "endset", &n->kids);
}

static int parse_signature(struct parser *p, struct node *n)
{
    int rc = parser_expect(p, T_LPAREN);
    while (!rc && parser_token(p)->type != T_RPAREN) {
        struct node *arg, *value;
        if (n->more.n)
            rc = parser_expect(p, T_COMMA);
        if (!rc)
            rc = parse_name_target(p, &arg);
        if (rc)
            return rc;
        for (size_t i = 0; i < n->more.n; i++)
            if (text_eq(n->more.at[i]->name, arg->name))
                return parser_fail(p, "two parameters are called '%.*s'", (int)arg->name.len,
                                   arg->name.p);
        if (parser_skip(p, T_ASSIGN)) {
            rc = parse_expression(p, &value);
            if (!rc)
                rc = nodes_push(p, &n->rest, value);
        } else if (n->rest.n) {
            return parser_fail(p, "a parameter without a default behind one with a default");
        }
        if (!rc)
            rc = nodes_push(p, &n->more, arg);
    }
    return rc ? rc : parser_expect(p, T_RPAREN);
}

/* The body of a macro or call block: `break` cannot leave it. */
static int parse_routine_body(struct parser *p, const char *end, struct node *n)
{
    int loops = p->loops;
    p->loops = 0;
    int rc = parse_block_to(p, end, &n->kids);
    p->loops = loops;
    return rc;
}

static int parse_macro(struct parser *p, struct node *n)
{
    int rc = parse_name_target(p, &n->a);
    if (!rc)
        rc = parse_signature(p, n);
    if (!rc)
        n->name = n->a->name;
    return rc ? rc : parse_routine_body(p, "endmacro", n);
}

static int parse_call_block(struct parser *p, struct node *n)
{
    int rc = 0;
    if (parser_token(p)->type == T_LPAREN)
        rc = parse_signature(p, n);
    if (!rc)
        rc = parse_expression(p, &n->a);
    if (!rc && n->a->kind != N_CALL)
        return parser_fail(p, "{%% call %%} wants a call, like {%% call name() %%}");
    return rc ? rc : parse_routine_body(p, "endcall", n);
}

static int parse_generation(struct parser *p, struct node *n)
{
    return parse_routine_body(p, "endgeneration", n);
}

static int parse_filter_block(struct parser *p, struct node *n)
{
    int rc = parse_filters(p, NULL, true, &n->a);
    return rc ? rc : parse_block_to(p, "endfilter", &n->kids);
}

static int parse_with(struct parser *p, struct node *n)
{
    int rc = 0;
    while (!rc && parser_token(p)->type != T_TAG_CLOSE && parser_token(p)->type != T_COLON) {
        struct node *target, *value;
        if (n->more.n)
            rc = parser_expect(p, T_COMMA);
        if (!rc)
            rc = parse_target(p, NULL, &target);
        if (!rc)
            rc = parser_expect(p, T_ASSIGN);
        if (!rc)
            rc = parse_expression(p, &value);
        if (!rc)
            rc = nodes_push(p, &n->more, target);
        if (!rc)
            rc = nodes_push(p, &n->rest, value);
    }
    return rc ? rc : parse_block_to(p, "endwith", &n->kids);
}

static int parse_print(struct parser *p, struct node *n)
{
    return parse_expression(p, &n->a);
}

static int parse_jump(struct parser *p, struct node *n)
{
    if (p->loops == 0)
        return compile_fail(p->c, E_FORMAT, n->line, "'%s' outside a loop",
                            n->kind == N_BREAK ? "break" : "continue");
    return 0;
}
