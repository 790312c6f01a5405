/* Thinking, then a grammar: see guide.h. */
#include "text/guide.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/reasoning.h"

struct guide {
    struct guide_options o;
    struct constraint constraint;
    struct mask *mask; /* NULL: anything goes */
    bool thinking;
    size_t matched;       /* how much of </think> the thinking ends with */
    int n_thought;        /* tokens */
    struct tokens enough; /* what ends a thinking whose budget is used up */
    size_t said;          /* of these */
    char tail[4];         /* the last bytes of the text: no character is cut by an end */
    int32_t stop_ids[GUIDE_STOP_MAX];
    struct err failure;
};

static bool mask(void *ctx, uint32_t *bits, int n_tokens);
static int accept(void *ctx, int32_t token, struct err *e);

int guide_open(const struct guide_options *o, struct guide **out, struct err *e)
{
    struct guide *g = mem_zalloc(1, sizeof *g);
    *out = NULL;
    if (!g)
        return ERR(e, E_NOMEM, "no memory to guide an answer");
    g->o = *o;
    g->thinking = o->opened;
    g->constraint = (struct constraint){g, mask, accept};
    if (g->o.n_stop_ids > GUIDE_STOP_MAX)
        g->o.n_stop_ids = GUIDE_STOP_MAX;
    memcpy(g->stop_ids, o->stop_ids, (size_t)g->o.n_stop_ids * sizeof *g->stop_ids);
    if ((o->table && mask_open(o->table, &g->mask, e)) ||
        (o->budget >= 0 && o->opened &&
         tokenizer_encode(o->tokenizer, REASONING_ENOUGH, strlen(REASONING_ENOUGH), false,
                          &g->enough, e))) {
        guide_close(g);
        return -e->code;
    }
    *out = g;
    return 0;
}

void guide_close(struct guide *g)
{
    if (!g)
        return;
    mask_close(g->mask);
    tokens_free(&g->enough);
    mem_free(g);
}

const struct constraint *guide_constraint(const struct guide *g)
{
    return &g->constraint;
}

/* The token that must come, because the budget is used up, or -1. */
static int32_t forced(const struct guide *g)
{
    bool begun = g->said > 0;
    bool spent = g->thinking && g->o.budget >= 0 && g->n_thought >= g->o.budget &&
                 !utf8_incomplete_tail(g->tail, sizeof g->tail);
    return (begun || spent) && g->said < g->enough.n ? g->enough.ids[g->said] : -1;
}

static void set(uint32_t *bits, int n_tokens, int32_t id)
{
    if (id >= 0 && id < n_tokens)
        bits[id / 32] |= 1u << (id % 32);
}

static bool mask(void *ctx, uint32_t *bits, int n_tokens)
{
    struct guide *g = ctx;
    int32_t must = forced(g);
    bool done = false;
    if (must >= 0) {
        set(bits, n_tokens, must);
        return true;
    }
    if (!g->mask)
        return false;
    if (mask_fill(g->mask, bits, n_tokens, &done, &g->failure)) {
        memset(bits, 0, ((size_t)n_tokens + 31) / 32 * sizeof *bits);
        return true;
    }
    for (int i = 0; done && i < g->o.n_stop_ids; i++)
        set(bits, n_tokens, g->stop_ids[i]);
    return true;
}

/* Looks for </think>, whose first character is nowhere else in it. */
static void think(struct guide *g, const char *s, size_t n)
{
    static const char end[] = REASONING_CLOSE;
    for (size_t i = 0; i < n && g->thinking; i++) {
        if (s[i] != end[g->matched])
            g->matched = 0;
        g->matched += s[i] == end[g->matched];
        g->thinking = end[g->matched] != '\0';
    }
}

static void keep_tail(struct guide *g, const char *s, size_t n)
{
    for (size_t i = n > sizeof g->tail ? n - sizeof g->tail : 0; i < n; i++) {
        memmove(g->tail, g->tail + 1, sizeof g->tail - 1);
        g->tail[sizeof g->tail - 1] = s[i];
    }
}

static int accept(void *ctx, int32_t token, struct err *e)
{
    struct guide *g = ctx;
    size_t n;
    const char *s = tokenizer_bytes(g->o.tokenizer, token, &n);
    if (g->failure.code)
        return ERR(e, g->failure.code, "%s", g->failure.msg);
    if (token == forced(g))
        g->said++;
    if (g->thinking) {
        g->n_thought++;
        think(g, s, n);
        keep_tail(g, s, n);
    }
    for (int i = 0; i < g->o.n_stop_ids; i++)
        if (token == g->stop_ids[i])
            return 0;
    return g->mask ? mask_feed(g->mask, s, n, e) : 0;
}
