/* What the reference engine remembers: the engine, its working room, and the state of a sequence.
 *
 * A sequence holds its state after the committed tokens and, apart from it, what the pending rows
 * did:
 *
 *   by position (nothing to take back: what lies behind the length is overwritten before it is
 *   read)
 *       tokens, keys, values, raw index keys of each attention layer, the draft head's cache
 *   by row (struct history: the last committed rows, then the pending ones)
 *       inputs of the DeltaNet convolutions and of the PLE convolutions, wide residual
 *   by update
 *       DeltaNet states: the sequence keeps the committed one and a log of the rank-one update that
 *       each pending row made; a step works on a copy of its own (engine.work)
 *
 * So a step that fails leaves a sequence as it was because it never wrote the committed part, and
 * commit(n) replays n logged updates, the same operations on the same numbers. */
#ifndef REFERENCE_STATE_H
#define REFERENCE_STATE_H

#include "base/layout.h"
#include "model/engine.h"

/* Rows of `width` floats: `keep` from before the pending rows (zero before the start of the text),
 * then one for each pending row. */
struct history {
    float *rows; /* [keep + ENGINE_ROWS_MAX][width] */
    int keep, width;
};

/* The row that pending row r writes. The k-th row before it is k * width floats in front, k <=
 * keep. */
static inline float *history_row(const struct history *h, int r)
{
    return h->rows + (size_t)(h->keep + r) * (size_t)h->width;
}
/* The first n pending rows become the past. */
void history_commit(struct history *h, int n);

struct deltanet_state {
    float *st;           /* [nv][dk][dv], after the committed tokens */
    struct history conv; /* inputs of the convolution, keep = kernel - 1 */
    float *k;            /* log [ENGINE_ROWS_MAX][nk * dk]: keys */
    float *delta;        /*     [ENGINE_ROWS_MAX][nv * dv]: what is added along the key */
    float *decay;        /*     [ENGINE_ROWS_MAX][nv] */
};

struct cache {
    float *k, *v; /* [cells][n_kv * head_dim]; keys normed and rotated */
    float *index; /* [cells][index_dim] raw index keys */
};

/* One of the two is there, by the kind of the layer. */
struct layer_state {
    struct deltanet_state deltanet;
    struct cache cache;
};

struct sequence {
    struct reference *g;
    int ctx, len, pending; /* tokens it can hold, committed, in pending rows */
    void *memory;          /* all arrays below but `layers` */
    size_t bytes;
    int32_t *tokens;                    /* [ctx] */
    struct layer_state *layers;         /* [n_layers + 1], the draft head's last */
    struct history ple[CONFIG_PLE_MAX]; /* normed rows before the PLE convolution */
    struct history wide; /* residual after the last layer, keep 1; only with drafts */
    /* Room of the attention layers, whose size depends on ctx. */
    float *block_score;   /* [ctx / ratio + 1] */
    uint8_t *block_taken; /* the same */
    int *block_best;      /* the same */
    int64_t *visible;     /* [max_visible] positions, ascending */
    float *score;         /* [max_visible] */
};

/* Room for the parts of one row, taken at open. Each block names what it uses. */
struct scratch {
    float *row;                         /* one widened matrix row */
    float *hyper;                       /* [S*h]: residual of the row, or of the draft head's */
    float *mixed, *inj, *out;           /* [h], [S], [h]: a block's input, weights, output */
    float *hidden;                      /* [h] */
    float *hyper_n, *hyper_d, *hyper_u; /* hyper: [S*h], [lowrank], [S*h] */
    float *qkv, *z, *a, *b, *y;         /* deltanet: [C], [nv*dv], [nv], [nv], [nv*dv] */
    double *sum;                        /* deltanet, qsa: [max(dv, head_dim)] */
    float *q, *gate, *att, *index_q,
        *index;                          /* qsa: [n_heads*head_dim] x 3, [index_heads*dim], [dim] */
    float *freq;                         /* qsa: [rot/2], set at open */
    float *prob, *route_w;               /* moe: [E], [K] */
    uint8_t *taken;                      /* moe: [E] */
    int *route;                          /* moe: [K] */
    float *up, *act, *expert_out;        /* moe: [wider of the two kinds] x 2, [h] */
    uint8_t *codes;                      /* moe: codes of one matrix below 4 bits */
    float *ple_e, *ple_key, *ple_query;  /* ple: [ple_dim], [S*h], [S*h] */
    float *ple_value, *ple_gv, *ple_out; /* ple: [h], [S*h], [S*h] */
    uint64_t *ngram;                     /* ple: [heads] */
    float *fold_embed, *fold_e, *fold_n; /* mtp: [h], [h], [S*h] */
    int64_t *ids;                        /* observers: [max(K, ngram heads)] */
};

struct reference {
    struct engine base;
    struct engine_options options; /* expert_bits and mtp_norm resolved */
    uint64_t identity;             /* of model, config and options: what a save belongs to */
    void *memory;                  /* what scratch and work point into */
    struct scratch scratch;
    float **work; /* [n_layers] DeltaNet states of the sequence that a step is working on */
};

/* Where a computation stands: which pending row of which sequence, and its position. */
struct at {
    struct sequence *s;
    int r, pos;
    int il; /* layer; n_layers in the draft head, -1 outside layers */
};

/* Floats of one layer's DeltaNet state. */
static inline size_t deltanet_floats(const struct config *c)
{
    return (size_t)c->nv * (size_t)c->dk * (size_t)c->dv;
}

/* The most positions that a query of this sequence sees. */
int sequence_max_visible(const struct config *c, int ctx);

int sequence_open(struct engine *g, int ctx, struct sequence **out, struct err *e);
void sequence_close(struct sequence *s);
void sequence_reset(struct sequence *s);
int sequence_length(const struct sequence *s);
/* Copies the committed DeltaNet states to g->work: a step begins to work on this sequence. */
void sequence_enter(struct sequence *s);
int sequence_commit(struct engine *g, struct sequence *s, int n, struct err *e);

/* save.c */
int sequence_save(struct engine *g, const struct sequence *s, struct buf *out, struct err *e);
int sequence_restore(struct engine *g, struct sequence *s, const void *data, size_t n,
                     struct err *e);

/* Reports to the observer, if there is one. */
void see(const struct reference *g, const struct at *at, enum seen what, const float *x, int n);
void see_ids(const struct reference *g, const struct at *at, enum seen what, const int64_t *ids,
             int n);

#endif
