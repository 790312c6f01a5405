/* What the cpu engine remembers: the engine, its working room, and the state of a sequence.
 *
 * A sequence holds its state after the committed tokens. What the pending rows did is apart from
 * it, so that a step that fails, or rows that are taken back, leave it as it was:
 *
 *   by position (what lies behind the length is overwritten before it is read)
 *       tokens; keys, values, raw index keys and block keys of each attention layer and of the
 *       draft head
 *   by plane (struct sequence.plane says which of two is the committed one)
 *       DeltaNet states and the rows before the convolutions: a step writes the other plane, and
 *       a commit of all its rows turns the two round
 *   by row (struct pending, of the engine, shared by all sequences)
 *       inputs of the convolutions, the residual after the last layer, and the rank-one update that
 *       a row made to each DeltaNet state: a commit of fewer rows makes the other plane again from
 *       these
 *
 * A prefill commits all it takes, so it keeps nothing by row but what is in `scratch`. */
#ifndef CPU_STATE_H
#define CPU_STATE_H

#include <stdatomic.h>

#include "base/layout.h"
#include "base/os.h"
#include "cpu/linear.h"
#include "base/team.h"
#include "model/engine.h"
#include "stream/dense.h"
#include "stream/stream.h"

struct deltanet_state {
    float *st[2];   /* [nv][dk][dv] */
    float *conv[2]; /* [kernel-1][2*nk*dk + nv*dv], the oldest first: inputs of the convolution */
};

struct cache {
    int8_t *k, *v;               /* [cells][n_kv*head_dim] quant/kv8.h; keys normed and rotated */
    uint16_t *k_scale, *v_scale; /* [cells][n_kv*head_dim / 32] */
    float *index;                /* [cells][index_dim] raw index keys */
    float *block;                /* [cells / ratio][index_dim] keys of complete blocks */
};

/* One of the two is there, by the kind of the layer. */
struct layer_state {
    struct deltanet_state deltanet;
    struct cache cache;
};

struct sequence {
    struct cpu *g;
    int ctx, len, pending;         /* tokens it can hold, committed, in pending rows */
    int first;                     /* its first pending row among those of the engine */
    int plane;                     /* which of two is committed: 0 or 1 */
    struct os_pages pages;         /* all arrays below but `layers` */
    int32_t *tokens;               /* [ctx] */
    struct layer_state *layers;    /* [n_layers + 1], the draft head's last */
    float *ple[CONFIG_PLE_MAX][2]; /* [ngram_size * (ple_kernel-1)][S*h] rows before the PLE
                                       convolution, the oldest first */
    float *wide; /* [S*h] residual after the last layer of the last token; only with drafts */
    /* Room to choose blocks in, whose size depends on ctx. */
    size_t blocks;
    float *block_score;   /* [ATTEND_ROWS][blocks] */
    uint32_t *block_rank; /* the same */
};

/* What pending rows leave, by row: [ENGINE_ROWS_MAX] each. */
struct layer_pending {
    float *conv;  /* [2*nk*dk + nv*dv] */
    float *k;     /* [nk*dk] */
    float *delta; /* [nv*dv] */
    float *decay; /* [nv] */
};
struct pending {
    struct layer_pending *layers; /* [n_layers], empty for attention layers */
    float *ple[CONFIG_PLE_MAX];   /* [S*h] */
    float *wide;                  /* [S*h], only with drafts */
    int rows, used;               /* that are pending, and taken from the front: none are free in
                                     between, because most steps are committed before the next */
};

/* Where a row stands: the r-th of this step or chunk of its sequence, and its position. */
struct at {
    struct sequence *s;
    int r, pos;
    int32_t token;
};

/* Rows first .. first + n - 1 of a batch are of this sequence. */
struct segment {
    struct sequence *s;
    int first, n;
};

/* The rows of a step, or of a chunk of a prefill. */
struct batch {
    struct at *at; /* [R] */
    int R;
    struct segment *segments;
    int n_segments;
    bool prefill;
    int pending; /* of a step: its first row among the engine's pending ones */
    int il;      /* layer; n_layers in the draft head, -1 outside layers */
    bool add;    /* scratch.out of the block before is still to be added to scratch.hyper */
};

/* An expert of a visit. */
struct use {
    int expert, first, n; /* slots first .. first + n - 1 */
};

enum {
    ATTEND_ROWS = 16,   /* rows whose attention is under way at once */
    ATTEND_PART = 128,  /* positions that are added up before parts meet; bits depend on it */
    SCORE_BLOCKS = 512, /* blocks of the indexer in an item */
    MIX_ROWS = 32,
    MIX_COLS = 256,   /* of the hyper read: an item's columns of each stream, and the
                                      rows that go through them at once */
    MOE_ENTRIES = 64, /* experts in a stage */
};

/* What a member has seen of the logits of a row. */
struct row_best {
    float most;
    int32_t token; /* the lowest that has them */
    uint64_t hash;
    bool bad; /* some are not finite */
};

/* Room for the parts of a batch, taken at open; rows: the most of a batch. Each block names what it
 * uses. */
struct scratch {
    struct at *at;             /* [rows] */
    struct segment *segments;  /* [ENGINE_ROWS_MAX] */
    float *rope;               /* [rows][rot]: cosines, then sines, of a row's position */
    float *hyper;              /* [rows][S*h] the residual */
    struct acts norm, low;     /* hyper: [S*h] normed streams (ple, mtp too), [lowrank] */
    float *inj;                /* hyper: [rows][S], before its sigmoid */
    struct acts mixed, hidden; /* [h] a block's input */
    float *out;                /* [rows][h] a block's output */
    float *conv, *z, *a, *b;   /* deltanet: [C] (prefill), [nv*dv], [nv], [nv] */
    struct acts y;             /* deltanet: [nv*dv] */
    float *q, *k, *v, *index;  /* qsa: [2*n_heads*head_dim], [n_kv*head_dim] x 2,
                                  [(index_heads+1)*index_dim] */
    struct acts att;           /* qsa: [n_heads*head_dim] */
    int *visible, *n_visible;  /* qsa: [ATTEND_ROWS][max_visible], [ATTEND_ROWS] */
    float *part_sum, *part_max, *part_out; /* qsa: [ATTEND_ROWS][n_kv][H][parts] x 2, and
                                              [ATTEND_ROWS][n_kv][parts][H][head_dim] */
    float *router;                         /* moe: [rows][E] */
    int *route;                            /* moe: [rows][K] */
    float *route_w;                        /* moe: [rows][K] */
    int *slot;                             /* moe: [rows][K] */
    int *slot_row;                         /* moe: [rows*K] */
    int *count;                            /* moe: [E] */
    struct use *uses;                      /* moe: [E] */
    struct stream_use *asked;              /* moe: [E] */
    float *up;                             /* moe: [rows][inter] */
    struct acts act, shared_act;           /* moe: [inter], [shared_inter] */
    float *shared_up, *open;               /* moe: [rows][shared_inter], [rows] */
    float *y_expert, *y_shared;            /* moe: [rows*K][h], [rows][h] */
    struct acts ahead;                     /* lookahead: [ENGINE_ROWS_MAX][h] */
    int *guess;                            /* lookahead: [E] */
    struct acts ple_e;                     /* ple: [ple_dim] */
    float *ple_value, *ple_rows;           /* ple: [h], [S*h] (prefill) */
    uint64_t *ngram;                       /* ple: [rows][all heads of all modules] */
    struct acts embed, streams;            /* mtp: [h], norm's streams one by one */
    float *fold;                           /* mtp: [rows][h] */
    struct at *cell;                       /* mtp: [rows] */
    const float **wide;                    /* mtp: [rows] residuals that cells are made from */
    float *draft_logits;                   /* mtp: [vocab] */
    float *last_wide;                      /* mtp: [S*h] of the last row (prefill) */
    struct row_best *best;                 /* head: [members][ENGINE_ROWS_MAX] */
    float *room;                           /* [members][room_floats] */
    size_t room_floats;
    int64_t *ids; /* observers: [most ids of a report] */
};

/* What open makes of the weights. */
struct layer_extra {
    float *taps;  /* deltanet: [kernel][2*nk*dk + nv*dv], a convolution's taps one after another */
    double *rate; /* deltanet: [nv] exp(A_log) */
};

struct cpu {
    struct engine base;
    struct engine_options options; /* resolved */
    struct weights weights;        /* their dense part in memory of our own */
    struct dense dense;
    char remark[256];      /* of base.remark */
    struct reader *reader; /* what the stream reads through, or NULL; the stream's own */
    uint64_t evict_seed;   /* of the stream; for tests */
    struct stream *stream;
    struct kern kern;
    struct team *team;
    struct counters counters;
    uint64_t identity;
    int rows;        /* the most of a batch */
    int max_visible; /* positions that a query sees */
    bool lookahead;
    struct os_pages pages; /* what scratch, pending and extra point into */
    struct scratch scratch;
    struct pending pending;
    struct layer_extra *extra;       /* [n_layers] */
    float *ple_taps[CONFIG_PLE_MAX]; /* [ple_kernel][S*h] */
    float *freq;                     /* [rot/2] */
    atomic_int bad_row; /* the lowest row of the batch with a value that is not finite */
};

/* Floats of one layer's DeltaNet state. */
static inline size_t deltanet_floats(const struct config *c)
{
    return (size_t)c->nv * (size_t)c->dk * (size_t)c->dv;
}
/* Channels of its convolution. */
static inline int deltanet_width(const struct config *c)
{
    return 2 * c->nk * c->dk + c->nv * c->dv;
}
/* Rows before the PLE convolution. */
static inline int ple_keep(const struct config *c)
{
    return c->ngram_size * (c->ple_kernel - 1);
}

/* A member's own floats, room_floats of them. */
static inline float *member_room(const struct cpu *g, int member)
{
    return g->scratch.room + (size_t)member * g->scratch.room_floats;
}

/* Bytes of a sequence of ctx tokens. SIZE_MAX: more than there can be. */
size_t cpu_sequence_bytes(const struct cpu *g, int ctx);

int cpu_sequence_open(struct engine *g, int ctx, struct sequence **out, struct err *e);
void cpu_sequence_close(struct sequence *s);
void cpu_sequence_reset(struct sequence *s);
int cpu_sequence_length(const struct sequence *s);
int cpu_sequence_commit(struct engine *g, struct sequence *s, int n, struct err *e);
/* Forgets the pending rows. */
void cpu_sequence_drop(struct sequence *s);

/* save.c */
int cpu_sequence_save(struct engine *g, const struct sequence *s, struct buf *out, struct err *e);
int cpu_sequence_restore(struct engine *g, struct sequence *s, const void *data, size_t n,
                         struct err *e);

/* scratch.c: all that a step needs, for g->rows rows; counts (l->base NULL) or places. */
void scratch_place(struct cpu *g, struct layout *l);

/* Around a batch: begin forgets what was noted by row, turn sets scratch.rope for its positions,
 * and check is E_NONFINITE with the position of the first row that was spoilt. */
void batch_begin(struct cpu *g);
void batch_turn(struct cpu *g, const struct batch *b);
int batch_check(struct cpu *g, const struct batch *b, struct err *e);
/* Marks row r of the batch: a value of it is not finite. From any thread. */
void row_spoil(struct cpu *g, int r);
/* fn for items 0 .. n-1 of little work: by the caller alone when they are few. */
void each_row(struct cpu *g, int n, team_fn *fn, void *ctx);

/* Report to the observer, if there is one: rows r of the batch, n values each, `stride` apart. */
void cpu_see_rows(const struct cpu *g, const struct batch *b, enum seen what, const float *x,
                  int n);
void cpu_see_row(const struct cpu *g, const struct batch *b, int r, enum seen what, const float *x,
                 int n);
void cpu_see_ids(const struct cpu *g, const struct batch *b, int r, enum seen what, const int *ids,
                 int n);

#endif
