/* How many drafts are worth their while: see pace.h. */
#include "runner/pace.h"

#include <math.h>

/* A depth whose rate is so much below that of a lesser one speaks against all deeper ones: they are
 * not even tried. */
#define HOPELESS 0.8

enum {
    TRIALS = 3,  /* of a depth before its time is believed: the first is often a cold one */
    DETOUR = 32, /* rounds from one detour to the next */
    MEMORY = 8,  /* steps that a running mean of times looks back */
    RECENT = 16, /* drafts that a share of accepted ones looks back */
    OUTLIER = 2, /* times the mean: more is the machine's business, not the step's */
};

void pace_init(struct pace *p)
{
    *p = (struct pace){0};
    for (int k = 0; k < DRAFT_KINDS; k++)
        for (int d = 0; d < ENGINE_DRAFTS_MAX; d++)
            p->accepted[k][d] = 0.7;
}

static void add(struct pace_mean *m, double x)
{
    if (m->n < TRIALS)
        m->value = m->n++ ? fmin(m->value, x) : x;
    else
        m->value += (fmin(x, OUTLIER * m->value) - m->value) / MEMORY;
}

void pace_stepped(struct pace *p, int rows, double seconds)
{
    add(&p->step_s[rows], seconds);
}

void pace_drafted(struct pace *p, int depth, double seconds)
{
    add(&p->draft_s[depth], seconds);
}

void pace_verified(struct pace *p, enum draft_kind k, int n, int n_accepted)
{
    for (int d = 0; d < n && d <= n_accepted; d++)
        p->accepted[k][d] += ((d < n_accepted) - p->accepted[k][d]) / RECENT;
}

int pace_depth(const struct pace *p, enum draft_kind k, int together, int most, double *rate)
{
    int best = 0;
    double tokens = 0, chance = 1;
    *rate = 0;
    for (int d = 0; d <= most; d++) {
        const struct pace_mean *step = &p->step_s[together * (1 + d)];
        if (step->n < TRIALS) {
            *rate = INFINITY;
            return d;
        }
        tokens += chance;
        chance *= d < most ? p->accepted[k][d] : 0;
        const double drafting = k == DRAFT_HEAD ? together * p->draft_s[d].value : 0;
        const double r = together * tokens / (step->value + drafting);
        if (r < HOPELESS * *rate)
            break;
        if (r > *rate) {
            *rate = r;
            best = d;
        }
    }
    return best;
}

int pace_detour(struct pace *p, int most)
{
    p->rounds++;
    return p->rounds % DETOUR ? -1 : (int)(p->rounds / DETOUR % (unsigned)(most + 1));
}
