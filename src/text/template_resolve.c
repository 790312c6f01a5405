/* Names to slots, as Jinja2 scopes them, before anything runs.
 *
 * A scope is analysed as a whole first: a name that it reads and nobody outside knows comes from
 * the variables of the rendering; a name that it assigns is its own, starts without a value, or
 * with the value of the outer variable that it hides. `if` is no scope: a name that only some of
 * its branches assign keeps what it had outside. Then the scope's nodes get their slots, and
 * inner scopes follow.
 *
 * Loops, captured blocks and `with` are scopes; macros, call blocks and recursive loops are
 * routines, whose activations have slots of their own. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "text/template_ast.h"
#include "text/template_run.h"

enum load { LOAD_PARAM, LOAD_CONTEXT, LOAD_OUTER, LOAD_MISSING };

struct symbol {
    struct text name;
    enum load load;
    struct ref outer;
    int slot;
    bool stored;
};

/* A scope under analysis. */
struct names {
    struct names *parent;
    struct routine *routine;
    int level; /* routines around */
    struct symbol *at;
    size_t n, cap;
};

struct resolver {
    struct compile *c;
    int soft;  /* within an `if`: unknown filters and tests fail only when reached */
    int loops; /* loops around */
};

static int visit(struct resolver *r, struct names *s, const struct node *n);
static int visit_all(struct resolver *r, struct names *s, const struct nodes *l);
static int resolve(struct resolver *r, struct names *s, struct node *n);
static int resolve_all(struct resolver *r, struct names *s, const struct nodes *l);

/* The children of a node in the order of the source: fields a b c d, and the lists k(ids), m(ore),
 * r(est). The name of a macro is none of its children. */
static const char *child_order(enum node_kind kind)
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

/* The children that one letter of child_order stands for. */
static struct nodes children_of(const struct node *n, char letter)
{
    if (letter == 'k' || letter == 'm' || letter == 'r')
        return letter == 'k' ? n->kids : letter == 'm' ? n->more : n->rest;
    struct node *const *one = letter == 'a'   ? &n->a
                              : letter == 'b' ? &n->b
                              : letter == 'c' ? &n->c
                                              : &n->d;
    return (struct nodes){(struct node **)one, *one != NULL};
}

/* Refuses trees so high that walking them could exhaust the stack. */
static int measure(struct resolver *r, const struct node *n, int height)
{
    if (height > TREE_DEPTH_MAX)
        return compile_fail(r->c, E_LIMIT, n->line, "an expression has more than %d steps in a row",
                            TREE_DEPTH_MAX);
    int rc = 0;
    for (const char *k = child_order(n->kind); *k && !rc; k++) {
        struct nodes l = children_of(n, *k);
        for (size_t i = 0; i < l.n && !rc; i++)
            rc = measure(r, l.at[i], height + 1);
    }
    return rc;
}

static struct symbol *find_here(const struct names *s, struct text name)
{
    for (size_t i = 0; i < s->n; i++)
        if (text_eq(s->at[i].name, name))
            return &s->at[i];
    return NULL;
}

/* Where the name lives as seen from scope s, looking outward from scope `from`. */
static bool find_ref(const struct names *s, const struct names *from, struct text name,
                     struct ref *out)
{
    for (const struct names *k = from; k; k = k->parent) {
        const struct symbol *y = find_here(k, name);
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

static int name_param(struct resolver *r, struct names *s, struct text name)
{
    struct symbol *y = find_here(s, name);
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
    return find_ref(s, s, name, &ref) ? 0 : define(r, s, name, LOAD_CONTEXT, &y);
}

static int name_store(struct resolver *r, struct names *s, struct text name)
{
    struct symbol *y = find_here(s, name);
    if (!y) {
        struct ref outer = {0};
        bool hides = find_ref(s, s->parent, name, &outer);
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
    return find_here(&news, name);
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
            y->load = find_ref(s, s->parent, y->name, &y->outer) ? LOAD_OUTER : LOAD_CONTEXT;
    }
    mem_free(before.at);
    return rc;
}

static int visit_if(struct resolver *r, struct names *s, const struct node *n)
{
    const struct nodes *bodies[3] = {&n->kids, &n->more, &n->rest};
    struct names branch[3] = {{0}};
    int rc = visit(r, s, n->a);
    for (int i = 0; i < 3 && !rc; i++) {
        rc = names_copy(r, s, &branch[i]);
        if (!rc)
            rc = visit_all(r, &branch[i], bodies[i]);
    }
    if (!rc)
        rc = names_merge(r, s, branch);
    for (int i = 0; i < 3; i++)
        mem_free(branch[i].at);
    return rc;
}

static int visit_target(struct resolver *r, struct names *s, const struct node *n, bool param)
{
    if (n->kind == N_NSREF)
        return name_load(r, s, n->a->name);
    if (n->kind == N_NAME)
        return param ? name_param(r, s, n->name) : name_store(r, s, n->name);
    for (size_t i = 0; i < n->kids.n; i++) {
        int rc = visit_target(r, s, n->kids.at[i], param);
        if (rc)
            return rc;
    }
    return 0;
}

/* Collects the names of a node that belong to scope s; inner scopes are left out. */
static int visit(struct resolver *r, struct names *s, const struct node *n)
{
    int rc = 0;
    switch (n->kind) {
    case N_NAME:
        return name_load(r, s, n->name);
    case N_SET:
        rc = visit(r, s, n->b);
        return rc ? rc : visit_target(r, s, n->a, false);
    case N_SETBLOCK:
        return visit_target(r, s, n->a, false);
    case N_IF:
        return visit_if(r, s, n);
    case N_FOR:
        return visit(r, s, n->b);
    case N_MACRO:
        return name_store(r, s, n->name);
    case N_WITH:
        return visit_all(r, s, &n->rest);
    case N_CALLBLOCK:
    case N_FILTERBLOCK:
        return n->a ? visit(r, s, n->a) : 0;
    default:
        for (const char *k = child_order(n->kind); *k && !rc; k++) {
            struct nodes l = children_of(n, *k);
            rc = visit_all(r, s, &l);
        }
        return rc;
    }
}

static int visit_all(struct resolver *r, struct names *s, const struct nodes *l)
{
    int rc = 0;
    for (size_t i = 0; i < l->n && !rc; i++)
        rc = visit(r, s, l->at[i]);
    return rc;
}

static void names_init(struct names *s, struct names *parent, struct routine *new_routine)
{
    *s = (struct names){.parent = parent};
    s->routine = new_routine ? new_routine : parent->routine;
    s->level = !parent ? 0 : parent->level + (new_routine != NULL);
}

/* Gives the scope's symbols their slots and writes down what entering the scope does. */
static int names_finish(struct resolver *r, struct names *s, struct scope **out)
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

static struct routine *routine_new(struct resolver *r)
{
    struct routine *o = compile_alloc(r->c, 1, sizeof *o);
    if (o)
        o->caller = o->kwargs = o->varargs = -1;
    return o;
}

/* Which comes first among the uses of a name in a tree, in the order of the source: 1 a reading, -1
 * an assignment, 0 neither. */
static int first_use(const struct node *n, const char *name)
{
    int use = 0;
    if (n->kind == N_NSREF)
        return 0;
    if (n->kind == N_NAME)
        return text_is(n->name, name) ? n->target ? -1 : 1 : 0;
    for (const char *k = child_order(n->kind); *k && !use; k++) {
        struct nodes l = children_of(n, *k);
        for (size_t i = 0; i < l.n && !use; i++)
            use = first_use(l.at[i], name);
    }
    return use;
}

static bool body_reads(const struct node *n, const char *name)
{
    int use = 0;
    for (size_t i = 0; i < n->kids.n && !use; i++)
        use = first_use(n->kids.at[i], name);
    return use == 1;
}

/* Declares caller, kwargs or varargs in a routine that reads it and has no parameter of the
 * name. */
static int special_param(struct resolver *r, struct names *s, const struct node *n,
                         const char *name, bool *used)
{
    *used = false;
    if (!body_reads(n, name))
        return 0;
    for (size_t i = 0; i < n->more.n; i++)
        if (text_is(n->more.at[i]->name, name))
            return 0;
    *used = true;
    return name_param(r, s, text_of(name));
}

static int slot_of(const struct names *s, const char *name)
{
    const struct symbol *y = find_here(s, text_of(name));
    return y ? y->slot : -1;
}

/* A macro or the body of a call block. */
static int resolve_routine(struct resolver *r, struct names *outer, struct node *n)
{
    struct names s;
    bool caller = false, kwargs = false, varargs = false;
    n->routine = routine_new(r);
    if (!n->routine)
        return -E_NOMEM;
    names_init(&s, outer, n->routine);
    int rc = 0;
    for (size_t i = 0; i < n->more.n && !rc; i++)
        rc = name_param(r, &s, n->more.at[i]->name);
    if (!rc)
        rc = visit_all(r, &s, &n->rest);
    if (!rc)
        rc = special_param(r, &s, n, "caller", &caller);
    if (!rc)
        rc = special_param(r, &s, n, "kwargs", &kwargs);
    if (!rc)
        rc = special_param(r, &s, n, "varargs", &varargs);
    if (!rc)
        rc = visit_all(r, &s, &n->kids);
    if (!rc)
        rc = names_finish(r, &s, &n->scope);
    if (!rc) {
        n->routine->caller = caller ? slot_of(&s, "caller") : -1;
        n->routine->kwargs = kwargs ? slot_of(&s, "kwargs") : -1;
        n->routine->varargs = varargs ? slot_of(&s, "varargs") : -1;
        rc = resolve_all(r, &s, &n->more);
    }
    if (!rc)
        rc = resolve_all(r, &s, &n->rest);
    if (!rc)
        rc = resolve_all(r, &s, &n->kids);
    mem_free(s.at);
    return rc;
}

/* A body that is a scope of its own: a set, filter or with block, a loop's else or filter. */
struct inner {
    struct routine *routine;     /* its own, or NULL */
    const struct nodes *targets; /* its own variables from the start, or NULL */
    struct node *expression;     /* evaluated inside, behind the body; or NULL */
    const struct nodes *body;
};

static int resolve_scope(struct resolver *r, struct names *outer, const struct inner *in,
                         struct scope **out)
{
    struct names s;
    names_init(&s, outer, in->routine);
    int rc = 0;
    for (size_t i = 0; in->targets && i < in->targets->n && !rc; i++)
        rc = visit_target(r, &s, in->targets->at[i], true);
    if (!rc)
        rc = visit_all(r, &s, in->body);
    if (!rc && in->expression)
        rc = visit(r, &s, in->expression);
    if (!rc)
        rc = names_finish(r, &s, out);
    if (!rc && in->targets)
        rc = resolve_all(r, &s, in->targets);
    if (!rc)
        rc = resolve_all(r, &s, in->body);
    if (!rc && in->expression)
        rc = resolve(r, &s, in->expression);
    mem_free(s.at);
    return rc;
}

/* A copy of a target's names, to be assigned in another scope. */
static int copy_target(struct resolver *r, const struct node *n, struct node **out)
{
    struct node *to = *out = compile_alloc(r->c, 1, sizeof *to);
    if (!to)
        return -E_NOMEM;
    *to = *n;
    to->kids.at = compile_alloc(r->c, n->kids.n, sizeof(struct node *));
    if (!to->kids.at)
        return -E_NOMEM;
    int rc = 0;
    for (size_t i = 0; i < n->kids.n && !rc; i++)
        rc = copy_target(r, n->kids.at[i], &to->kids.at[i]);
    return rc;
}

static int resolve_loop_body(struct resolver *r, struct names *outer, struct node *n)
{
    struct names s;
    names_init(&s, outer, n->routine);
    int rc = name_param(r, &s, TEXT("loop"));
    if (!rc)
        rc = visit_target(r, &s, n->a, true);
    if (!rc)
        rc = visit_all(r, &s, &n->kids);
    if (!rc)
        rc = names_finish(r, &s, &n->scope);
    if (!rc) {
        n->ref.slot = slot_of(&s, "loop");
        rc = resolve(r, &s, n->a);
    }
    if (!rc)
        rc = resolve_all(r, &s, &n->kids);
    mem_free(s.at);
    return rc;
}

static int resolve_for(struct resolver *r, struct names *s, struct node *n)
{
    static const struct nodes nothing;
    int rc = resolve(r, s, n->b);
    if (!rc && n->recursive) {
        n->routine = routine_new(r);
        rc = n->routine ? 0 : -E_NOMEM;
    }
    r->loops++;
    if (!rc)
        rc = resolve_loop_body(r, s, n);
    if (!rc && n->rest.n)
        rc = resolve_scope(r, s, &(struct inner){n->routine, NULL, NULL, &n->rest}, &n->rest_scope);
    if (!rc && n->c) {
        rc = copy_target(r, n->a, &n->test_target);
        struct nodes target = {&n->test_target, 1};
        if (!rc)
            rc = resolve_scope(r, s, &(struct inner){n->routine, &target, n->c, &nothing},
                               &n->test_scope);
    }
    r->loops--;
    return rc;
}

static int resolve_name(struct resolver *r, struct names *s, struct node *n)
{
    if (n->target && r->loops && text_is(n->name, "loop"))
        return compile_fail(r->c, E_FORMAT, n->line, "'loop' cannot be assigned to inside a loop");
    bool known = find_ref(s, s, n->name, &n->ref);
    assert(known); /* the scope was analysed */
    return known ? 0 : -E_FORMAT;
}

static int resolve_builtin(struct resolver *r, struct node *n)
{
    bool filter = n->kind == N_FILTER;
    n->builtin = filter ? filter_find(n->name) : test_find(n->name);
    if (n->builtin || r->soft)
        return 0;
    return compile_fail(r->c, E_FORMAT, n->line, "there is no %s called '%.*s'",
                        filter ? "filter" : "test", (int)(n->name.len > 60 ? 60 : n->name.len),
                        n->name.p);
}

static int resolve_children(struct resolver *r, struct names *s, struct node *n)
{
    bool soft = n->kind == N_IF || n->kind == N_COND;
    int rc = 0;
    r->soft += soft;
    for (const char *k = child_order(n->kind); *k && !rc; k++) {
        struct nodes l = children_of(n, *k);
        rc = resolve_all(r, s, &l);
    }
    r->soft -= soft;
    return rc;
}

/* Gives every name in a node its slot, inner scopes included. */
static int resolve(struct resolver *r, struct names *s, struct node *n)
{
    int rc;
    switch (n->kind) {
    case N_NAME:
        return resolve_name(r, s, n);
    case N_FOR:
        return resolve_for(r, s, n);
    case N_MACRO:
        rc = resolve(r, s, n->a);
        return rc ? rc : resolve_routine(r, s, n);
    case N_CALLBLOCK:
        rc = n->a ? resolve(r, s, n->a) : 0;
        return rc ? rc : resolve_routine(r, s, n);
    case N_SETBLOCK:
        rc = resolve(r, s, n->a);
        return rc ? rc
                  : resolve_scope(r, s, &(struct inner){NULL, NULL, n->b, &n->kids}, &n->scope);
    case N_FILTERBLOCK:
        return resolve_scope(r, s, &(struct inner){NULL, NULL, n->a, &n->kids}, &n->scope);
    case N_WITH:
        rc = resolve_all(r, s, &n->rest);
        return rc ? rc
                  : resolve_scope(r, s, &(struct inner){NULL, &n->more, NULL, &n->kids}, &n->scope);
    case N_FILTER:
    case N_TEST:
        rc = resolve_builtin(r, n);
        return rc ? rc : resolve_children(r, s, n);
    default:
        return resolve_children(r, s, n);
    }
}

static int resolve_all(struct resolver *r, struct names *s, const struct nodes *l)
{
    int rc = 0;
    for (size_t i = 0; i < l->n && !rc; i++)
        rc = resolve(r, s, l->at[i]);
    return rc;
}

int template_resolve(struct compile *c, struct nodes *body, struct scope **scope,
                     struct routine *root)
{
    struct resolver r = {.c = c};
    struct names s;
    int rc = 0;
    *root = (struct routine){.caller = -1, .kwargs = -1, .varargs = -1};
    names_init(&s, NULL, root);
    for (size_t i = 0; i < body->n && !rc; i++)
        rc = measure(&r, body->at[i], 1);
    if (!rc)
        rc = visit_all(&r, &s, body);
    if (!rc)
        rc = names_finish(&r, &s, scope);
    if (!rc)
        rc = resolve_all(&r, &s, body);
    mem_free(s.at);
    return rc;
}
