/* Expressions. Rows of operators are walked, not recursed into; and/or give the operand that
 * decides, comparisons chain, as in Python. */
#include <string.h>

#include "text/template_run.h"
#include "text/template_text.h"

static int eval_name(struct render *r, const struct node *n, struct value *out)
{
    *out = *slot_at(r, n->ref);
    if (out->kind == K_MISSING)
        *out = (struct value){.kind = K_UNDEFINED, .flag = WHY_NAME, .s = n->name};
    return 0;
}

static int eval_list(struct render *r, const struct node *n, struct value *out)
{
    struct list *l = list_new(r, n->kids.n);
    int rc = l ? 0 : render_failed(r);
    for (size_t i = 0; i < n->kids.n && !rc; i++)
        rc = eval(r, n->kids.at[i], &l->at[i]);
    *out = n->kind == N_LIST ? V_LIST(l) : V_TUPLE(l);
    return rc;
}

static int eval_dict(struct render *r, const struct node *n, struct value *out)
{
    struct dict *d = dict_new(r, n->kids.n / 2);
    int rc = d ? 0 : render_failed(r);
    for (size_t i = 0; i < n->kids.n && !rc; i += 2) {
        struct value key = V_NONE, v = V_NONE;
        rc = eval(r, n->kids.at[i], &key);
        if (!rc)
            rc = eval(r, n->kids.at[i + 1], &v);
        if (!rc)
            rc = dict_set(r, d, key, v);
    }
    *out = V_DICT(d);
    return rc;
}

static int eval_chain(struct render *r, const struct node *n, struct value *out)
{
    int rc = eval(r, n->kids.at[0], out);
    for (size_t i = 1; i < n->kids.n && !rc; i++) {
        struct value left = *out, right;
        rc = eval(r, n->kids.at[i], &right);
        if (!rc)
            rc = render_steps(r, 1);
        if (!rc)
            rc = op_binary(r, n->kids.at[i]->op, &left, &right, out);
    }
    return rc;
}

static int eval_concat(struct render *r, const struct node *n, struct value *out)
{
    struct buf text = BUF_INIT;
    int rc = 0;
    for (size_t i = 0; i < n->kids.n && !rc; i++) {
        struct value v = V_NONE;
        rc = eval(r, n->kids.at[i], &v);
        if (!rc)
            rc = value_print(r, &v, &text);
        if (!rc)
            rc = render_grown(r, text.len, 0);
    }
    return render_take(r, &text, rc, out);
}

static int eval_and_or(struct render *r, const struct node *n, struct value *out)
{
    int rc = 0;
    for (size_t i = 0; i < n->kids.n && !rc; i++) {
        rc = eval(r, n->kids.at[i], out);
        if (!rc && value_truth(out) == (n->kind == N_OR))
            break;
    }
    return rc;
}

static int eval_compare(struct render *r, const struct node *n, struct value *out)
{
    struct value left, right;
    bool yes = true;
    int rc = eval(r, n->kids.at[0], &left);
    for (size_t i = 1; i < n->kids.n && !rc && yes; i++) {
        enum token_type op = n->kids.at[i]->op;
        rc = eval(r, n->kids.at[i], &right);
        if (!rc && (op == T_IN || op == T_NOT_IN)) {
            rc = op_contains(r, &right, &left, &yes);
            yes ^= op == T_NOT_IN;
        } else if (!rc) {
            rc = op_compare(r, op, &left, &right, &yes);
        }
        left = right;
    }
    *out = V_BOOL(yes);
    return rc;
}

static int eval_unary(struct render *r, const struct node *n, struct value *out)
{
    struct value v;
    int rc = eval(r, n->a, &v);
    if (rc)
        return rc;
    if (n->kind != N_NOT)
        return op_negate(r, &v, n->kind == N_NEG, out);
    *out = V_BOOL(!value_truth(&v));
    return 0;
}

static int eval_cond(struct render *r, const struct node *n, struct value *out)
{
    int rc = eval(r, n->a, out);
    if (rc)
        return rc;
    if (value_truth(out))
        return eval(r, n->b, out);
    if (n->c)
        return eval(r, n->c, out);
    *out = V_HINT("an inline `if` without `else` was false and has no value");
    return 0;
}

static int eval_attr(struct render *r, const struct node *n, struct value *out)
{
    struct value v;
    int rc = eval(r, n->a, &v);
    return rc ? rc : value_attr(r, &v, n->name, out);
}

static int eval_item(struct render *r, const struct node *n, struct value *out)
{
    struct value v, key;
    int rc = eval(r, n->a, &v);
    if (!rc)
        rc = eval(r, n->b, &key);
    return rc ? rc : value_item(r, &v, &key, out);
}

static int eval_slice(struct render *r, const struct node *n, struct value *out)
{
    const struct node *nodes[] = {n->b, n->c, n->d};
    struct value v, part[3] = {V_NONE, V_NONE, V_NONE};
    int rc = eval(r, n->a, &v);
    for (int i = 0; i < 3 && !rc; i++)
        if (nodes[i])
            rc = eval(r, nodes[i], &part[i]);
    return rc ? rc : value_slice(r, &v, part, out);
}

static int eval_call(struct render *r, const struct node *n, struct value *out)
{
    struct value callee;
    struct args a;
    int rc = eval(r, n->a, &callee);
    if (!rc)
        rc = eval_args(r, n, &a);
    return rc ? rc : call_value(r, &callee, &a, out);
}

static int eval_builtin(struct render *r, const struct node *n, struct value *out)
{
    struct value subject = r->captured;
    struct args a;
    int rc = n->a ? eval(r, n->a, &subject) : 0;
    if (!rc)
        rc = eval_args(r, n, &a);
    if (rc)
        return rc;
    if (!n->builtin)
        return render_fail(r, E_FORMAT, "there is no %s called '%.*s'",
                           n->kind == N_FILTER ? "filter" : "test", (int)n->name.len, n->name.p);
    return builtin_call(r, n->builtin, &subject, &a, out);
}

static int eval_node(struct render *r, const struct node *n, struct value *out)
{
    switch (n->kind) {
    case N_TUPLE:
    case N_LIST:
        return eval_list(r, n, out);
    case N_DICT:
        return eval_dict(r, n, out);
    case N_CHAIN:
        return eval_chain(r, n, out);
    case N_CONCAT:
        return eval_concat(r, n, out);
    case N_AND:
    case N_OR:
        return eval_and_or(r, n, out);
    case N_COMPARE:
        return eval_compare(r, n, out);
    case N_NOT:
    case N_NEG:
    case N_POS:
        return eval_unary(r, n, out);
    case N_COND:
        return eval_cond(r, n, out);
    case N_ATTR:
        return eval_attr(r, n, out);
    case N_ITEM:
        return eval_item(r, n, out);
    case N_SLICE:
        return eval_slice(r, n, out);
    case N_CALL:
        return eval_call(r, n, out);
    default:
        return eval_builtin(r, n, out);
    }
}

int eval(struct render *r, const struct node *n, struct value *out)
{
    if (n->kind == N_NAME)
        return eval_name(r, n, out);
    if (n->kind == N_CONST) {
        *out = n->value;
        return 0;
    }
    int line = r->line;
    r->line = n->line;
    int rc = render_steps(r, 1);
    if (!rc)
        rc = render_enter(r);
    if (rc)
        return rc;
    rc = eval_node(r, n, out);
    render_leave(r);
    if (!rc)
        r->line = line;
    return rc;
}
