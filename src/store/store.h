/* A packed store, opened read-only: validated views of manifest.json, dense.bin, experts.bin and
 * ngram.bin, and of the optional experts3.bin and experts2.bin (records.h). Opening checks
 * structure and lengths; contents are checked by `cherenkov verify`.
 *
 * A store has experts in at least one precision. Which ones: store_records. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/file.h"
#include "store/config.h"
#include "store/manifest.h"
#include "store/records.h"

struct store {
    char *dir; /* the directory with manifest.json */
    struct config config;
    struct manifest manifest;
    struct map dense, experts, ngram;             /* whole files; experts is that of records[4] */
    struct records records[RECORDS_BITS_MAX + 1]; /* [bits]; 0 and 1 are empty */
};

/* path: a store, or a model folder that holds one in packed/. */
int store_open(const char *path, struct store **out, struct err *e);
void store_close(struct store *s);

/* A dense tensor by canonical name, borrowed until close; E_NOTFOUND names it. */
int store_find(const struct store *s, const char *name, struct tensor_view *out, struct err *e);
/* The records of a precision: borrowed until close. E_NOTFOUND, or E_FORMAT for a copy that cannot
 * be used, names the command that makes them; E_ARG when bits is not 4, 3 or 2. */
int store_records(const struct store *s, int bits, const struct records **out, struct err *e);
/* The highest precision that is there: 4, 3 or 2. */
int store_bits_best(const struct store *s);
/* 4-bit record of (record layer, expert): experts.stride bytes inside the mapping. Indices must be
 * valid, and the 4-bit records present. */
const uint8_t *store_record(const struct store *s, int il, int ie);
/* Row of the concatenated n-gram tables: ngram.row_bytes bytes. row < ngram.rows. */
const uint8_t *store_ngram_row(const struct store *s, uint64_t row);
/* Resolves path as store_open does: the directory that holds manifest.json; to free with
 * mem_free. */
int store_locate(const char *path, char **dir, struct err *e);

#endif
