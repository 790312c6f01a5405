/* A store made ready to run: store, weights, engine, tokenizer, chat format and the defaults of
 * generation_config.json, opened together and closed together. */
#ifndef RUNNER_MODEL_H
#define RUNNER_MODEL_H

#include "model/engine.h"
#include "runner/pace.h"
#include "runner/sample.h"
#include "text/chat.h"
#include "text/tokenizer.h"

enum { MODEL_CTX_DEFAULT = 8192, MODEL_STOP_MAX = 16 };

struct model_options {
    const char *engine; /* NULL: best */
    /* Without an observer of its own, CHERENKOV_DUMP puts one here that writes (runner/dump.h). */
    struct engine_options engine_options;
    int ctx;           /* --max-ctx; 0: MODEL_CTX_DEFAULT, or max_pos where that is less */
    bool without_text; /* logits --ids needs no tokenizer */
    bool probe;        /* measures the machine first; how many reads are in flight follows */
};

#define MODEL_OPTIONS ((struct model_options){.engine_options.mtp_norm = -1})

struct dump;
struct generation;

enum { MODEL_PENDING_MAX = ENGINE_ROWS_MAX };

/* What the machine gives, measured at open. */
struct model_rates {
    int depth;           /* reads in flight, the fewest that come near the disk's best */
    double disk, memory; /* bytes a second: random records with so many in flight; all processors */
};

struct model {
    struct store *store;
    struct weights weights;
    struct engine *engine;        /* NULL: it was lost, and could not be opened again */
    struct tokenizer *tokenizer;  /* NULL if without_text */
    struct chat *chat;            /* NULL if the store has no template, or without_text */
    struct sample_options sample; /* generation_config.json, or greedy without one */
    int32_t stop_ids[MODEL_STOP_MAX];
    int n_stop_ids;
    int ctx;
    bool drafts;              /* its engine drafts */
    struct model_rates rates; /* zeros without o->probe */
    struct pace pace;         /* what steps and drafts cost so far */
    /* Answers whose rows of the latest step may still be pending (runner/batch.c). */
    struct generation *pending[MODEL_PENDING_MAX];
    int n_pending;
    struct dump *dump; /* of CHERENKOV_DUMP, or NULL */
    /* How the engine is opened again. */
    const struct engine_ops *ops;
    struct engine_options options;
};

/* path: a store, or a model folder that holds one in packed/; for a folder with a checkpoint alone
 * the message says how to pack it. */
int model_open(const char *path, const struct model_options *o, struct model **out, struct err *e);
void model_close(struct model *m);
/* Closes the engine, whose sequences must be closed and whose answers over, and opens it again as
 * it was. After a failure there is none, and this can be tried again. */
int model_reopen(struct model *m, struct err *e);
/* What model_open would say of the texts of a folder (tokenizer, template, generation_config.json)
 * for a model of so many token ids. */
int model_check_text(const char *dir, int vocab, struct err *e);
bool model_is_stop(const struct model *m, int32_t id);
int model_tokens(const struct model *m); /* ids that can be drawn: 0 to one less */
/* E_ARG, with the place, when an id is none of the model's. */
int model_check_ids(const struct model *m, const struct tokens *ids, struct err *e);

#endif
