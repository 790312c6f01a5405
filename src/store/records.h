/* Routed experts in one precision: where their records are, and whether they can be used.
 *
 * A store has 4-bit records (experts.bin, laid out by manifest.json), and optional copies in 3 and
 * 2 bits (experts3.bin with manifest3.json, experts2.bin with manifest2.json; docs/format.md,
 * "Low-bit stores"). A copy is used when it is what packing makes of the 4-bit records at hand:
 * records_open compares four of them. Where experts.bin is absent, those four must have the
 * checksums that the copy's manifest names. A copy that fails counts as absent, with the reason. */
#ifndef STORE_RECORDS_H
#define STORE_RECORDS_H

#include <stdbool.h>

#include "base/file.h"
#include "store/manifest.h"

enum { RECORDS_BITS_MIN = 2, RECORDS_BITS_MAX = 4 };

#define RECORDS_LAYOUT "vectorized" /* the order of codes, as manifestN.json calls it */

struct records {
    int bits;                                        /* 4, 3 or 2 */
    bool present;                                    /* else `why` */
    size_t n;                                        /* record layers times experts */
    uint64_t bytes, stride;                          /* of a record */
    uint64_t w[EXPERT_MATRICES];                     /* offsets in a record, of the codes */
    uint64_t s[EXPERT_MATRICES], b[EXPERT_MATRICES]; /* of scales and biases */
    char *path;                                      /* DIR/experts.bin, DIR/experts3.bin ... */
    struct map map;                                  /* all records */
    uint64_t *sum;  /* [n] XXH3-64 of each, padding included; NULL: the manifest has none */
    struct err why; /* why they are not present */
};

/* The layout of a precision: bits, n, bytes, stride, w, s, b; all else zero. For 3 and 2 bits:
 * codes of gate, up, down, then scales and biases as they are in the 4-bit record. */
void records_layout(const struct expert_layout *x, int bits, struct records *out);
const char *records_file(int bits);               /* "experts3.bin" */
const char *records_manifest(int bits);           /* "manifest3.json"; NULL for 4 bits */
const char *records_matrix(enum expert_matrix i); /* "gate", "up", "down": keys of manifestN.json */

/* Makes out, a record of out_layout's precision (stride bytes), from a 4-bit one. */
void records_reduce(const struct expert_layout *x, const uint8_t *record,
                    const struct records *out_layout, uint8_t *out);

/* Reads a manifestN.json, which must describe exactly the layout that r has; fills r->sum if it has
 * checksums. *source (borrowed from root, or NULL): which store it was made of. */
int records_parse(const json_t *root, const char *where, struct records *r, const char **source,
                  struct err *e);

/* Opens the records of a precision in dir. m: the store's manifest; q4: the store's 4-bit records,
 * maybe absent. Only E_NOMEM fails; all else is noted in out->why. bits 4: q4 NULL. */
int records_open(const char *dir, const struct manifest *m, int bits, const struct records *q4,
                 struct records *out, struct err *e);
void records_close(struct records *r);

/* Record i; r is present. */
static inline const uint8_t *records_at(const struct records *r, size_t i)
{
    return r->map.data + i * r->stride;
}

#endif
