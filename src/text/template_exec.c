/* Statements: printing, assignments, branches, loops, definitions. See template_ast.h for the
 * nodes.
 *
 * `break` and `continue` set the rendering's flow, which every list of statements hands outward
 * until the loop takes it. */
#include <string.h>

#include "text/template_run.h"

static int exec(struct render *r, const struct node *n);

struct activation *activation_new(struct render *r, const struct routine *routine,
                                  struct activation *up)
{
    struct activation *a = render_alloc(r, 1, sizeof *a);
    if (!a)
        return NULL;
    a->up = up;
    a->slot = render_alloc(r, (size_t)routine->n_slots, sizeof *a->slot);
    return a->slot ? a : NULL;
}

struct value *slot_at(struct render *r, struct ref ref)
{
    struct activation *a = r->act;
    for (int i = 0; i < ref.up; i++)
        a = a->up;
    return &a->slot[ref.slot];
}

/* A variable from outside: the rendering's variables, then the built-in functions. */
static int context_value(struct render *r, struct text name, struct value *out)
{
    const struct value *v = dict_get(r->vars, name);
    const struct builtin *f = v ? NULL : function_find(name);
    *out = v ? *v : (struct value){.kind = K_MISSING};
    if (!f)
        return 0;
    struct bound *b = render_alloc(r, 1, sizeof *b);
    if (!b)
        return render_failed(r);
    b->builtin = f;
    *out = (struct value){.kind = K_FUNCTION, .bound = b};
    return 0;
}

int scope_enter(struct render *r, const struct scope *s)
{
    int rc = render_steps(r, 1 + s->n / 8);
    for (size_t i = 0; i < s->n && !rc; i++) {
        const struct entry *e = &s->at[i];
        struct value *to = &r->act->slot[e->slot];
        if (e->action == ENTRY_CONTEXT)
            rc = context_value(r, e->name, to);
        else if (e->action == ENTRY_OUTER)
            *to = *slot_at(r, e->outer);
        else
            to->kind = K_MISSING;
    }
    return rc;
}

int exec_template(struct render *r)
{
    int rc = scope_enter(r, r->t->scope);
    return rc ? rc : exec_all(r, &r->t->body);
}

int exec_all(struct render *r, const struct nodes *body)
{
    int rc = 0;
    for (size_t i = 0; i < body->n && !rc && r->flow == FLOW_ON; i++)
        rc = exec(r, body->at[i]);
    return rc;
}

int exec_captured(struct render *r, const struct nodes *body, struct value *out)
{
    struct buf text = BUF_INIT, *outer = r->out;
    r->out = &text;
    int rc = exec_all(r, body);
    r->out = outer;
    return render_take(r, &text, rc, out);
}

static int print_text(struct render *r, struct text t)
{
    int rc = render_grown(r, r->out->len + t.len, t.len);
    if (!rc)
        buf_add(r->out, t.p, t.len);
    return rc;
}

static int print_any(struct render *r, const struct value *v)
{
    size_t before = r->out->len;
    if (v->kind == K_STR)
        return print_text(r, v->s);
    int rc = value_print(r, v, r->out);
    return rc ? rc : render_grown(r, r->out->len, r->out->len - before);
}

static int exec_print(struct render *r, const struct node *n)
{
    struct value v;
    int rc = eval(r, n->a, &v);
    return rc ? rc : print_any(r, &v);
}

static int assign_tuple(struct render *r, const struct node *target, const struct value *v)
{
    struct list *l;
    int rc = value_to_list(r, v, &l);
    if (rc)
        return rc;
    if (l->n != target->kids.n)
        return render_fail(r, E_FORMAT, "want %zu values to take apart, found %zu", target->kids.n,
                           l->n);
    for (size_t i = 0; i < l->n && !rc; i++)
        rc = assign(r, target->kids.at[i], &l->at[i]);
    return rc;
}

int assign(struct render *r, const struct node *target, const struct value *v)
{
    if (target->kind == N_TUPLE)
        return assign_tuple(r, target, v);
    if (target->kind == N_NAME) {
        *slot_at(r, target->ref) = *v;
        return 0;
    }
    struct value *space = slot_at(r, target->a->ref);
    if (space->kind != K_NAMESPACE)
        return render_fail(r, E_FORMAT, "'%.*s' is no namespace, its attributes cannot be set",
                           (int)target->a->name.len, target->a->name.p);
    return dict_set(r, space->dict, V_STR(target->name), *v);
}

static int exec_set(struct render *r, const struct node *n)
{
    struct value v;
    int rc = eval(r, n->b, &v);
    return rc ? rc : assign(r, n->a, &v);
}

/* The text of a body, then through the filters f, whose innermost subject it is. */
static int captured_through(struct render *r, const struct node *n, const struct node *f,
                            struct value *out)
{
    struct value outer = r->captured;
    int rc = scope_enter(r, n->scope);
    if (!rc)
        rc = exec_captured(r, &n->kids, out);
    if (rc || !f || r->flow != FLOW_ON)
        return rc;
    r->captured = *out;
    rc = eval(r, f, out);
    r->captured = outer;
    return rc;
}

static int exec_set_block(struct render *r, const struct node *n)
{
    struct value v;
    int rc = captured_through(r, n, n->b, &v);
    return rc || r->flow != FLOW_ON ? rc : assign(r, n->a, &v);
}

static int exec_filter_block(struct render *r, const struct node *n)
{
    struct value v;
    int rc = captured_through(r, n, n->a, &v);
    return rc || r->flow != FLOW_ON ? rc : print_any(r, &v);
}

static int exec_if(struct render *r, const struct node *n)
{
    struct value v;
    int rc = eval(r, n->a, &v);
    if (rc)
        return rc;
    if (value_truth(&v))
        return exec_all(r, &n->kids);
    for (size_t i = 0; i < n->more.n; i++) {
        const struct node *branch = n->more.at[i];
        r->line = branch->line;
        rc = eval(r, branch->a, &v);
        if (rc)
            return rc;
        if (value_truth(&v))
            return exec_all(r, &branch->kids);
    }
    return exec_all(r, &n->rest);
}

/* The iterations of a loop whose scopes are in the current activation. */
static int run_loop(struct render *r, struct loop *l)
{
    const struct node *n = l->node;
    bool any = false;
    l->act = r->act;
    int rc = n->test_scope ? scope_enter(r, n->test_scope) : 0;
    if (rc)
        return rc;
    for (;;) {
        struct value item;
        rc = loop_next(r, l, &item);
        if (rc)
            return rc;
        if (item.kind == K_MISSING)
            break;
        rc = assign(r, n->a, &item);
        r->act->slot[n->ref.slot] = (struct value){.kind = K_LOOP, .loop = l};
        if (!rc)
            rc = scope_enter(r, n->scope);
        if (!rc)
            rc = exec_all(r, &n->kids);
        if (rc)
            return rc;
        bool stop = r->flow == FLOW_BREAK;
        any |= r->flow == FLOW_ON;
        r->flow = FLOW_ON;
        if (stop)
            break;
    }
    if (any || !n->rest_scope)
        return 0;
    rc = scope_enter(r, n->rest_scope);
    return rc ? rc : exec_all(r, &n->rest);
}

/* A loop as a routine of its own, one level deeper. */
static int run_recursive(struct render *r, struct loop *l)
{
    struct activation *outer = r->act;
    if (++r->calls > r->lim.depth) {
        r->calls--;
        return render_fail(r, E_LIMIT, "loops and macros are nested deeper than %d levels",
                           r->lim.depth);
    }
    r->act = activation_new(r, l->node->routine, l->up);
    int rc = r->act ? run_loop(r, l) : render_failed(r);
    r->act = outer;
    r->calls--;
    return rc;
}

static int exec_for(struct render *r, const struct node *n)
{
    struct value over;
    struct loop *l = render_alloc(r, 1, sizeof *l);
    int rc = l ? eval(r, n->b, &over) : render_failed(r);
    if (!rc)
        rc = loop_init(r, l, n, &over);
    if (rc)
        return rc;
    return n->recursive ? run_recursive(r, l) : run_loop(r, l);
}

int loop_recurse(struct render *r, const struct loop *l, const struct value *over,
                 struct value *out)
{
    if (!l->node->recursive)
        return render_fail(r, E_FORMAT, "only a loop marked 'recursive' can be called");
    struct buf text = BUF_INIT, *outer = r->out;
    struct loop *inner = render_alloc(r, 1, sizeof *inner);
    int rc = inner ? loop_init(r, inner, l->node, over) : render_failed(r);
    if (!rc) {
        inner->up = l->up;
        inner->depth0 = l->depth0 + 1;
        r->out = &text;
        rc = run_recursive(r, inner);
        r->out = outer;
    }
    return render_take(r, &text, rc, out);
}

static int exec_macro(struct render *r, const struct node *n)
{
    struct macro *m = render_alloc(r, 1, sizeof *m);
    if (!m)
        return render_failed(r);
    *m = (struct macro){n, r->act};
    return assign(r, n->a, &(struct value){.kind = K_MACRO, .macro = m});
}

/* A call with the block's body as the extra argument `caller`; or, for a generation block, just the
 * body. */
static int exec_call_block(struct render *r, const struct node *n)
{
    struct macro *m = render_alloc(r, 1, sizeof *m);
    struct args a = {0};
    struct value callee, v;
    if (!m)
        return render_failed(r);
    *m = (struct macro){n, r->act};
    struct value caller = {.kind = K_MACRO, .macro = m};
    if (!n->a) {
        int rc = call_value(r, &caller, &a, &v);
        return rc ? rc : print_any(r, &v);
    }
    int rc = eval(r, n->a->a, &callee);
    if (!rc)
        rc = eval_args(r, n->a, &a);
    if (!rc)
        rc = args_add_named(r, &a, TEXT("caller"), caller);
    if (!rc)
        rc = call_value(r, &callee, &a, &v);
    return rc ? rc : print_any(r, &v);
}

static int exec_with(struct render *r, const struct node *n)
{
    int rc = scope_enter(r, n->scope);
    for (size_t i = 0; i < n->more.n && !rc; i++) {
        struct value v;
        rc = eval(r, n->rest.at[i], &v);
        if (!rc)
            rc = assign(r, n->more.at[i], &v);
    }
    return rc ? rc : exec_all(r, &n->kids);
}

static int exec_node(struct render *r, const struct node *n)
{
    switch (n->kind) {
    case N_DATA:
        return print_text(r, n->name);
    case N_PRINT:
        return exec_print(r, n);
    case N_SET:
        return exec_set(r, n);
    case N_SETBLOCK:
        return exec_set_block(r, n);
    case N_IF:
        return exec_if(r, n);
    case N_FOR:
        return exec_for(r, n);
    case N_MACRO:
        return exec_macro(r, n);
    case N_CALLBLOCK:
        return exec_call_block(r, n);
    case N_FILTERBLOCK:
        return exec_filter_block(r, n);
    case N_WITH:
        return exec_with(r, n);
    default:
        r->flow = n->kind == N_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
        return 0;
    }
}

static int exec(struct render *r, const struct node *n)
{
    int line = r->line;
    r->line = n->line;
    int rc = render_steps(r, 1);
    if (!rc)
        rc = render_enter(r);
    if (rc)
        return rc;
    rc = exec_node(r, n);
    render_leave(r);
    if (!rc)
        r->line = line;
    return rc;
}
