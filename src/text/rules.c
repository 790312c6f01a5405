/* The rules of a grammar: see automaton.h. */
#include <string.h>

#include "base/mem.h"
#include "text/automaton.h"

void rules_free(struct rules *r)
{
    for (int32_t i = 0; i < r->n_rules; i++)
        mem_free(r->rules[i].name);
    mem_free(r->rules);
    mem_free(r->places);
    *r = (struct rules){0};
}

/* Room for one more of n things, at most `most`. */
static int grow(void **p, int32_t n, int32_t *cap, int32_t most, size_t bytes, struct err *e)
{
    if (n >= most)
        return ERR(e, E_LIMIT, "the grammar is too large: more than %d parts of a kind", most);
    if (n < *cap)
        return 0;
    int32_t want = *cap ? 2 * *cap : 64;
    void *more = mem_realloc(*p, (size_t)want * bytes);
    if (!more)
        return ERR(e, E_NOMEM, "no memory for a grammar");
    *p = more;
    *cap = want;
    return 0;
}

int32_t rules_place(struct rules *r, struct place p, struct err *e)
{
    if (grow((void **)&r->places, r->n_places, &r->cap_places, AUTOMATON_PLACES_MAX,
             sizeof *r->places, e))
        return -1;
    r->places[r->n_places] = p;
    return r->n_places++;
}

int32_t rules_name(struct rules *r, const char *name, size_t len, struct err *e)
{
    for (int32_t i = 0; i < r->n_rules; i++)
        if (strncmp(r->rules[i].name, name, len) == 0 && !r->rules[i].name[len])
            return i;
    if (grow((void **)&r->rules, r->n_rules, &r->cap_rules, AUTOMATON_RULES_MAX, sizeof *r->rules,
             e))
        return -1;
    char *copy = mem_strndup(name, len);
    if (!copy) {
        ERR(e, E_NOMEM, "no memory for a grammar");
        return -1;
    }
    r->rules[r->n_rules] = (struct rule){.name = copy, .start = -1};
    return r->n_rules++;
}

/* A walk over the places of a rule. */
struct walk {
    const struct rules *r;
    int32_t *list;  /* places still to look at */
    int32_t *stamp; /* [n_places]: the last walk that met it */
    int32_t n, turn;
    bool *good; /* [n_rules] */
};

static void meet(struct walk *w, int32_t place)
{
    if (w->stamp[place] != w->turn) {
        w->stamp[place] = w->turn;
        w->list[w->n++] = place;
    }
}

enum question { MATCHES_EMPTY, ENDS, BEGINS_WELL };

/* What is asked of rule i, where the answer is known for the rules of `good`. */
static bool ask(struct walk *w, int32_t i, enum question q)
{
    bool empty = q == MATCHES_EMPTY;
    w->turn++;
    w->n = 0;
    meet(w, w->r->rules[i].start);
    while (w->n) {
        const struct place *p = &w->r->places[w->list[--w->n]];
        bool good = p->kind == PLACE_CALL && w->good[p->other];
        if (p->kind == PLACE_END && q != BEGINS_WELL)
            return true;
        if (p->kind == PLACE_CALL && q == BEGINS_WELL && !good)
            return false;
        if (p->kind == PLACE_CALL && q == BEGINS_WELL)
            good = w->r->rules[p->other].empty;
        if (p->kind == PLACE_FORK)
            meet(w, p->other);
        if (p->kind == PLACE_FORK || good || (p->kind == PLACE_BYTES && !empty && q == ENDS))
            meet(w, p->next);
    }
    return q == BEGINS_WELL;
}

/* Asks until no answer changes; the number of a rule that the answer is no for, or -1. */
static int32_t settle(struct walk *w, enum question q)
{
    bool changed = true;
    int32_t bad = -1;
    memset(w->good, 0, (size_t)w->r->n_rules);
    while (changed) {
        changed = false;
        bad = -1;
        for (int32_t i = 0; i < w->r->n_rules; i++) {
            if (!w->good[i] && ask(w, i, q))
                w->good[i] = changed = true;
            else if (!w->good[i] && bad < 0)
                bad = i;
        }
    }
    return bad;
}

/* A rule that was made of a schema; nobody else knows its name. */
static bool is_ours(const char *name)
{
    return strchr(name, '.') != NULL;
}

static int check(struct rules *r, struct walk *w, const char *where, struct err *e)
{
    int32_t bad = settle(w, ENDS);
    if (bad >= 0 && is_ours(r->rules[bad].name))
        return ERR(e, E_FORMAT,
                   "%s: a $ref leads a part back to itself, so that no value of it ever ends: have "
                   "a way out, as a property that is not required",
                   where);
    if (bad >= 0)
        return ERR(e, E_FORMAT, "%s: the rule %.80s never ends", where, r->rules[bad].name);
    settle(w, MATCHES_EMPTY);
    for (int32_t i = 0; i < r->n_rules; i++)
        r->rules[i].empty = w->good[i];
    bad = settle(w, BEGINS_WELL);
    if (bad >= 0 && is_ours(r->rules[bad].name))
        return ERR(e, E_FORMAT,
                   "%s: a $ref leads a part back to itself before anything of its value is written",
                   where);
    if (bad >= 0)
        return ERR(e, E_FORMAT,
                   "%s: the rule %.80s begins with itself (left recursion), or with a rule that "
                   "does; write it with the repetition behind",
                   where, r->rules[bad].name);
    return 0;
}

int rules_check(struct rules *r, const char *where, struct err *e)
{
    struct walk w = {.r = r};
    int rc;
    for (int32_t i = 0; i < r->n_rules; i++)
        if (r->rules[i].start < 0)
            return ERR(e, E_FORMAT, "%s: the rule %.80s is used but not defined", where,
                       r->rules[i].name);
    w.list = mem_array((size_t)r->n_places, sizeof *w.list);
    w.stamp = mem_zalloc((size_t)r->n_places, sizeof *w.stamp);
    w.good = mem_zalloc((size_t)r->n_rules, sizeof *w.good);
    if (w.list && w.stamp && w.good)
        rc = check(r, &w, where, e);
    else
        rc = ERR(e, E_NOMEM, "no memory to check a grammar");
    mem_free(w.list);
    mem_free(w.stamp);
    mem_free(w.good);
    return rc;
}
