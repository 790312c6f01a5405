/* Drafts on the demonstration model, or any store: decoding with them over decoding without, the
 * same text checked on the way.
 *
 *   bench_drafts STORE [ENGINE]
 *
 * Stories: greedy and sampled answers to open prompts, where the draft head guesses. Repeats: the
 * greedy continuation of a text that says the same again and again, where prompt lookup guesses.
 * Each figure is tokens a second over all prompts of a kind, the best of RUNS runs that alternate
 * between the ways, so that a busy machine harms all alike; the first token and the prompt do not
 * count. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "runner/generate.h"

enum { TOKENS = 192, RUNS = 5, WAYS = 6, PROMPTS = 3, CTX = 1024 };

static const struct way {
    const char *name;
    struct draft_options draft;
} ways[WAYS] = {
    {"none", {0}},
    {"head, 1 always", {1, DRAFTS_HEAD, true, NULL}},
    {"head, 2 always", {2, DRAFTS_HEAD, true, NULL}},
    {"head, 3 always", {3, DRAFTS_HEAD, true, NULL}},
    {"lookup, 3 always", {3, DRAFTS_LOOKUP, true, NULL}},
    {"auto, up to 3", {3, DRAFTS_AUTO, false, NULL}},
};

static const char *const stories[PROMPTS] = {
    "Once upon a time there was a king who had three sons.",
    "The old woman went to the market and bought",
    "There was once a poor woodcutter who lived",
};
static const char verse[] =
    "The fox said to the hen: come down, come down, for all the beasts have made peace. The hen "
    "said "
    "to the fox: I will wait for the dogs, for the dogs have heard the news. ";

struct bench {
    struct model *m;
    struct sequence *seq;
    struct tokens prompts[PROMPTS];
};

/* What a way came to over the prompts of a kind, in one run. */
struct sum {
    double seconds;
    long tokens, drafted, accepted;
    uint64_t hash; /* of the last logits of all */
};

static int answer(struct bench *b, const struct tokens *prompt, const struct generate_options *o,
                  struct sum *s, struct err *e)
{
    struct generate_result r;
    b->m->engine->ops->sequence_reset(b->seq);
    if (generate(b->m, b->seq, prompt, o, &r, e))
        return -e->code;
    s->seconds += r.decode_s;
    s->tokens += r.n_generated - 1;
    s->drafted += r.n_drafted;
    s->accepted += r.n_accepted;
    s->hash = s->hash * 31 + r.logits_hash;
    tokens_free(&r.ids);
    return 0;
}

static int measure(struct bench *b, const char *kind, struct generate_options o, struct err *e)
{
    struct sum best[WAYS] = {{0}};
    for (int run = 0; run < RUNS; run++)
        for (int w = 0; w < WAYS; w++) {
            struct sum s = {0};
            o.draft = ways[w].draft;
            for (int i = 0; i < PROMPTS; i++)
                if (b->prompts[i].n && answer(b, &b->prompts[i], &o, &s, e))
                    return -e->code;
            if (!run || s.seconds < best[w].seconds)
                best[w] = s;
            if (best[w].hash != best[0].hash)
                return ERR(e, E_DIFFER, "%s: other logits with drafts: %s", kind, ways[w].name);
        }
    printf("%s, %ld tokens a run\n", kind, best[0].tokens);
    for (int w = 0; w < WAYS; w++) {
        const struct sum *s = &best[w];
        const double rate = (double)s->tokens / s->seconds;
        const double plain = (double)best[0].tokens / best[0].seconds;
        printf("  %-18s %8.1f tok/s  %5.2fx", ways[w].name, rate, rate / plain);
        if (s->drafted)
            printf("  %4ld of %4ld drafts right (%.0f %%)", s->accepted, s->drafted,
                   100. * (double)s->accepted / (double)s->drafted);
        putchar('\n');
    }
    return 0;
}

static void free_prompts(struct bench *b)
{
    for (int i = 0; i < PROMPTS; i++) {
        tokens_free(&b->prompts[i]);
        b->prompts[i] = (struct tokens){0};
    }
}

static int encode(struct bench *b, int i, const char *text, struct err *e)
{
    return tokenizer_encode(b->m->tokenizer, text, strlen(text), false, &b->prompts[i], e);
}

static int measure_all(struct bench *b, struct err *e)
{
    struct generate_options o = {
        .sample = SAMPLE_GREEDY, .max_tokens = TOKENS, .ignore_stop_ids = true};
    for (int i = 0; i < PROMPTS; i++)
        if (encode(b, i, stories[i], e))
            return -e->code;
    if (measure(b, "stories, greedy", o, e))
        return -e->code;
    o.sample = (struct sample_options){
        .temperature = 0.7, .top_k = 20, .top_p = 0.8, .repetition = 1, .seed = 1};
    if (measure(b, "stories, sampled", o, e))
        return -e->code;
    free_prompts(b);
    for (int i = 0; i < 4; i++)
        if (encode(b, 0, verse, e))
            return -e->code;
    o.sample = SAMPLE_GREEDY;
    return measure(b, "repeats, greedy", o, e);
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct model_options o = MODEL_OPTIONS;
    struct err e = {0};
    if (argc < 2) {
        fprintf(stderr, "usage: bench_drafts STORE [ENGINE]\n");
        return 2;
    }
    o.engine = argc > 2 ? argv[2] : NULL;
    o.ctx = CTX;
    o.engine_options.drafts = true;
    int rc = model_open(argv[1], &o, &b.m, &e);
    if (!rc)
        rc = b.m->engine->ops->sequence_open(b.m->engine, CTX, &b.seq, &e);
    if (!rc)
        printf("engine %s\n", b.m->engine->ops->name);
    rc = rc ? rc : measure_all(&b, &e);
    if (rc)
        fprintf(stderr, "bench_drafts: %s\n", e.msg);
    free_prompts(&b);
    if (b.seq)
        b.m->engine->ops->sequence_close(b.seq);
    model_close(b.m);
    return rc ? 1 : 0;
}
