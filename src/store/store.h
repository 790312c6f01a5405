/* A packed store, opened read-only: validated views of manifest.json, dense.bin, experts.bin and
 * ngram.bin. Opening checks structure and lengths; contents are checked by `cherenkov verify`. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/file.h"
#include "store/config.h"
#include "store/manifest.h"

struct store {
    char *dir; /* the directory with manifest.json */
    struct config config;
    struct manifest manifest;
    struct map dense, experts, ngram; /* whole files */
};

/* path: a store, or a model folder that holds one in packed/. */
int store_open(const char *path, struct store **out, struct err *e);
void store_close(struct store *s);

/* A dense tensor by canonical name, borrowed until close; E_NOTFOUND names it. */
int store_find(const struct store *s, const char *name, struct tensor_view *out, struct err *e);
/* Record of (record layer, expert): experts.stride bytes inside the mapping. Indices must be
 * valid. */
const uint8_t *store_record(const struct store *s, int il, int ie);
/* Row of the concatenated n-gram tables: ngram.row_bytes bytes. row < ngram.rows. */
const uint8_t *store_ngram_row(const struct store *s, uint64_t row);
/* Resolves path as store_open does: the directory that holds manifest.json; to free with
 * mem_free. */
int store_locate(const char *path, char **dir, struct err *e);

#endif
