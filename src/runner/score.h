/* Logits of given tokens: what the model thinks of a text, rather than what it says next. */
#ifndef RUNNER_SCORE_H
#define RUNNER_SCORE_H

#include "model/engine.h"
#include "text/tokenizer.h"

struct score {
    struct engine *engine;
    struct sequence *seq; /* at length 0 */
    const int32_t *ids;   /* below vocab */
    size_t n;             /* how many are fed */
    size_t n_known;       /* how many there are: n or more; drafts look one ahead */
    size_t from;          /* positions before it are fed, but not shown */
    bool drafts;          /* the engine was opened with drafts */
    void *ctx;
    /* Asked between the chunks of what is not shown; true ends it with E_INTERRUPTED. May be
     * NULL. */
    bool (*cancelled)(void *ctx);
    /* Called with the positions ascending, both may fail: the logits after ids[pos]; and the draft
     * head's, given ids[pos + 1] (for pos + 1 < n_known). [vocab], borrowed for the call. */
    int (*row)(void *ctx, size_t pos, const float *logits, struct err *e);
    int (*draft)(void *ctx, size_t pos, const float *logits, struct err *e);
};

/* Feeds ids[0..n) and calls row and draft. E_NOMEM, E_INTERRUPTED, or what the engine or one of the
 * two says; rows that were shown stay shown. */
int score_run(const struct score *s, struct err *e);
/* Continues behind what is committed with `id` and its best successors, n tokens appended to out,
 * `id` the first of them. */
int score_greedy(struct engine *engine, struct sequence *seq, int32_t id, size_t n,
                 struct tokens *out, struct err *e);
/* Negative log-likelihood, in nats, of token id under these logits. */
double score_nll(const float *logits, int vocab, int32_t id);

#endif
