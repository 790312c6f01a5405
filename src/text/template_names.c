/* What the names of a scope are, before they have slots: see template_names.h. */
#include "text/template_names.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

const char *node_child_order(enum node_kind kind)
{
    switch (kind) {
    case N_FOR:
        return "abkrc";
    case N_MACRO:
    case N_WITH:
        return "mrk";
    case N_CALLBLOCK:
        return "amrk";
    case N_FILTERBLOCK:
        return "ka";
    default:
        return "abcdkmr";
    }
}

struct nodes node_children(const struct node *n, char letter)
{
    if (letter == 'k' || letter == 'm' || letter == 'r')
        return letter == 'k' ? n->kids : letter == 'm' ? n->more : n->rest;
    struct node *const *one = letter == 'a'   ? &n->a
                              : letter == 'b' ? &n->b
                              : letter == 'c' ? &n->c
                                              : &n->d;
    return (struct nodes){(struct node **)one, *one != NULL};
}

struct symbol *names_find(const struct names *s, struct text name)
{
    for (size_t i = 0; i < s->n; i++)
        if (text_eq(s->at[i].name, name))
            return &s->at[i];
    return NULL;
}

bool names_ref(const struct names *s, const struct names *from, struct text name, struct ref *out)
{
    for (const struct names *k = from; k; k = k->parent) {
        const struct symbol *y = names_find(k, name);
        if (!y)
            continue;
        *out = (struct ref){s->level - k->level, y->slot};
        return true;
    }
    return false;
}

static int define(struct resolver *r, struct names *s, struct text name, enum load load,
                  struct symbol **out)
{
    if (s->n == SCOPE_NAMES_MAX)
        return compile_fail(r->c, E_LIMIT, 1, "more than %d names in one scope", SCOPE_NAMES_MAX);
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 16;
        struct symbol *at = mem_realloc(s->at, cap * sizeof *at);
        if (!at)
            return ERR(r->c->e, E_NOMEM, "%s: out of memory for names", r->c->name);
        s->at = at;
        s->cap = cap;
    }
    assert(s->at);
    *out = &s->at[s->n++];
    **out = (struct symbol){.name = name, .load = load, .slot = -1};
    return 0;
}

int names_param(struct resolver *r, struct names *s, struct text name)
{
    struct symbol *y = names_find(s, name);
    int rc = y ? 0 : define(r, s, name, LOAD_PARAM, &y);
    if (!rc) {
        y->load = LOAD_PARAM;
        y->stored = true;
    }
    return rc;
}

static int name_load(struct resolver *r, struct names *s, struct text name)
{
    struct ref ref;
    struct symbol *y;
    return names_ref(s, s, name, &ref) ? 0 : define(r, s, name, LOAD_CONTEXT, &y);
}

static int name_store(struct resolver *r, struct names *s, struct text name)
{
    struct symbol *y = names_find(s, name);
    if (!y) {
        struct ref outer = {0};
        bool hides = names_ref(s, s->parent, name, &outer);
        int rc = define(r, s, name, hides ? LOAD_OUTER : LOAD_MISSING, &y);
        if (rc)
            return rc;
        y->outer = outer;
    }
    y->stored = true;
    return 0;
}

static int names_copy(struct resolver *r, const struct names *from, struct names *to)
{
    *to = *from;
    to->cap = from->n + 16;
    to->at = mem_array(to->cap, sizeof *to->at);
    if (!to->at)
        return ERR(r->c->e, E_NOMEM, "%s: out of memory for names", r->c->name);
    if (from->n)
        memcpy(to->at, from->at, from->n * sizeof *to->at);
    return 0;
}

/* A symbol of a branch by the index and name it has in the joined scope; branches begin as copies
 * of the first n symbols. NULL when the branch does not know it. */
static const struct symbol *in_branch(const struct names *branch, size_t n, size_t i,
                                      struct text name)
{
    if (i < n)
        return &branch->at[i];
    const struct names news = {.at = branch->at + n, .n = branch->n - n};
    return names_find(&news, name);
}

/* Takes over what a branch of an `if` found out: a later branch has the last word about a name. */
static int names_take(struct resolver *r, struct names *s, size_t n, const struct names *branch)
{
    for (size_t i = 0; i < branch->n; i++) {
        const struct symbol *from = &branch->at[i];
        struct symbol *y = (struct symbol *)in_branch(s, n, i, from->name);
        int rc = y ? 0 : define(r, s, from->name, from->load, &y);
        if (rc)
            return rc;
        assert(y);
        bool stored = y->stored || from->stored;
        *y = *from;
        y->stored = stored;
    }
    return 0;
}

/* Joins the branches of an `if`. What not all of them store keeps its outer value. */
static int names_merge(struct resolver *r, struct names *s, const struct names branch[3])
{
    struct names before;
    size_t n = s->n;
    int rc = names_copy(r, s, &before);
    for (int i = 0; i < 3 && !rc; i++)
        rc = names_take(r, s, n, &branch[i]);
    for (size_t i = 0; i < s->n && !rc; i++) {
        struct symbol *y = &s->at[i];
        if (!y->stored || (i < n && before.at[i].stored))
            continue;
        int stores = 0;
        for (int k = 0; k < 3; k++) {
            const struct symbol *z = in_branch(&branch[k], n, i, y->name);
            stores += z && z->stored;
        }
        if (stores < 3)
            y->load = names_ref(s, s->parent, y->name, &y->outer) ? LOAD_OUTER : LOAD_CONTEXT;
    }
    mem_free(before.at);
    return rc;
}

static int visit_if(struct resolver *r, struct names *s, const struct node *n)
{
    const struct nodes *bodies[3] = {&n->kids, &n->more, &n->rest};
    struct names branch[3] = {{0}};
    int rc = names_visit(r, s, n->a);
    for (int i = 0; i < 3 && !rc; i++) {
        rc = names_copy(r, s, &branch[i]);
        if (!rc)
            rc = names_visit_all(r, &branch[i], bodies[i]);
    }
    if (!rc)
        rc = names_merge(r, s, branch);
    for (int i = 0; i < 3; i++)
        mem_free(branch[i].at);
    return rc;
}

int names_visit_target(struct resolver *r, struct names *s, const struct node *n, bool param)
{
    if (n->kind == N_NSREF)
        return name_load(r, s, n->a->name);
    if (n->kind == N_NAME)
        return param ? names_param(r, s, n->name) : name_store(r, s, n->name);
    for (size_t i = 0; i < n->kids.n; i++) {
        int rc = names_visit_target(r, s, n->kids.at[i], param);
        if (rc)
            return rc;
    }
    return 0;
}

int names_visit(struct resolver *r, struct names *s, const struct node *n)
{
    int rc = 0;
    switch (n->kind) {
    case N_NAME:
        return name_load(r, s, n->name);
    case N_SET:
        rc = names_visit(r, s, n->b);
        return rc ? rc : names_visit_target(r, s, n->a, false);
    case N_SETBLOCK:
        return names_visit_target(r, s, n->a, false);
    case N_IF:
        return visit_if(r, s, n);
    case N_FOR:
        return names_visit(r, s, n->b);
    case N_MACRO:
        return name_store(r, s, n->name);
    case N_WITH:
        return names_visit_all(r, s, &n->rest);
    case N_CALLBLOCK:
    case N_FILTERBLOCK:
        return n->a ? names_visit(r, s, n->a) : 0;
    default:
        for (const char *k = node_child_order(n->kind); *k && !rc; k++) {
            struct nodes l = node_children(n, *k);
            rc = names_visit_all(r, s, &l);
        }
        return rc;
    }
}

int names_visit_all(struct resolver *r, struct names *s, const struct nodes *l)
{
    int rc = 0;
    for (size_t i = 0; i < l->n && !rc; i++)
        rc = names_visit(r, s, l->at[i]);
    return rc;
}

void names_init(struct names *s, struct names *parent, struct routine *new_routine)
{
    *s = (struct names){.parent = parent};
    s->routine = new_routine ? new_routine : parent->routine;
    s->level = !parent ? 0 : parent->level + (new_routine != NULL);
}

int names_finish(struct resolver *r, struct names *s, struct scope **out)
{
    struct scope *scope = *out = compile_alloc(r->c, 1, sizeof *scope);
    if (!scope)
        return -E_NOMEM;
    scope->at = compile_alloc(r->c, s->n, sizeof *scope->at);
    if (!scope->at)
        return -E_NOMEM;
    for (size_t i = 0; i < s->n; i++) {
        struct symbol *y = &s->at[i];
        y->slot = s->routine->n_slots++;
        if (y->load == LOAD_PARAM)
            continue;
        enum entry_action action = y->load == LOAD_CONTEXT ? ENTRY_CONTEXT
                                   : y->load == LOAD_OUTER ? ENTRY_OUTER
                                                           : ENTRY_MISSING;
        scope->at[scope->n++] = (struct entry){action, y->slot, y->outer, y->name};
    }
    return 0;
}
