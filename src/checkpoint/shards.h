/* Which files make up a checkpoint: the part of checkpoint_open that comes before any header. */
#ifndef CHECKPOINT_SHARDS_H
#define CHECKPOINT_SHARDS_H

#include "base/err.h"
#include "base/json.h"

struct shards {
    char *index_path; /* of model.safetensors.index.json, or NULL: there is none */
    json_t *index;    /* the whole file, its weight_map checked to be name -> plain file name */
    char **names;     /* file names inside the folder, sorted, each once */
    int n;
};

/* Names only files that exist. */
int shards_find(const char *dir, struct shards *out, struct err *e);
void shards_free(struct shards *s);

#endif
