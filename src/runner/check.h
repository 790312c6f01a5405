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

struct check_result {
    long n_blocks, n_values; /* compared */
    long n_missing;          /* blocks on the left that the right side does not show */
    bool differs;
    struct check_place first; /* if differs: first in the order of the left engine's computation */
    struct check_place worst; /* largest difference; all zero when there is none */
};

/* Feeds ids one by one. Floats may differ by `tolerance` times the largest magnitude of their
 * block, integers not at all. All positions are compared, also behind the first difference.
 * E_FORMAT: the right side shows nothing for a position. */
int check_run(const struct check_side *left, const struct check_side *right,
              const struct tokens *ids, double tolerance, struct check_result *out, struct err *e);

#endif
