/* manifest.json of a store, version 1. docs/format.md has every field.
 *
 * Reading validates everything that does not need the other files; store_open checks the rest. */
#ifndef STORE_MANIFEST_H
#define STORE_MANIFEST_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "quant/tensor.h"
#include "store/ngram.h"

#define MANIFEST_VERSION 1
#define STORE_PAGE       16384 /* record strides are multiples of this */
#define STORE_ALIGN      64    /* dense tensors start at multiples of this */

struct dense_entry {
    char *name; /* canonical (MLX) name with suffix */
    enum dtype dtype;
    int n_dims;
    uint64_t shape[TENSOR_DIMS_MAX];
    uint64_t offset, nbytes; /* in dense.bin */
    uint64_t xxh3;           /* checksum, valid if has_sum */
    int has_sum;
};

enum expert_matrix { EXPERT_GATE, EXPERT_UP, EXPERT_DOWN, EXPERT_MATRICES };

/* Where the nine parts of a record are. Same numbers for every record of a store. */
struct expert_layout {
    int n_layers; /* record layers: trunk layers, then the MTP layer if there is one */
    int E, inter, h, group;
    uint64_t bytes, stride;      /* of a record; stride is a multiple of STORE_PAGE */
    uint64_t w[EXPERT_MATRICES]; /* offset of the codes */
    uint64_t s[EXPERT_MATRICES], b[EXPERT_MATRICES]; /* of scales and biases */
};

/* ngram.bin: the padded tables of all modules, one after another. In a manifest of one module its
 * layer is not said: -1 here, until store_open takes it from the config. */
struct ngram_layout {
    uint64_t rows; /* of all modules together */
    int row_bytes, dim, group, weight_bytes, scale_bytes;
    int n_modules;
    uint64_t first_row[CONFIG_PLE_MAX];
    struct ngram_module module[CONFIG_PLE_MAX];
};

struct manifest {
    char *source_dir;
    struct dense_entry *dense; /* sorted by name */
    size_t n_dense;
    char **layer_prefixes; /* experts.n_layers of them */
    struct expert_layout experts;
    struct ngram_layout ngram; /* rows 0: none */
    json_t *root; /* the parsed file, owned: our additions (checksums) are read from it */
};

/* Codes of gate, up, down, then their scales and biases, without gaps: docs/format.md. For any
 * widths in multiples of 64; E_UNSUPPORTED for others. */
int expert_layout_make(int n_layers, int E, int inter, int h, struct expert_layout *out,
                       struct err *e);

/* root stays the caller's; out keeps its own reference. On failure out is as it was. */
int manifest_parse(json_t *root, const char *where, struct manifest *out, struct err *e);
int manifest_read(const char *path, struct manifest *out, struct err *e);
void manifest_free(struct manifest *m);

#endif
