/* The parsed form of a template and the steps that make it: tokens, tree, names resolved to slots.
 * Private to text/.
 *
 * Scopes follow Jinja2: a name belongs to the scope that assigns it, loops and blocks that capture
 * their output are scopes, `if` is none. Every scope lives in a routine (the template, a macro, the
 * body of a call block, the body of a recursive loop), and a routine's variables are slots of one
 * activation, which its inner routines see. */
#ifndef TEXT_TEMPLATE_AST_H
#define TEXT_TEMPLATE_AST_H

#include "base/arena.h"
#include "base/err.h"
#include "text/template_value.h"

enum {
    SOURCE_MAX = 1 << 20,  /* bytes of a template */
    PARSE_DEPTH_MAX = 100, /* brackets and blocks within one another */
    TREE_DEPTH_MAX = 400,  /* nodes within one another */
    SCOPE_NAMES_MAX = 2000,
};

enum token_type {
    T_END,
    T_DATA, /* text outside tags */
    T_PRINT_OPEN,
    T_PRINT_CLOSE,
    T_TAG_OPEN,
    T_TAG_CLOSE,
    T_NAME,
    T_STRING,
    T_INT,
    T_FLOAT,
    T_ADD,
    T_SUB,
    T_MUL,
    T_DIV,
    T_FLOORDIV,
    T_MOD,
    T_POW,
    T_TILDE,
    T_LBRACKET,
    T_RBRACKET,
    T_LPAREN,
    T_RPAREN,
    T_LBRACE,
    T_RBRACE,
    T_EQ,
    T_NE,
    T_GT,
    T_GE,
    T_LT,
    T_LE,
    T_ASSIGN,
    T_DOT,
    T_COLON,
    T_PIPE,
    T_COMMA,
    T_SEMICOLON,
    T_IN,     /* only as an operator of a comparison in the tree */
    T_NOT_IN, /* likewise */
};

struct token {
    enum token_type type;
    int line;
    struct text text; /* T_DATA, T_NAME, T_STRING (unescaped); else as written */
    union {
        int64_t i;
        double f;
    };
};

enum node_kind {
    /* Expressions */
    N_CONST,   /* value */
    N_NAME,    /* name, ref */
    N_TUPLE,   /* kids */
    N_LIST,    /* kids */
    N_DICT,    /* kids: key, value, key, value... */
    N_CHAIN,   /* kids joined by their op, from left to right: + - * / // % ** */
    N_CONCAT,  /* kids joined by ~ */
    N_AND,     /* kids */
    N_OR,      /* kids */
    N_COMPARE, /* kids, each compared with the one before by its op */
    N_NOT,     /* a */
    N_NEG,     /* a */
    N_POS,     /* a */
    N_COND,    /* b if a else c (or nothing) */
    N_ATTR,    /* a.name */
    N_ITEM,    /* a[b] */
    N_SLICE,   /* a[b:c:d] */
    N_CALL,    /* a(kids, *b, **c), keywords in more */
    N_KEYWORD, /* name=a, only in more of a call */
    N_FILTER,  /* a|builtin(kids...), a is NULL in filter and set blocks: the captured text */
    N_TEST,    /* a is builtin(kids...) */
    /* Statements */
    N_DATA,        /* name: the text */
    N_PRINT,       /* a */
    N_SET,         /* a = b; a is a name, tuple of names, or N_NSREF */
    N_NSREF,       /* a.name as a target */
    N_SETBLOCK,    /* a = kids rendered, through filter b */
    N_IF,          /* a: kids, more: N_IFs of elif, rest: of else */
    N_FOR,         /* a in b if c: kids, rest: of else */
    N_MACRO,       /* a names it; more: parameters, rest: defaults of the last ones, kids */
    N_CALLBLOCK,   /* a: the N_CALL (NULL: a generation block); more, rest, kids as in a macro */
    N_FILTERBLOCK, /* kids through filter a */
    N_WITH,        /* more: targets, rest: their values, kids */
    N_BREAK,
    N_CONTINUE,
};

struct nodes {
    struct node **at;
    size_t n;
};

/* Where a variable lives: `up` routines outward, at `slot`. */
struct ref {
    int up, slot;
};

/* What happens to a scope's own variables when it is entered. */
enum entry_action {
    ENTRY_CONTEXT, /* set from the variables of the rendering */
    ENTRY_OUTER,   /* set from the variable it hides */
    ENTRY_MISSING, /* no value yet */
};
struct entry {
    enum entry_action action;
    int slot;
    struct ref outer;
    struct text name;
};
struct scope {
    struct entry *at;
    size_t n;
};

/* The code of a macro, call block, recursive loop or the template: its slots and special
 * arguments. */
struct routine {
    int n_slots;
    int caller, kwargs, varargs; /* slots, or -1: not used inside */
};

struct builtin;

struct node {
    enum node_kind kind;
    int line;
    bool recursive;     /* N_FOR */
    bool target;        /* N_NAME: is assigned to, not read */
    enum token_type op; /* a kid of N_CHAIN or N_COMPARE: what joins it to the kid before */
    struct text name;
    struct value value;
    struct ref ref; /* N_NAME; N_FOR: the slot of `loop` */
    struct node *a, *b, *c, *d;
    struct nodes kids, more, rest;
    const struct builtin *builtin; /* N_FILTER, N_TEST; NULL: unknown, an error when reached */
    struct scope *scope;           /* of kids */
    struct scope *rest_scope;      /* N_FOR: of else */
    struct scope *test_scope;      /* N_FOR: of the filter */
    struct node *test_target;      /* N_FOR: the target again, in test_scope */
    struct routine *routine;       /* N_MACRO, N_CALLBLOCK, a recursive N_FOR */
};

/* What compiling works on. */
struct compile {
    struct arena *arena; /* the template's */
    const char *name;    /* of the template, for messages */
    struct err *e;
    struct token *tokens; /* ends with T_END */
    size_t n_tokens, cap_tokens;
};

/* Records "NAME, line N: ..." with control characters made blanks; returns -code. */
int compile_fail(struct compile *c, int code, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Zeroed memory of the template, NULL after recording the failure. */
void *compile_alloc(struct compile *c, size_t n, size_t bytes);

/* source: valid UTF-8, kept by the template. */
int template_lex(struct compile *c, struct text source);
int template_parse(struct compile *c, struct nodes *out);
/* Sets every ref, scope and routine; reports unknown filters and tests. */
int template_resolve(struct compile *c, struct nodes *body, struct scope **scope,
                     struct routine *root);

/* The two halves of the parser (template_parse.c: tags, template_expr.c: expressions). */
struct parser {
    struct compile *c;
    size_t at; /* the current token */
    int depth;
    int loops; /* loops around here within the same routine */
};
static inline const struct token *parser_token(const struct parser *p)
{
    return &p->c->tokens[p->at];
}
bool parser_is_word(const struct parser *p, size_t ahead, const char *word);
bool parser_skip_word(struct parser *p, const char *word);
bool parser_skip(struct parser *p, enum token_type type);
int parser_expect(struct parser *p, enum token_type type);
int parser_fail(struct parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Says that the current token is not what the grammar wants here. */
int parser_unexpected(struct parser *p, const char *want);
int parser_enter(struct parser *p); /* one level deeper; error past PARSE_DEPTH_MAX */
void parser_leave(struct parser *p);
struct node *parser_node(struct parser *p, enum node_kind kind, int line);
/* Grows by doubling inside the arena. */
int nodes_push(struct parser *p, struct nodes *l, struct node *n);

/* TUPLE_NO_COND: its elements are no `x if y`; TUPLE_TARGET: they are names; TUPLE_PAREN: it
 * stands in parentheses and may be empty. end_word ends it besides the end of a tag and ")", or
 * is NULL. */
enum tuple_flags { TUPLE_NO_COND = 1, TUPLE_TARGET = 2, TUPLE_PAREN = 4 };
int parse_expression(struct parser *p, struct node **out);
int parse_tuple(struct parser *p, int flags, const char *end_word, struct node **out);
int parse_call_args(struct parser *p, struct node *call);
/* The filters behind "|" (or, with `bare`, one that is not behind one) applied to a. */
int parse_filters(struct parser *p, struct node *a, bool bare, struct node **out);

#endif
