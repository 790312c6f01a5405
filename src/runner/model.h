/* A store made ready to run: store, weights, engine, tokenizer, chat format and the defaults of
 * generation_config.json, opened together and closed together. */
#ifndef RUNNER_MODEL_H
#define RUNNER_MODEL_H

#include "model/engine.h"
#include "runner/sample.h"
#include "text/chat.h"
#include "text/tokenizer.h"

struct model_options {
    const char *engine; /* NULL: best */
    struct engine_options engine_options;
    int ctx;           /* --max-ctx; 0: min(8192, max_pos) */
    bool without_text; /* logits --ids needs no tokenizer */
};

struct model {
    struct store *store;
    struct weights weights;
    struct engine *engine;
    struct tokenizer *tokenizer;  /* NULL if without_text */
    struct chat *chat;            /* NULL if the store has no template */
    struct sample_options sample; /* generation_config.json, or greedy without one */
    int32_t stop_ids[16];
    int n_stop_ids;
    int ctx;
};

int model_open(const char *path, const struct model_options *o, struct model **out, struct err *e);
void model_close(struct model *m);
bool model_is_stop(const struct model *m, int32_t id);

#endif
