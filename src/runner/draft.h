/* Drafts: guesses of the next tokens, which one step then verifies all at once. From the model's
 * draft head, or from the text itself (lookup.h). They decide how fast a text comes, never what it
 * says: a guess counts only where the target draws the same token. */
#ifndef RUNNER_DRAFT_H
#define RUNNER_DRAFT_H

#include "runner/lookup.h"
#include "runner/model.h"

/* The most drafts of a step when nobody says otherwise. */
enum { DRAFTS_DEFAULT = 2 };

enum draft_source { DRAFTS_AUTO, DRAFTS_HEAD, DRAFTS_LOOKUP };

/* Guesses in place of the sources, for tests: what follows tokens [n]; out [most], returns how
 * many. */
struct draft_hook {
    void *ctx;
    int (*guess)(void *ctx, const int32_t *tokens, int n, int most, int32_t *out);
};

struct draft_options {
    int most;                      /* 0..ENGINE_DRAFTS_MAX in a step; 0: none */
    enum draft_source source;      /* auto: whichever promises more at the moment */
    bool always;                   /* `most` whenever there are any, whatever they cost */
    const struct draft_hook *hook; /* or NULL; borrowed */
};

struct drafter {
    struct model *m; /* borrowed; its pace is kept up */
    struct draft_options o;
    struct lookup lookup;
    bool head;              /* the head drafts */
    enum draft_kind latest; /* where the drafts being verified came from */
};

/* cap: tokens of prompt and answer. E_ARG: most out of range; E_UNSUPPORTED: the head is asked for
 * and the model has none, or was opened without drafts. */
int drafter_init(struct drafter *d, struct model *m, const struct draft_options *o, int cap,
                 struct err *e);
void drafter_free(struct drafter *d);
void drafter_push(struct drafter *d, int32_t token); /* of prompt or answer, as they come */
/* Guesses behind the last token pushed, which is not yet in the sequence; all before it are
 * committed. out [most], most up to o.most; returns how many, perhaps 0. together: sequences that
 * share the coming step. A head that fails is told on stderr and not asked again: the answer can do
 * without. */
int drafter_guess(struct drafter *d, struct sequence *seq, int together, int most, int32_t *out);
/* What became of the latest guesses. */
void drafter_verified(struct drafter *d, int n, int n_accepted);

#endif
