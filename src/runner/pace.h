/* How many drafts are worth their while: measured times and measured acceptance, and what follows.
 *
 * A step with d drafts gives 1 + a1 + a1 a2 + ... tokens, where ai is how often draft i was right
 * when those before it were; it costs a step of 1 + d rows, and the drafting. The depth with most
 * tokens a second is taken, which may be none: where experts come from a disk, a wrong draft costs
 * reads. Time only decides how fast the text comes; it never changes the text. */
#ifndef RUNNER_PACE_H
#define RUNNER_PACE_H

#include "model/engine.h"

enum draft_kind { DRAFT_HEAD, DRAFT_LOOKUP, DRAFT_KINDS };

struct pace_mean {
    double value; /* the least of the first three, then a running mean */
    int n;        /* how many went into it, up to three */
};

struct pace {
    struct pace_mean step_s[ENGINE_ROWS_MAX + 1];    /* a step, by rows */
    struct pace_mean draft_s[ENGINE_DRAFTS_MAX + 1]; /* the head's drafts, by depth */
    double accepted[DRAFT_KINDS][ENGINE_DRAFTS_MAX]; /* share, given that those before were */
    unsigned rounds;
};

void pace_init(struct pace *p);
void pace_stepped(struct pace *p, int rows, double seconds);
void pace_drafted(struct pace *p, int depth, double seconds); /* by the head */
/* n drafts were verified, the first n_accepted were right. */
void pace_verified(struct pace *p, enum draft_kind k, int n, int n_accepted);
/* The best depth, 0..most, when `together` sequences share a step and all draft alike; *rate its
 * tokens a second. A depth that was not measured three times is tried. */
int pace_depth(const struct pace *p, enum draft_kind k, int together, int most, double *rate);
/* Now and then another depth than the best, so that what is known of it stays true: that depth, or
 * -1. Counts a round. */
int pace_detour(struct pace *p, int most);

#endif
