/* A checkpoint: a folder that somebody published, seen as names to tensors. Files are opened once;
 * nothing is read but headers until checkpoint_read. Never changes after it is open, so that any
 * number of threads may use it. */
#ifndef CHECKPOINT_CHECKPOINT_H
#define CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>

#include "base/file.h"
#include "checkpoint/safetensors.h"

struct checkpoint {
    char *dir;
    struct file *files;
    char **metadata; /* of each file: safetensors.metadata */
    int n_files;
    struct tensor *tensors; /* sorted by name; names unique over all files */
    size_t n_tensors;
    uint64_t nbytes; /* of all tensors */
};

/* dir holds model.safetensors.index.json and the shards it names (every shard must exist and hold
 * exactly the tensors that the index says), or model.safetensors, or shards
 * model-0000i-of-0000N.safetensors with no index; the first of these that is there counts. */
int checkpoint_open(const char *dir, struct checkpoint **out, struct err *e);
void checkpoint_close(struct checkpoint *c); /* NULL is fine */

const struct tensor *checkpoint_find(const struct checkpoint *c, const char *name); /* or NULL */
/* Reads n bytes of a tensor from its byte off on; off + n must lie inside it. Blocks. */
int checkpoint_read(const struct checkpoint *c, const struct tensor *t, uint64_t off, void *to,
                    size_t n, struct err *e);

#endif
