/* Checkpoints of full size that take no room: headers, index and config are real, the data are
 * holes that read as zeros. What packing looks at before it copies is filled in: norms (around 0
 * under the originals' names, where they are raw; around 1 under the others, where they are folded)
 * and the n-gram constants. */
#ifndef TESTS_AID_SPARSE_H
#define TESTS_AID_SPARSE_H

#include "base/err.h"

enum { AID_SPARSE_SHARDS = 131 }; /* of the published checkpoints */

/* tensors: a list as in tests/data/tensors; config: the config.json to go with it; dir exists. */
int aid_sparse_write(const char *tensors, const char *config, const char *dir, int n_shards,
                     struct err *e);

#endif
