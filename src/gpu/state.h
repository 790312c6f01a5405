/* What the gpu engine remembers: the engine, its working room on the device, and the state of a
 * sequence. src/cpu/state.h has the same parts in the host's memory.
 *
 * Everything that kernels touch is a device address (u64). Three buffers hold the room of a step:
 *
 *      local    device memory: activations, pending rows
 *      shared   written by the host before a submission, read by kernels: tables of rows and
 *               segments, rope, rows of the n-gram tables, addresses of experts
 *      back     written by kernels, read by the host after one: routes, logits, what is spoilt
 *
 * A sequence holds its state after the committed tokens in one buffer on the device; struct
 * gpu_segment says where. What lies there by position is overwritten before it is read; DeltaNet
 * states and the rows before convolutions have two planes: a step reads the committed one and
 * writes the other, and a commit of all its rows turns the two round; a commit of fewer makes the
 * other plane again from what the rows left in the pending arrays. */
#ifndef GPU_STATE_H
#define GPU_STATE_H

#include "base/layout.h"
#include "base/os.h"
#include "gpu/device.h"
#include "gpu/host_moe.h"
#include "gpu/mix.h"
#include "gpu/params.h"
#include "gpu/residency.h"
#include "model/engine.h"
#include "stream/stream.h"

/* Rows of n activations: f32 [rows][n] at x, and the same as 16-bit codes at q, acts_bytes(n) to a
 * row (linear.h). Whoever fills x quantises it. */
struct gpu_acts {
    u64 x, q;
    int n;
};

/* Offsets from the state of a sequence, alike in all: a layer's DeltaNet, a PLE module's rows. */
struct deltanet_place {
    u64 st[2];   /* by plane: f32 [nv][dk][dv] */
    u64 conv[2]; /* [kernel-1][2*nk*dk + nv*dv], the oldest first: inputs of the convolution */
};
struct ple_place {
    u64 rows[2]; /* [ngram_size * (ple_kernel-1)][S*h] before the PLE convolution, oldest first */
};
struct places {
    struct deltanet_place deltanet[CONFIG_LAYERS_MAX]; /* of linear layers */
    int cache[CONFIG_LAYERS_MAX + 1]; /* which cache an attention layer has; the head's is last */
    int n_caches;
    struct ple_place ple[CONFIG_PLE_MAX];
    u64 wide;  /* [S*h] residual after the last layer of the last token; only with drafts */
    u64 bytes; /* of all these */
};

struct sequence {
    struct gpu *g;
    int ctx, len, pending; /* tokens it can hold, committed, in pending rows */
    int first;             /* its first pending row among those of the engine */
    int plane;
    int32_t *tokens; /* [ctx], on the host */
    struct device_buffer state;
    struct gpu_segment at; /* all but first, n, plane, pending, len */
};

/* What pending rows leave, by row: [ENGINE_ROWS_MAX] each. */
struct pending {
    u64 deltanet[CONFIG_LAYERS_MAX]; /* GPU_DELTANET_LOG floats; 0 for attention layers */
    u64 ple[CONFIG_PLE_MAX];         /* [S*h] */
    u64 wide;                        /* [S*h], only with drafts */
    int rows, used;                  /* pending, and taken from the front */
};

/* Where a row stands: the r-th of this batch of its sequence, and its position. */
struct at {
    struct sequence *s;
    int r, pos;
    int32_t token;
};

/* The tables of a batch, as the host writes them into `shared`. The trunk and the draft head have
 * one set each, so that both may be in one submission. */
struct tables {
    struct at *at;       /* [rows], in memory of the host's own: it does not read `shared` */
    struct gpu_row *row; /* [rows] */
    struct gpu_segment *segment; /* [ENGINE_ROWS_MAX] */
    float *rope, *rope_block;    /* [rows][rot] */
};

/* The rows of a step, of a chunk of a prefill, or of the draft head. */
struct batch {
    int R;
    int n_segments;
    int pending; /* of a step: the engine's pending rows before it */
    bool prefill;
    bool apart; /* each row is a segment of its own: drafts, of which one follows another */
    int reach;  /* at least as many positions as any row sees back to the start; 0: to be
                       looked up */
    int first_head, n_heads;   /* rows with logits */
    const bool *want;          /* of a step: of these, which are asked for; NULL: all */
    bool back;                 /* logits are copied to the host */
    int limit;                 /* ids below it may be the best of a row */
    const struct batch *cells; /* of the draft head, to be filled with it, or NULL */
    bool rows_taken;           /* of the n-gram tables: recorded */
    int il;                    /* layer; n_layers in the draft head, -1 outside layers */
    bool add;       /* scratch.out of the block before is still to be added to scratch.hyper */
    u64 rows;       /* struct gpu_row [R] */
    u64 segments;   /* struct gpu_segment [n_segments] */
    u64 rope;       /* [R][rot] cosines, then sines, of the rows' positions */
    u64 rope_block; /* [R][rot] the same at the first position of the block of keys that a row
                       completes; rows that complete none have nothing of use there */
    struct gpu_segment segment[ENGINE_ROWS_MAX]; /* what stands in the table */
    struct tables *host;
    struct sequence *seq[ENGINE_ROWS_MAX]; /* of each segment */
};

/* The router's choice for each row. */
struct routes {
    u64 router;         /* f32 [rows][E] */
    u64 route, route_w; /* u32 [rows][K], most likely first; f32 [rows][K] */
    u64 open;           /* f32 [rows] shared gate, before its sigmoid */
    u64 back, back_w;   /* in `back`: copies of the two, where the host wants to see them */
};

/* Room for the parts of a batch of at most g->rows rows; each block names what it uses. Addresses
 * are in `local` unless a line says otherwise. */
struct scratch {
    u64 hyper;                        /* [rows][S*h] the residual */
    struct gpu_acts norm;             /* hyper (ple, mtp too): [S*h] normed streams */
    u64 low;                          /* hyper: gpu_hyper_low_floats */
    u64 inj;                          /* hyper: [rows][S], before its sigmoid */
    struct gpu_acts mixed, hidden;    /* [h] a block's input; the head's */
    u64 out;                          /* [rows][h] a block's output */
    u64 conv, z, a, b;                /* deltanet: [2*nk*dk + nv*dv], [nv*dv], [nv], [nv] */
    struct gpu_acts y;                /* deltanet: [nv*dv] */
    u64 q, k, v, index;               /* qsa: [2*n_heads*head_dim], [n_kv*head_dim] x 2,
                                     [(index_heads+1)*index_dim] */
    struct gpu_acts att;              /* qsa: [n_heads*head_dim] */
    u64 chosen;                       /* qsa: u32 [rows][budget / ratio] blocks, ascending */
    u64 part_max, part_sum, part_out; /* qsa: [ATTEND_ROWS][n_heads][parts] x 2, and
                                         [ATTEND_ROWS][n_heads][parts][head_dim] */
    struct routes routes, ahead;      /* moe: of this layer, and a guess at the next */
    struct gpu_acts ahead_x;          /* lookahead: [ENGINE_ROWS_MAX][h] */
    u64 act, shared_act;              /* moe: activations [rows*K][inter], [rows][shared_inter] */
    u64 many;                         /* hyper, deltanet, moe: their room for many rows, in turn */
    struct gpu_acts ple_e[CONFIG_PLE_MAX]; /* ple: [ple_dim]; x is in `shared`: table rows, decoded
                                     by the host; q is not filled yet, and the same for all */
    u64 ple_value, ple_rows;               /* ple: [h], [S*h] normed rows */
    struct gpu_acts embed;                 /* mtp: [h] */
    struct gpu_acts streams;               /* mtp: norm, its streams one by one: [rows*S][h] */
    u64 fold;                              /* mtp: [rows][h] */
    u64 wide;                /* mtp: u64 [rows], in `shared`: the residual each cell is made
                                     from */
    u64 last_wide;           /* mtp: [S*h] of the last row of a prefill */
    u64 logits, logits_back; /* [ENGINE_ROWS_MAX][vocab]; the same in `back` */
    u64 best, best_parts;    /* u32 [ENGINE_ROWS_MAX]; gpu_best_room */
    u64 best_back;           /* in `back`: those of drafts */
    u64 parts_back;          /* in `back`: gpu_best_room, of a step */
    u64 bad;                 /* in `back`: u32, the lowest row with a value that is not finite;
                                     0xffffffff: none. Kernels: atomicMin */
    u64 table;               /* in `shared`: u64 [layers][E] addresses of experts */
    u64 mixed_back;          /* in `back`: activations [HOST_MOE_ROWS][h], mixed */
    u64 outputs;             /* in `shared`: [HOST_MOE_ROWS][K][h] of experts, by the host */
};

enum { ATTEND_ROWS = 64 }; /* rows whose attention is under way at once */

/* Room of the host. */
struct host {
    struct tables tables[2]; /* the trunk's, the draft head's */
    u64 *table;              /* in `shared`: scratch.table */
    u64 *wide;               /* in `shared`: scratch.wide */
    float *freq;             /* [rot/2] of rope */
    uint64_t *ngram;         /* [rows][heads of all PLE modules] rows of their tables */
    float *outputs;          /* in `shared`: scratch.outputs */
    int *count;              /* [E] */
    struct stream_use *uses; /* [E] */
    int *guess;              /* [E] */
    int64_t *ids;            /* observers: [most ids of a report] */
    float *seen;             /* observers: [rows][S*h] */
};

/* Where the records of experts are. Resident: copies on the device, for good. Else copies of some
 * on the device, if it has a tier for them, and the stream's slots, which those of the tier are
 * copied from and others used in; the slots of a visit stay pinned until what reads them has
 * ended. */
struct experts {
    bool resident;
    struct residency *tier;     /* of the device; NULL: none, and not resident */
    struct device_buffer slots; /* the stream's, as the device sees them */
    int slots_max;              /* experts of a visit at most */
    int n_uses;                 /* of the visit that is open; 0: none is */
    int rows;                   /* that it was for */
};

/* Copies between slots of the pool and of the device that are under way, a ring. */
struct under_way {
    struct {
        const uint8_t *record; /* of the pool: held, or given */
        uint64_t value;        /* of device_copy */
    } copy[DEVICE_COPIES_MAX];
    int first, n;
};

/* Of records to the device that nobody has asked for yet. */
struct ahead {
    struct under_way to;
    int most, max; /* at once: now, and ever; max 0: none */
    bool full;     /* so many were under way when the last of them were started */
};

/* Of records that will leave the device, to the pool. */
struct keep {
    struct under_way from;
    int max; /* at once; 0: none */
};

/* What the processor computes of a visit. */
struct share_rates {
    struct host_moe *moe;    /* NULL: nothing */
    double copy_ns, host_ns; /* of a record to the device; of an expert for one row. 0 where it
                                computes all that is not on the device */
};

/* Bytes of weights that a batch goes through: in all layers without routed experts, for logits, and
 * of a record. */
struct touched {
    uint64_t layers, head, record;
};

struct gpu {
    struct engine base;
    struct engine_options options; /* resolved */
    struct device *device;
    struct plans *plans;
    struct tape *tape;     /* what blocks record into */
    struct reader *reader; /* what the stream reads through, or NULL; the stream's own */
    uint64_t evict_seed;   /* of the stream; for tests */
    struct stream *stream;
    struct counters counters;
    struct touched touched;
    uint64_t identity;
    int rows;        /* the most of a batch */
    int max_visible; /* positions that a query sees */
    bool lookahead;
    struct device_buffer dense, vectors; /* dense.bin; the f32 vectors (weights.arena) */
    struct device_buffer local, shared, back;
    struct os_pages pages; /* what `host` points into, but for `shared` */
    struct scratch scratch;
    struct pending pending;
    struct places places;
    struct experts experts;
    struct ahead ahead;
    struct keep keep;
    struct share_rates share;
    struct host host;
    char remark[416];
};

/* Device addresses of what the engine's struct weights points to: matrices lie in dense.bin,
 * vectors in weights.arena. */
static inline u64 gpu_at(const struct gpu *g, const void *dense)
{
    const uint8_t *start = g->base.weights->source.store->dense.data;
    return g->dense.address + (u64)((const uint8_t *)dense - start);
}
static inline u64 gpu_vector(const struct gpu *g, const struct vector *v)
{
    const char *start = g->base.weights->arena;
    return g->vectors.address + (u64)((const char *)v->x - start);
}

/* Host's pointers into `back`, and device addresses of its pointers into `shared`. */
static inline void *gpu_back(const struct gpu *g, u64 address)
{
    return (char *)g->back.host + (address - g->back.address);
}
static inline u64 gpu_shared(const struct gpu *g, const void *p)
{
    return g->shared.address + (u64)((const char *)p - (const char *)g->shared.host);
}

/* --- sequence.c --- */

/* Places of a sequence's parts, alike in all. */
void sequence_places(struct gpu *g);
/* Bytes on the device of a sequence of ctx tokens. SIZE_MAX: more than there can be. */
size_t gpu_sequence_bytes(const struct gpu *g, int ctx);
int gpu_sequence_open(struct engine *g, int ctx, struct sequence **out, struct err *e);
void gpu_sequence_close(struct sequence *s);
void gpu_sequence_reset(struct sequence *s);
int gpu_sequence_length(const struct sequence *s);
int gpu_sequence_commit(struct engine *g, struct sequence *s, int n, struct err *e);
/* Forgets the pending rows. */
void gpu_sequence_drop(struct sequence *s);
/* Address of a part at `place` of the state of s. */
static inline u64 sequence_at(const struct sequence *s, u64 place)
{
    return s->state.address + place;
}

/* --- save.c --- */

int gpu_sequence_save(struct engine *g, const struct sequence *s, struct buf *out, struct err *e);
int gpu_sequence_restore(struct engine *g, struct sequence *s, const void *data, size_t n,
                         struct err *e);

/* --- scratch.c: all that a step needs, for g->rows rows; counts (base NULL) or places --- */

enum room { ROOM_LOCAL, ROOM_SHARED, ROOM_BACK, ROOM_HOST, ROOMS };
/* Device rooms have device addresses as their base. */
void gpu_scratch_place(struct gpu *g, struct layout room[ROOMS]);

/* --- gpu.c --- */

/* Makes the kernels that steps, prefills and drafts need, so that the first is as fast as the
 * others. E_INTERRUPTED between two. */
int gpu_rehearse(struct gpu *g, struct err *e);

/* --- batch.c --- */

/* Checks the rows and makes a batch and its tables of them; the sequences are as before. */
int gpu_batch_of_rows(struct gpu *g, const struct row *rows, int R, struct batch *b, struct err *e);
int gpu_batch_of_tokens(struct gpu *g, struct sequence *s, const int32_t *tokens, int n,
                        struct batch *b, struct err *e);
/* The draft head's: b with n rows in host->at. */
void gpu_batch_of_cells(struct gpu *g, struct batch *b, int n, bool prefill);
void gpu_batch_of_drafts(struct gpu *g, struct batch *b, int n);
/* Row r of b alone, with tables of the host's for it in *t. */
struct batch gpu_batch_row(const struct gpu *g, const struct batch *b, int r, struct tables *t);
/* For plans: reach, rounded up so that few plans do for all positions. */
void gpu_batch_round(const struct gpu *g, struct batch *b);
/* E_NONFINITE with the position of the first row that was spoilt. */
int gpu_batch_check(const struct gpu *g, const struct batch *b, struct err *e);

/* --- count.c: what a batch that went well was, for counters --- */

void gpu_count_init(struct gpu *g);
void gpu_count(struct gpu *g, const struct batch *b, uint64_t start); /* clock_ns() then */

/* --- copy.c: words from `from` (0: zeros) to `to`, in the order of the tape --- */

int gpu_copy(struct gpu *g, u64 from, u64 to, size_t words, struct err *e);

/* --- see.c: reports to the observer, if there is one, at stops of their own. Of each row of the
 * batch n values, at an address of `local` --- */

int gpu_see_rows(struct gpu *g, struct batch *b, enum seen what, u64 x, int n, struct err *e);
void gpu_see_row(const struct gpu *g, const struct batch *b, int r, enum seen what, const float *x,
                 int n);
void gpu_see_ids(const struct gpu *g, const struct batch *b, int r, enum seen what, const int *ids,
                 int n);
int gpu_see_selected(struct gpu *g, struct batch *b, struct err *e);
/* Routes are in `back`: at a stop. */
void gpu_see_routes(const struct gpu *g, const struct batch *b);

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
#endif
