/* Whether a store is whole: structure (as store_open checks it), lengths, the manifest's seal,
 * and the checksum of every piece, low-bit copies and texts included. Names what is damaged. */
#ifndef PACK_VERIFY_H
#define PACK_VERIFY_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { VERIFY_LINES_MAX = 50 }; /* findings listed; the rest are counted */

struct verify_report {
    size_t n_pieces;   /* with a checksum, and compared */
    size_t n_unsummed; /* without one: a store of the original engine has none */
    size_t n_damaged;  /* findings */
    size_t n_texts;    /* of them in texts */
    uint64_t bytes;    /* read and compared */
    double seconds;
    int n_threads;
    struct buf lines; /* one line per finding */
};

/* path as for store_open; n_threads 0: one per processor. Shows progress on stderr. 0; E_DIFFER
 * when something is damaged: then r->lines says what; or what store_open returns. r is valid in
 * any case, to be freed. */
int verify_store(const char *path, int n_threads, struct verify_report *r, struct err *e);
void verify_free(struct verify_report *r);

#endif
