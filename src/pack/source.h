/* A checkpoint's tensors by what they mean: each published name is parsed once, and found again
 * by the place it belongs to. Remembers which tensors were asked for, so that the rest can be
 * listed. */
#ifndef PACK_SOURCE_H
#define PACK_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/names.h"

struct source_tensor {
    struct name_info info;
    const struct tensor *tensor; /* borrowed from the checkpoint */
    bool used;                   /* some source_* call has returned it */
};

struct source {
    struct source_tensor *at; /* in an order of its own, by meaning */
    size_t n;
};

/* E_FORMAT when two published names mean the same tensor; E_NOMEM. */
int source_init(const struct checkpoint *c, struct source *out, struct err *e);
void source_free(struct source *s);

/* These return the tensor or NULL, and mark it as used. */
const struct tensor *source_dense(struct source *s, const char *name, const char *suffix);
const struct tensor *source_experts(struct source *s, bool mtp, int layer, enum name_matrix matrix,
                                    enum name_part part);
const struct tensor *source_ngram(struct source *s, int layer, int64_t shard, enum name_part part);

bool source_has_mtp(const struct source *s);

#endif
