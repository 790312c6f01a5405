/* Names to slots, as Jinja2 scopes them, before anything runs. A scope is analysed as a whole
 * (template_names.h), then its nodes get their slots, and inner scopes follow.
 *
 * Loops, captured blocks and `with` are scopes; macros, call blocks and recursive loops are
 * routines, whose activations have slots of their own. */
#include <assert.h>

#include "base/mem.h"
#include "text/template_names.h"

static int resolve(struct resolver *r, struct names *s, struct node *n);
static int resolve_all(struct resolver *r, struct names *s, const struct nodes *l);

/* Refuses trees so high that walking them could exhaust the stack. */
static int measure(struct resolver *r, const struct node *n, int height)
{
    if (height > TREE_DEPTH_MAX)
        return compile_fail(r->c, E_LIMIT, n->line, "an expression has more than %d steps in a row",
                            TREE_DEPTH_MAX);
    int rc = 0;
    for (const char *k = node_child_order(n->kind); *k && !rc; k++) {
        struct nodes l = node_children(n, *k);
        for (size_t i = 0; i < l.n && !rc; i++)
            rc = measure(r, l.at[i], height + 1);
    }
    return rc;
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
    for (const char *k = node_child_order(n->kind); *k && !use; k++) {
        struct nodes l = node_children(n, *k);
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
    return names_param(r, s, text_of(name));
}

static int slot_of(const struct names *s, const char *name)
{
    const struct symbol *y = names_find(s, text_of(name));
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
        rc = names_param(r, &s, n->more.at[i]->name);
    if (!rc)
        rc = names_visit_all(r, &s, &n->rest);
    if (!rc)
        rc = special_param(r, &s, n, "caller", &caller);
    if (!rc)
        rc = special_param(r, &s, n, "kwargs", &kwargs);
    if (!rc)
        rc = special_param(r, &s, n, "varargs", &varargs);
    if (!rc)
        rc = names_visit_all(r, &s, &n->kids);
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
        rc = names_visit_target(r, &s, in->targets->at[i], true);
    if (!rc)
        rc = names_visit_all(r, &s, in->body);
    if (!rc && in->expression)
        rc = names_visit(r, &s, in->expression);
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
    int rc = names_param(r, &s, TEXT("loop"));
    if (!rc)
        rc = names_visit_target(r, &s, n->a, true);
    if (!rc)
        rc = names_visit_all(r, &s, &n->kids);
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
    bool known = names_ref(s, s, n->name, &n->ref);
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
    for (const char *k = node_child_order(n->kind); *k && !rc; k++) {
        struct nodes l = node_children(n, *k);
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
        rc = names_visit_all(&r, &s, body);
    if (!rc)
        rc = names_finish(&r, &s, scope);
    if (!rc)
        rc = resolve_all(&r, &s, body);
    mem_free(s.at);
    return rc;
}
