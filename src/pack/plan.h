/* What packing a checkpoint will do, decided from headers and config.json alone: the layout of
 * the store (target) and, for each piece of it, which source tensors it is made of and how.
 * Pure: nothing is written, and only norms are read. `pack --dry-run` prints it, `inspect` lists
 * its problems, and dense.c, experts.c and ngram.c carry it out. */
#ifndef PACK_PLAN_H
#define PACK_PLAN_H

#include "base/buf.h"
#include "checkpoint/convention.h"
#include "pack/encode.h"
#include "pack/piece.h"
#include "pack/source.h"
#include "store/expected.h"
#include "store/manifest.h"

enum plan_norms { PLAN_NORMS_DETECT, PLAN_NORMS_RAW, PLAN_NORMS_FOLDED };

struct plan_choices {
    enum plan_norms norms;
    bool requantise;   /* MLX groups of another size than the store's: quantise again, lossy */
    bool skip_unknown; /* leave out tensors that no store has, instead of refusing */
};

enum plan_dense_kind {
    PLAN_COPY,   /* the bytes as they are */
    PLAN_FOLD,   /* a raw norm: bf16 of 1 + w */
    PLAN_ENCODE, /* a matrix that becomes codes, scales and biases */
    PLAN_DERIVE, /* n-gram constants that the source lacks, from config.json */
};

/* One tensor or module of dense.bin. */
struct plan_dense {
    enum plan_dense_kind kind;
    const struct expected *expected;
    const char *suffix;          /* of the name, behind expected->name; NULL for PLAN_ENCODE */
    const struct tensor *tensor; /* PLAN_COPY, PLAN_FOLD */
    struct encode_source matrix; /* PLAN_ENCODE */
    size_t entry[3];             /* in target.dense: the tensor; or weight, scales, biases */
};

/* One matrix of a record layer: the rows of expert ie are first + ie * step and following. */
struct plan_experts {
    struct encode_source matrix;
    uint64_t first, step;
};

/* One part of an n-gram table: row i of the matrix is row first_row + i of ngram.bin. */
struct plan_ngram {
    struct encode_source matrix;
    uint64_t first_row;
};

/* What becomes of a source tensor. */
enum plan_fate {
    FATE_COPIED,
    FATE_FOLDED,
    FATE_QUANTISED,
    FATE_REQUANTISED,
    FATE_VISION,  /* skipped */
    FATE_UNKNOWN, /* skipped by request, else a problem: a name that no store has */
    FATE_UNUSED,  /* the same for a known name that config.json does not ask for */
    FATE_COUNT,
};
const char *plan_fate_name(enum plan_fate f); /* "copied as they are", ... */

enum plan_problem_kind {
    PROBLEM_ENCODING, /* a form that is not packed, with what to do */
    PROBLEM_MISSING,
    PROBLEM_UNKNOWN,
    PROBLEM_UNUSED,
    PROBLEM_NORMS, /* neither raw nor folded for sure */
    PROBLEM_COUNT,
};

struct plan_problem {
    enum plan_problem_kind kind;
    char *text; /* names the tensor; owned */
};

struct plan {
    struct checkpoint *checkpoint;
    json_t *config_root; /* what config.json of the store says */
    bool config_changed; /* it differs from the source's: 0 draft layers */
    struct config config;
    struct convention norms;
    struct source source;
    struct expected_list expected;
    struct plan_choices choices;

    struct plan_dense *dense;
    size_t n_dense;
    struct plan_experts (*experts)[EXPERT_MATRICES]; /* [target.experts.n_layers] */
    struct plan_ngram *ngram;                        /* in order of first_row */
    size_t n_ngram;
    struct manifest target; /* root NULL, no checksums */
    uint64_t bytes[PIECE_FILES];

    struct {
        size_t tensors;
        uint64_t bytes;
    } fate[FATE_COUNT];
    size_t n_derived;
    size_t n_matrices[3]; /* by enum encode_form */
    struct plan_problem *problems;
    size_t n_problems;
    bool short_of_memory; /* a problem could not be noted: plan_open fails */
};

/* Opens the checkpoint in dir and plans. Succeeds with problems listed, so that `inspect` can show
 * them all; fails only where no plan can be made (no checkpoint, no valid config, no memory). */
int plan_open(const char *dir, const struct plan_choices *choices, struct plan **out,
              struct err *e);
void plan_close(struct plan *p); /* NULL is fine */

/* 0 when the plan can be carried out; else one message about the worst kind of problem. */
int plan_check(const struct plan *p, struct err *e);
uint64_t plan_bytes(const struct plan *p);       /* of the three files together */
const char *plan_encoding(const struct plan *p); /* "BF16", "MLX 4-bit", ...: of the matrices */

/* The n-gram constants that an EXPECTED_HASH tensor must have; borrowed from the plan. */
const uint64_t *plan_constants(const struct plan *p, const struct expected *x);
/* Reads the constants that the source has: E_FORMAT when they are not those of config.json,
 * since then every row would be looked up in the wrong place. */
int plan_check_constants(const struct plan *p, struct err *e);

/* For synth.c, which plans a store without a checkpoint: the layout of records and tables, from
 * config and expected; of dense.bin, from dense; and a config that says 0 draft layers. */
int plan_lay_out_records(struct plan *p, struct err *e);
int plan_lay_out_dense(struct plan *p, struct err *e);
void plan_drop_drafts(json_t *config_root);

/* For plan.c and match.c. */
void plan_problem(struct plan *p, enum plan_problem_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void plan_count(struct plan *p, enum plan_fate fate, const struct tensor *t);

#endif
