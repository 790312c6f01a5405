/* A checkpoint in memory, to be changed and written out: tests make the broken and unusual ones
 * from the goldens. */
#ifndef TESTS_AID_EDIT_H
#define TESTS_AID_EDIT_H

#include "quant/tensor.h"

struct aid_edit_tensor {
    char name[256]; /* "" when dropped: not written */
    enum dtype dtype;
    int n_dims;
    uint64_t shape[TENSOR_DIMS_MAX];
    uint64_t nbytes;
    uint8_t *data; /* owned */
};

struct aid_edit {
    char *dir; /* where it was read from: the other files are copied from there */
    struct aid_edit_tensor *at;
    size_t n;
};

/* All of these fail the test when they cannot do what they are asked. */
void aid_edit_read(const char *dir, struct aid_edit *out);
void aid_edit_free(struct aid_edit *c);
struct aid_edit_tensor *aid_edit_find(struct aid_edit *c, const char *name);
/* Adds a tensor of zeros; shape ends with 0. */
struct aid_edit_tensor *aid_edit_add(struct aid_edit *c, const char *name, enum dtype dtype,
                                     const uint64_t *shape);
/* Gives a tensor another type and shape (ending with 0), and zeros. */
void aid_edit_reshape(struct aid_edit_tensor *w, enum dtype dtype, const uint64_t *shape);
/* Makes dir: one file of tensors, config.json, and the tokenizer's files. */
void aid_edit_write(const struct aid_edit *c, const char *dir);

#endif
