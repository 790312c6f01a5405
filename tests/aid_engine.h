/* A fake engine: logits that anyone can compute from the tokens, so that the runner is tested
 * without weights. After token t the best next one is t + 1; all other logits depend on every
 * token so far, so a state that lost or gained one shows in the hash of the logits. */
#ifndef TESTS_AID_ENGINE_H
#define TESTS_AID_ENGINE_H

#include "runner/model.h"

/* What it was asked, and what it shall do wrong. Zero it before use. */
struct aid_fake {
    int n_steps, n_rows, n_resets; /* n_steps: prefills too */
    int fail_step;                 /* this step or prefill (1 is the first) fails with E_IO */
    int lost_step;                 /* from this one on everything fails, until it is reopened ... */
    int n_refused;                 /* ... which fails so many times */
    int nan_step;                  /* the logits of this step are NaN */
    long step_ns;                  /* what a row takes, at least */
    int prompt_rows;               /* the engine's, and then it says what is best of rows */
    int bad_token;                 /* if > 0, a step with this token fails with E_NONFINITE */
    int odd_layer;                 /* if > 0, the output of layer odd_layer - 1 is off ... */
    int odd_pos;                   /* ... at this position ... */
    float odd_by;                  /* ... in element 2, by this */
    bool odd_routes;               /* ... and so is its route */
    bool weights;                  /* it shows the weights of routes ... */
    float odd_weight;              /* ... which are off there by this */
    bool counts;                   /* each engine has counters of its own, of 4 experts a layer */
    const struct observer *observe;
    struct observer self; /* how the engine finds this when it is opened again */
};

enum { AID_FAKE_LAYERS = 3, AID_FAKE_CHUNK = 64 };

/* A model around the fake: no store, no tokenizer. f is borrowed until aid_model_close. */
void aid_model_open(struct model *m, struct aid_fake *f, int vocab, int ctx);
void aid_model_close(struct model *m);
/* The logits it gives after these tokens. */
void aid_fake_logits(const int32_t *tokens, size_t n, int vocab, float *logits);

#endif
