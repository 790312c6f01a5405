/* Loops as their bodies see them: the items to come, and what the variable `loop` tells.
 *
 * A loop's filter runs when an item is needed, not before: it sees what earlier iterations did.
 * loop.last and loop.nextitem look one item ahead, loop.length of a filtered loop looks at all. */
#include "text/template_run.h"

int loop_init(struct render *r, struct loop *l, const struct node *n, const struct value *over)
{
    *l = (struct loop){.node = n, .up = r->act, .index0 = -1, .length = -1, .sifted = !n->c};
    return cursor_init(r, &l->cursor, over);
}

/* Whether the loop's filter takes the item. */
static int passes(struct render *r, struct loop *l, const struct value *item, bool *yes)
{
    struct activation *outer = r->act;
    struct value v;
    r->act = l->act;
    int rc = assign(r, l->node->test_target, item);
    if (!rc)
        rc = eval(r, l->node->c, &v);
    r->act = outer;
    *yes = !rc && value_truth(&v);
    return rc;
}

/* The next item that passes, K_MISSING behind the last. */
static int pull(struct render *r, struct loop *l, struct value *out)
{
    for (;;) {
        bool yes = true;
        int rc = cursor_next(r, &l->cursor, out);
        if (!rc && !l->sifted && out->kind != K_MISSING)
            rc = passes(r, l, out, &yes);
        if (rc || yes)
            return rc;
    }
}

int loop_next(struct render *r, struct loop *l, struct value *out)
{
    int rc = 0;
    if (l->after_known)
        *out = l->after;
    else
        rc = pull(r, l, out);
    l->after_known = false;
    if (rc || out->kind == K_MISSING)
        return rc;
    l->index0++;
    l->before = l->current;
    l->current = *out;
    return 0;
}

static int look_ahead(struct render *r, struct loop *l)
{
    int rc = l->after_known ? 0 : pull(r, l, &l->after);
    l->after_known = !rc;
    return rc;
}

static int find_length(struct render *r, struct loop *l)
{
    if (l->length >= 0)
        return 0;
    if (l->sifted && value_has_length(&l->cursor.over))
        return value_length(r, &l->cursor.over, &l->length);
    struct list *rest = list_new(r, 0);
    size_t cap = 0;
    if (!rest)
        return render_failed(r);
    for (;;) {
        struct value one;
        int rc = pull(r, l, &one);
        if (!rc && one.kind != K_MISSING)
            rc = list_push(r, rest, &cap, one);
        if (rc)
            return rc;
        if (one.kind == K_MISSING)
            break;
    }
    bool ahead = l->after_known && l->after.kind != K_MISSING;
    l->length = l->index0 + 1 + ahead + (int64_t)rest->n;
    l->cursor = (struct cursor){.over = V_LIST(rest)};
    l->sifted = true;
    return 0;
}

int loop_attr(struct render *r, struct loop *l, struct text name, struct value *out)
{
    int rc = 0;
    *out = (struct value){.kind = K_MISSING};
    if (text_is(name, "index0")) {
        *out = V_INT(l->index0);
    } else if (text_is(name, "index")) {
        *out = V_INT(l->index0 + 1);
    } else if (text_is(name, "first")) {
        *out = V_BOOL(l->index0 == 0);
    } else if (text_is(name, "last")) {
        rc = look_ahead(r, l);
        *out = V_BOOL(l->after.kind == K_MISSING);
    } else if (text_is(name, "length")) {
        rc = find_length(r, l);
        *out = V_INT(l->length);
    } else if (text_is(name, "revindex")) {
        rc = find_length(r, l);
        *out = V_INT(l->length - l->index0);
    } else if (text_is(name, "revindex0")) {
        rc = find_length(r, l);
        *out = V_INT(l->length - l->index0 - 1);
    } else if (text_is(name, "previtem")) {
        *out = l->index0 == 0 ? V_HINT("there is no previous item") : l->before;
    } else if (text_is(name, "nextitem")) {
        rc = look_ahead(r, l);
        *out = l->after.kind == K_MISSING ? V_HINT("there is no next item") : l->after;
    } else if (text_is(name, "depth")) {
        *out = V_INT(l->depth0 + 1);
    } else if (text_is(name, "depth0")) {
        *out = V_INT(l->depth0);
    }
    return rc;
}
