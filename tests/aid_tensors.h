/* All tensors that a config asks for, made up in memory in the form a store has them (Q4 in groups
 * of 64, norms folded), so that tests of weights and stores need no checkpoint. Values are a
 * function of the tensor's name. */
#ifndef TESTS_AID_TENSORS_H
#define TESTS_AID_TENSORS_H

#include "model/weights.h"
#include "store/expected.h"

struct aid_tensor {
    char name[EXPECTED_NAME_BYTES + 16];
    enum expected_kind kind;
    enum dtype dtype;
    int n_dims;
    uint64_t shape[3];
    uint64_t nbytes;
    void *data; /* 64-byte aligned; owned */
};

struct aid_tensors {
    struct config config;
    struct aid_tensor *at; /* sorted by name; those of dense.bin alone */
    size_t n;
};

void aid_tensors_make(const struct config *c, struct aid_tensors *out);
void aid_tensors_free(struct aid_tensors *t);
/* Fails the test when there is none. */
struct aid_tensor *aid_tensors_find(struct aid_tensors *t, const char *name);
/* finds dense tensors; has no experts and no tables. ctx is t. */
void aid_tensors_source(struct aid_tensors *t, struct weight_source *src);

#endif
