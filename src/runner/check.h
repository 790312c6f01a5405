/* Two sides compared block by block: the same tokens through an engine on the left and, on the
 * right, another engine or a dump. Names the first block and element where they part. */
#ifndef RUNNER_CHECK_H
#define RUNNER_CHECK_H

#include "runner/dump.h"
#include "text/tokenizer.h"

/* An engine that was opened with the capture's observer, and a sequence of it at length 0; or a
 * dump, and no engine. All borrowed. */
struct check_side {
    struct engine *engine;
    struct sequence *seq;
    struct capture *capture;
    const struct dump_file *dump;
};

struct check_place {
    enum seen what;
    int il, pos;
    size_t element, n_left, n_right; /* n: values in the two blocks */
    double left, right;
    /* Relative to the largest magnitude in the two blocks; infinite for integers, for a value that
     * is not finite, and for one that only one side has. */
    double difference;
};

/* All blocks of one kind. */
struct check_kind {
    long n;              /* compared */
    double worst;        /* largest difference while all choices agreed */
    double worst_behind; /* and behind one that did not */
};

/* Choices (routes, selected positions) may turn out otherwise where two were nearly equally good: a
 * route whose weights agree within the tolerance, rank by rank, is such a near tie. It is counted
 * and is no difference. But what is computed behind it is computed from other experts or positions,
 * so from there on values are compared apart and do not decide. */
struct check_result {
    long n_blocks, n_values; /* compared */
    long n_missing;          /* blocks on the left that the right side does not show */
    bool differs;
    struct check_place first; /* if differs: first in the order of the left engine's computation */
    struct check_place worst; /* largest difference that decides; all zero when there is none */
    struct check_kind kinds[SEEN_COUNT];
    long n_turns; /* choices that turned out otherwise */
    bool behind;  /* one of them changed what was computed */
    struct check_place first_turn;
    long n_logits, n_same_argmax; /* rows of logits; those with the same best token */
};

/* Feeds ids one by one. Floats may differ by `tolerance` times the largest magnitude of their
 * block; integers not at all, but for near ties. All positions are compared, also behind the first
 * difference. E_FORMAT: the right side shows nothing for a position. */
int check_run(const struct check_side *left, const struct check_side *right,
              const struct tokens *ids, double tolerance, struct check_result *out, struct err *e);

#endif
