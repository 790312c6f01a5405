/* The one interface between who wants tokens (runner) and who computes (reference, cpu, gpu).
 *
 * A sequence is the state of one token stream. Tokens are fed in steps of rows; a row is
 * (sequence, token), its position is the sequence's length plus the rows of that sequence before
 * it in the step. After a step the rows are pending until engine_commit keeps the first n of each
 * sequence and takes the rest back. Logits of a row are the prediction after that row's token.
 *
 *      len --step(R rows of the sequence)--> len, R pending --commit(n <= R)--> len + n
 *
 * Sequences know nothing of one another: while one has rows pending, others may step, prefill and
 * commit, up to ENGINE_ROWS_MAX rows of an engine pending in all. What is computed does not depend
 * on how tokens were split into steps (docs/numerics.md). An engine and its sequences are used by
 * one thread at a time. */
#ifndef MODEL_ENGINE_H
#define MODEL_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "model/counters.h"
#include "model/weights.h"

enum {
    ENGINE_ROWS_MAX = 64,
    ENGINE_DRAFTS_MAX = 3,
    ENGINE_THREADS_MAX = 256,
    ENGINE_CHUNK_MAX = 8192,   /* tokens of a prefill at once */
    ENGINE_CTX_DEFAULT = 8192, /* of a sequence, where the model has as many positions */
};

struct engine;
struct sequence;

struct row {
    struct sequence *seq;
    int32_t token;
};

/* What an observer may see. Sizes: residual [S*h], ple [S*h], hidden [h], logits [vocab]; routes
 * [K] expert ids, weights [K]; selected: visible token positions, ascending; ngram [heads] row
 * ids. */
enum seen {
    SEEN_EMBED,    /* wide residual before layer 0 */
    SEEN_PLE,      /* what PLE adds in front of layer il */
    SEEN_MIXER,    /* output of attention or DeltaNet of layer il, [h] */
    SEEN_MOE,      /* output of the mixture of experts of layer il, [h] */
    SEEN_RESIDUAL, /* wide residual after layer il */
    SEEN_HIDDEN,   /* after the final mixer, the input of lm_head */
    SEEN_LOGITS,
    SEEN_ROUTE,        /* ids, descending probability (ints) */
    SEEN_ROUTE_WEIGHT, /* the weights that go with them */
    SEEN_SELECTED,     /* ints */
    SEEN_NGRAM,        /* ints */
    SEEN_MTP_RESIDUAL, /* the draft head's own wide residual */
    SEEN_MTP_LOGITS,
    SEEN_COUNT,
};
const char *seen_name(enum seen what); /* "residual", ...: file names of dumps */

/* Called in the order of computation; x or ids are borrowed for the call. il -1 outside layers; the
 * draft head's own layer reports as il = n_layers. */
struct observer {
    void *ctx;
    void (*floats)(void *ctx, enum seen what, int il, int pos, const float *x, size_t n);
    void (*ints)(void *ctx, enum seen what, int il, int pos, const int64_t *ids, size_t n);
};

/* Which memory holds the records of routed experts. */
enum engine_pool {
    ENGINE_POOL_COPY, /* slots of our own, filled by direct reads */
    ENGINE_POOL_MAP,  /* records are used in place from a mapping; 4 bits only */
};
/* Experts that are not on the device: computed by the processor, copied to the device, or shared
 * out as is fastest. */
enum engine_host { ENGINE_HOST_AUTO, ENGINE_HOST_ON, ENGINE_HOST_OFF };
enum engine_reads { ENGINE_READS_AUTO, ENGINE_READS_URING, ENGINE_READS_PREAD };

/* Zeros everywhere (and mtp_norm -1) are the defaults. What stands behind `observe` is of use to
 * engines that stream; the reference ignores it, and none of it changes a bit of what is computed
 * but miss_bits and cut_weak. */
struct engine_options {
    /* Precision of routed experts: 4 (0 means 4), 3 or 2; the runner turns 0 into the best that the
     * store has. */
    int expert_bits;
    int mtp_norm;                   /* -1: as the config says; else enum mtp_norm */
    bool drafts;                    /* keep the draft head's cache up to date */
    const struct observer *observe; /* or NULL; borrowed until close */
    int threads;                    /* 0: one for each processor */
    /* Memory is set aside for so many sequences of ctx tokens; 0: what the caller opens, one. */
    int ctx, n_sequences;
    uint64_t memory;        /* bytes for all; 0: what the machine has, less headroom */
    uint64_t beside;        /* of these, what the caller takes for itself */
    uint64_t pool_bytes;    /* for expert slots; 0: what is left of memory */
    int pool_slots;         /* the same as a number; at most one of the two is given */
    uint64_t device_memory; /* bytes of the memory of a GPU; 0: what its driver would give */
    enum engine_host host_experts;
    enum engine_pool pool;
    int chunk; /* tokens of a prefill at once; 0: as memory allows */
    enum engine_reads reads;
    int read_depth;    /* reads in flight; 0: measured */
    bool no_lookahead; /* reads nothing before it is asked for */
    bool no_ranking;   /* neither reads nor writes which experts were used in other runs */
    bool phases;       /* time what a device does; costs a little */
    int miss_bits;     /* 0: as expert_bits; 3 or 2: precision of demand reads */
    double cut_weak;   /* 0: off; weight below which a late expert may be dropped */
};

/* Of the logits of a row. */
struct best {
    int32_t token; /* engine_argmax of those below a limit */
    uint64_t hash; /* engine_logits_hash */
};

/* What is wanted of each row of a step of which mostly the likeliest token is. */
struct best_job {
    int limit;         /* ids below it may be best; 1..vocab, the same for all steps of an engine */
    const bool *want;  /* [R] rows whose logits are wanted too; NULL: none */
    float *logits;     /* [rows][vocab]; rows that are not wanted hold anything afterwards */
    struct best *best; /* [rows] */
    const bool *pass; /* [R] rows of which nothing is asked: logits and best have no place for them;
                          NULL: none. Only for engines with prompt_rows */
};

struct engine_ops {
    const char *name, *summary;
    /* w is borrowed until close. */
    int (*open)(const struct weights *w, const struct engine_options *o, struct engine **out,
                struct err *e);
    void (*close)(struct engine *g);
    /* ctx: the most tokens it will hold (all its memory is taken here; E_NOMEM says how much). */
    int (*sequence_open)(struct engine *g, int ctx, struct sequence **out, struct err *e);
    void (*sequence_close)(struct sequence *s);
    void (*sequence_reset)(struct sequence *s);       /* back to length 0 */
    int (*sequence_length)(const struct sequence *s); /* committed tokens */
    /* R rows, 1..ENGINE_ROWS_MAX, rows of one sequence consecutive and without pending rows from
     * before. logits [R][vocab] (row r filled only if want is NULL or want[r]). Tokens must be
     * below vocab. E_LIMIT: over ctx, or more than ENGINE_ROWS_MAX rows of one engine would be
     * pending at once. E_NONFINITE: logits are not finite; then and after any
     * other failure nothing is pending and the sequences are as before. */
    int (*step)(struct engine *g, const struct row *rows, int R, const bool *want, float *logits,
                struct err *e);
    /* The same step, for whoever needs no logits: they stay where they are made. NULL: it costs
     * the engine nothing to give them (engine_step_best). */
    int (*step_best)(struct engine *g, const struct row *rows, int R, const struct best_job *j,
                     struct err *e);
    /* n tokens, 1..g->chunk, of a sequence without pending rows, committed at once: to the bit what
     * steps and commits of them would do. logits [vocab] of the last one, or NULL. After a failure
     * the sequence is as before. */
    int (*prefill)(struct engine *g, struct sequence *s, const int32_t *tokens, int n,
                   float *logits, struct err *e);
    /* Keeps the first n pending rows of the sequence. */
    int (*commit)(struct engine *g, struct sequence *s, int n, struct err *e);
    /* Draft logits for the tokens after `next`, where `next` follows the committed tokens: logits
     * [depth][vocab], depth 1..ENGINE_DRAFTS_MAX; draft d+1 is chained on the argmax of draft d,
     * written to tokens[depth]. logits NULL: only the tokens are wanted. Needs committed tokens and
     * no pending rows (else E_ARG). Leaves the state as it is. E_UNSUPPORTED without a draft head
     * or without o->drafts. */
    int (*draft)(struct sequence *s, int32_t next, int depth, int32_t *tokens, float *logits,
                 struct err *e);
    /* The committed state as bytes, appended; pending rows are no part of it. restore needs a
     * sequence of the same engine, store and options (else E_FORMAT) and a context that is long
     * enough (E_LIMIT); it drops pending rows, and leaves the sequence as it was when it fails.
     * Byte-exact: what follows is what would have followed. */
    int (*save)(struct engine *g, const struct sequence *s, struct buf *out, struct err *e);
    int (*restore)(struct engine *g, struct sequence *s, const void *data, size_t n, struct err *e);
    /* What happened since open; NULL when the engine counts nothing. Borrowed until close. */
    const struct counters *(*counters)(const struct engine *g);
    /* Nothing that it is asked for will work any more, as a device is gone: close it, and open
     * another. NULL: that does not happen. */
    bool (*lost)(const struct engine *g);
};

/* Every engine begins with this. */
struct engine {
    const struct engine_ops *ops;
    const struct weights *weights;
    int chunk;          /* the most tokens that prefill takes */
    int prompt_rows;    /* so many tokens of prompts are as well fed as rows of a step, which others
                           share, as by prefills; 0: none */
    const char *remark; /* what whoever opened it should know, one line; NULL: nothing */
};

/* out = o with the three that decide what is computed filled in: expert_bits, mtp_norm, drafts (off
 * where the model has no head). E_ARG names the one that is wrong. */
int engine_options_resolve(const struct config *c, const struct engine_options *o,
                           struct engine_options *out, struct err *e);

/* For engines that set memory aside at open: checks o's chunk, and fills in n_sequences and ctx. */
int engine_sizes_resolve(const struct config *c, const struct engine_options *o,
                         struct engine_options *out, struct err *e);

/* What may be asked of an engine, in the same words by every engine: E_ARG or E_LIMIT says what is
 * wrong. The tokens that a sequence is opened for; the rows of a step. */
int engine_ctx_check(const struct config *c, int ctx, struct err *e);
int engine_rows_check(int R, struct err *e);
/* For engines that keep what pending rows did for all sequences together: places of ENGINE_ROWS_MAX
 * that are used, and rows that are pending. */
int engine_pending_check(int R, int used, int pending, struct err *e);
/* Row r is the nth row of a sequence that holds len committed tokens of ctx and has rows pending;
 * own: it belongs to the engine. */
struct row_check {
    const struct row *row; /* with n 1 the r rows before it stand in front of it */
    int r, n;
    bool own;
    int pending, len, ctx, vocab;
};
int engine_row_check(const struct row_check *c, struct err *e);
int engine_prefill_check(const struct engine *g, int n, struct err *e);
int engine_commit_check(int n, int pending, struct err *e);

/* The same of what engine_ops.draft asks; E_UNSUPPORTED too. */
struct draft_check {
    bool drafts; /* the engine was opened with them */
    int depth;
    int32_t next;
    int len, pending; /* of the sequence */
};
int engine_draft_check(const struct config *c, const struct draft_check *d, struct err *e);

/* What it counts, or NULL. */
const struct counters *engine_counters(const struct engine *g);

/* A step of any engine: see engine_ops.step_best. */
int engine_step_best(struct engine *g, const struct row *rows, int R, const struct best_job *j,
                     struct err *e);

/* argmax with ties to the lower index. */
int32_t engine_argmax(const float *logits, int vocab);

/* A number that tells logits apart: the sum of products of pairs of their bits, each with a number
 * of its place added. In any order, as devices add them (gpu/head_best.comp). */
uint64_t engine_logits_hash(const float *logits, int vocab);
/* What logits from .. end - 1 add to it, in any order; from is even, and so is end or it is the
 * vocabulary's. */
uint64_t engine_logits_hash_part(const float *logits, int from, int end);

#endif
