/* Calls: arguments evaluated and bound, macros run, built-ins given their arguments in order. */
#include <assert.h>
#include <string.h>

#include "text/template_run.h"

static int append_values(struct render *r, const struct value *v, struct args *out)
{
    struct list *l;
    int rc = value_to_list(r, v, &l);
    if (rc || !l->n)
        return rc;
    struct value *at = render_alloc(r, out->n + l->n, sizeof *at);
    if (!at)
        return render_failed(r);
    if (out->n)
        memcpy(at, out->at, out->n * sizeof *at);
    assert(l->at);
    memcpy(at + out->n, l->at, l->n * sizeof *at);
    out->at = at;
    out->n += l->n;
    return 0;
}

static int append_named(struct render *r, const struct value *v, struct args *out)
{
    if (v->kind != K_DICT)
        return render_fail(r, E_FORMAT, "want a dictionary behind **, found %s", value_type(v));
    int rc = 0;
    for (size_t i = 0; i < v->dict->n && !rc; i++) {
        const struct pair *p = &v->dict->at[i];
        if (p->key.kind != K_STR)
            return render_fail(r, E_FORMAT, "an argument's name must be text, found %s",
                               value_type(&p->key));
        rc = args_add_named(r, out, p->key.s, p->value);
    }
    return rc;
}

int args_add_named(struct render *r, struct args *a, struct text name, struct value v)
{
    for (size_t i = 0; i < a->n_named; i++)
        if (text_eq(a->named[i].key.s, name))
            return render_fail(r, E_FORMAT, "the argument '%.*s' is given twice", (int)name.len,
                               name.p);
    struct pair *more = render_alloc(r, a->n_named + 1, sizeof *more);
    if (!more)
        return render_failed(r);
    if (a->n_named)
        memcpy(more, a->named, a->n_named * sizeof *more);
    more[a->n_named++] = (struct pair){.key = V_STR(name), .value = v};
    a->named = more;
    return render_steps(r, 1 + a->n_named / 16);
}

int eval_args(struct render *r, const struct node *call, struct args *out)
{
    struct value v;
    int rc = 0;
    *out = (struct args){.n = call->kids.n};
    if (call->kids.n) {
        out->at = render_alloc(r, call->kids.n, sizeof *out->at);
        rc = out->at ? 0 : render_failed(r);
    }
    for (size_t i = 0; i < call->kids.n && !rc; i++)
        rc = eval(r, call->kids.at[i], &out->at[i]);
    for (size_t i = 0; i < call->more.n && !rc; i++) {
        rc = eval(r, call->more.at[i]->a, &v);
        if (!rc)
            rc = args_add_named(r, out, call->more.at[i]->name, v);
    }
    if (!rc && call->b) {
        rc = eval(r, call->b, &v);
        if (!rc)
            rc = append_values(r, &v, out);
    }
    if (!rc && call->c) {
        rc = eval(r, call->c, &v);
        if (!rc)
            rc = append_named(r, &v, out);
    }
    return rc;
}

/* The slots of the special arguments: caller, kwargs, varargs, where the macro's body reads
 * them. */
static int bind_special(struct render *r, const struct node *n, const struct args *a,
                        const bool *used, struct value *slot)
{
    size_t n_params = n->more.n;
    struct dict *rest = n->routine->kwargs >= 0 ? dict_new(r, a->n_named) : NULL;
    if (n->routine->kwargs >= 0 && !rest)
        return render_failed(r);
    if (n->routine->caller >= 0)
        slot[n->routine->caller] = V_HINT("no caller: the macro was not used by a call block");
    for (size_t i = 0; i < a->n_named; i++) {
        struct text name = a->named[i].key.s;
        int rc = 0;
        if (used[i])
            continue;
        if (n->routine->caller >= 0 && text_is(name, "caller"))
            slot[n->routine->caller] = a->named[i].value;
        else if (rest)
            rc = dict_set(r, rest, a->named[i].key, a->named[i].value);
        else
            rc = render_fail(r, E_FORMAT, "the macro '%.*s' takes no argument '%.*s'",
                             (int)n->name.len, n->name.p, (int)name.len, name.p);
        if (rc)
            return rc;
    }
    if (rest)
        slot[n->routine->kwargs] = V_DICT(rest);
    size_t extra = a->n > n_params ? a->n - n_params : 0;
    if (n->routine->varargs < 0)
        return !extra ? 0
                      : render_fail(r, E_FORMAT,
                                    "the macro '%.*s' takes at most %zu arguments, found %zu",
                                    (int)n->name.len, n->name.p, n_params, a->n);
    struct list *l = list_new(r, extra);
    if (!l)
        return render_failed(r);
    if (extra)
        memcpy(l->at, a->at + n_params, extra * sizeof *l->at);
    slot[n->routine->varargs] = V_TUPLE(l);
    return 0;
}

/* Parameters that got no argument: their defaults, evaluated inside the macro, or undefined. */
static int bind_defaults(struct render *r, const struct node *n)
{
    size_t first = n->more.n - n->rest.n;
    for (size_t i = 0; i < n->more.n; i++) {
        struct text name = n->more.at[i]->name;
        struct value *to = slot_at(r, n->more.at[i]->ref), v;
        if (to->kind != K_MISSING)
            continue;
        if (i < first) {
            *to = (struct value){.kind = K_UNDEFINED, .flag = WHY_PARAM, .s = name};
            continue;
        }
        int rc = eval(r, n->rest.at[i - first], &v);
        if (rc)
            return rc;
        *to = v;
    }
    return 0;
}

static int bind(struct render *r, const struct node *n, const struct args *a)
{
    struct value *slot = r->act->slot;
    bool *used = render_alloc(r, a->n_named, sizeof *used);
    if (!used)
        return render_failed(r);
    for (size_t i = 0; i < n->more.n; i++) {
        struct text name = n->more.at[i]->name;
        struct value *to = &slot[n->more.at[i]->ref.slot];
        if (i < a->n)
            *to = a->at[i];
        for (size_t k = 0; k < a->n_named && i >= a->n; k++)
            if (text_eq(a->named[k].key.s, name)) {
                *to = a->named[k].value;
                used[k] = true;
            }
    }
    int rc = bind_special(r, n, a, used, slot);
    if (!rc)
        rc = scope_enter(r, n->scope);
    return rc ? rc : bind_defaults(r, n);
}

static int call_macro(struct render *r, const struct macro *m, const struct args *a,
                      struct value *out)
{
    struct activation *outer = r->act;
    if (r->calls >= r->lim.depth)
        return render_fail(r, E_LIMIT, "loops and macros are nested deeper than %d levels",
                           r->lim.depth);
    r->calls++;
    int line = r->line;
    r->act = activation_new(r, m->node->routine, m->up);
    int rc = r->act ? bind(r, m->node, a) : render_failed(r);
    if (!rc)
        rc = exec_captured(r, &m->node->kids, out);
    r->act = outer;
    r->calls--;
    if (!rc)
        r->line = line;
    return rc;
}

int call_value(struct render *r, const struct value *callee, const struct args *a,
               struct value *out)
{
    switch ((enum kind)callee->kind) {
    case K_MACRO:
        return call_macro(r, callee->macro, a, out);
    case K_FUNCTION:
    case K_METHOD:
        return builtin_call(r, callee->bound->builtin, &callee->bound->self, a, out);
    case K_LOOP:
        if (a->n != 1 || a->n_named)
            return render_fail(r, E_FORMAT, "loop() takes one argument");
        return loop_recurse(r, callee->loop, &a->at[0], out);
    case K_JOINER:
        *out = callee->joiner->used ? callee->joiner->sep : V_STR(TEXT(""));
        callee->joiner->used = true;
        return 0;
    case K_UNDEFINED:
        return value_undefined(r, callee);
    default:
        return render_fail(r, E_FORMAT, "a value of type %s cannot be called", value_type(callee));
    }
}

/* One parameter of a built-in: its name in the list of params, whether it may be left out. */
struct param {
    struct text name;
    bool optional;
};

static size_t split_params(const char *p, struct param out[BUILTIN_ARGS_MAX], bool *by_place)
{
    size_t n = 0;
    *by_place = *p == '/';
    p += *by_place;
    while (*p && n < BUILTIN_ARGS_MAX) {
        size_t len = strcspn(p, " ?");
        out[n++] = (struct param){{p, len}, p[len] == '?'};
        p += len;
        p += strspn(p, " ?");
    }
    return n;
}

static int bind_named(struct render *r, const struct builtin *b, const struct param *param,
                      size_t n, const struct pair *given, struct call *c)
{
    struct text name = given->key.s;
    for (size_t i = 0; i < n; i++) {
        if (!text_eq(param[i].name, name))
            continue;
        if (c->arg[i].kind != K_MISSING)
            return render_fail(r, E_FORMAT, "%s: the argument '%.*s' is given twice", b->name,
                               (int)name.len, name.p);
        c->arg[i] = given->value;
        return 0;
    }
    return render_fail(r, E_FORMAT, "%s takes no argument '%.*s'", b->name, (int)name.len, name.p);
}

int builtin_call(struct render *r, const struct builtin *b, const struct value *self,
                 const struct args *a, struct value *out)
{
    struct call c = {.self = *self, .raw = a, .builtin = b};
    struct param param[BUILTIN_ARGS_MAX];
    bool by_place;
    int rc = render_steps(r, 1);
    if (!b->run)
        return render_fail(r, E_UNSUPPORTED, "'%s' is not supported in chat templates", b->name);
    if (rc || strcmp(b->params, "*") == 0)
        return rc ? rc : b->run(r, &c, out);
    size_t n = split_params(b->params, param, &by_place);
    if (a->n > n)
        return render_fail(r, E_FORMAT, "%s takes at most %zu arguments, found %zu", b->name, n,
                           a->n);
    if (by_place && a->n_named)
        return render_fail(r, E_FORMAT, "%s takes no arguments by name", b->name);
    for (size_t i = 0; i < a->n; i++)
        c.arg[i] = a->at[i];
    for (size_t i = 0; i < a->n_named && !rc; i++)
        rc = bind_named(r, b, param, n, &a->named[i], &c);
    for (size_t i = 0; i < n && !rc; i++)
        if (!param[i].optional && c.arg[i].kind == K_MISSING)
            rc = render_fail(r, E_FORMAT, "%s: the argument '%.*s' is missing", b->name,
                             (int)param[i].name.len, param[i].name.p);
    return rc ? rc : b->run(r, &c, out);
}

const struct builtin *builtin_find(const struct builtin *table, struct text name)
{
    for (; table->name; table++)
        if (text_is(name, table->name))
            return table;
    return NULL;
}

static struct text param_name(const struct call *c, int i)
{
    struct param param[BUILTIN_ARGS_MAX];
    bool by_place;
    size_t n = split_params(c->builtin->params, param, &by_place);
    return (size_t)i < n ? param[i].name : TEXT("argument");
}

int call_wrong(struct render *r, const struct call *c, int i, const char *want)
{
    struct text name = param_name(c, i);
    int rc = value_refuse_undefined(r, &c->arg[i]);
    return rc ? rc
              : render_fail(r, E_FORMAT, "%s: %.*s must be %s, found %s", c->builtin->name,
                            (int)name.len, name.p, want, value_type(&c->arg[i]));
}

int call_int(struct render *r, const struct call *c, int i, int64_t *out)
{
    if (!call_has(c, i) || value_as_int(&c->arg[i], out))
        return 0;
    return call_wrong(r, c, i, "a whole number");
}

int call_text(struct render *r, const struct call *c, int i, struct text *out)
{
    if (!call_has(c, i))
        return 0;
    if (c->arg[i].kind != K_STR)
        return call_wrong(r, c, i, "text");
    *out = c->arg[i].s;
    return 0;
}

bool call_truth(const struct call *c, int i, bool otherwise)
{
    return call_has(c, i) ? value_truth(&c->arg[i]) : otherwise;
}
