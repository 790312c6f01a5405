/* Analysis of a scope: which names it reads and assigns, and where each comes from.
 *
 * A scope is analysed as a whole first: a name that it reads and nobody outside knows comes from
 * the variables of the rendering; a name that it assigns is its own, starts without a value, or
 * with the value of the outer variable that it hides. `if` is no scope: a name that only some of
 * its branches assign keeps what it had outside. template_resolve.c walks the scopes. */
#ifndef TEXT_TEMPLATE_NAMES_H
#define TEXT_TEMPLATE_NAMES_H

#include "text/template_ast.h"
#include "text/template_run.h"

enum load { LOAD_PARAM, LOAD_CONTEXT, LOAD_OUTER, LOAD_MISSING };

struct symbol {
    struct text name;
    enum load load;
    struct ref outer;
    int slot; /* -1 until names_finish */
    bool stored;
};

/* A scope under analysis. */
struct names {
    struct names *parent;
    struct routine *routine;
    int level;         /* routines around */
    struct symbol *at; /* owned, mem_free */
    size_t n, cap;
};

struct resolver {
    struct compile *c;
    int soft;  /* within an `if`: unknown filters and tests fail only when reached */
    int loops; /* loops around */
};

/* The children of a node in the order of the source: fields a b c d, and the lists k(ids), m(ore),
 * r(est). The name of a macro is none of its children. */
const char *node_child_order(enum node_kind kind);
/* The children that one letter of that stands for. */
struct nodes node_children(const struct node *n, char letter);

/* An empty scope, of a routine of its own or (NULL) of its parent's. */
void names_init(struct names *s, struct names *parent, struct routine *new_routine);
/* Collects the names of a node that belong to scope s; inner scopes are left out. */
int names_visit(struct resolver *r, struct names *s, const struct node *n);
int names_visit_all(struct resolver *r, struct names *s, const struct nodes *l);
/* The names of an assignment's target; param: they have values when the scope is entered. */
int names_visit_target(struct resolver *r, struct names *s, const struct node *n, bool param);
int names_param(struct resolver *r, struct names *s, struct text name);
/* Gives the scope's symbols their slots and writes down what entering the scope does. */
int names_finish(struct resolver *r, struct names *s, struct scope **out);

/* NULL: the scope itself does not know the name. */
struct symbol *names_find(const struct names *s, struct text name);
/* Where the name lives as seen from scope s, looking outward from scope `from`. */
bool names_ref(const struct names *s, const struct names *from, struct text name, struct ref *out);

#endif
