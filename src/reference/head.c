/* The end of the model: the last read of the streams, and the logits of what it gives.
 *
 *   hidden = read(mixer, hyper)      (no injection; there is no further norm)
 *   logits = W_head hidden           W_head is the embedding when the two are tied */
#include "reference/arith.h"
#include "reference/blocks.h"
#include "reference/linear.h"

void head_mix(struct reference *g, const struct hyper_weights *mixer, const float *hyper,
              float *hidden)
{
    hyper_read(g, mixer, hyper, hidden, NULL);
}

int head_logits(struct reference *g, const struct at *at, const float *hidden, float *logits,
                struct err *e)
{
    const struct weights *w = g->base.weights;
    linear_apply(&w->head, hidden, g->scratch.row, logits);
    if (!arith_finite(logits, w->config.vocab))
        return ERR(
            e, E_NONFINITE,
            "position %d: the logits are not finite; the weights of the output head are damaged "
            "or overflow (verify the store)",
            at->pos);
    return 0;
}
