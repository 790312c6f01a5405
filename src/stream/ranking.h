/* How much each expert was used, kept from run to run in a small file of the store's directory, so
 * that the next run can fill its pool while it waits for its first prompt.
 *
 *      ranking.bin   offset  bytes
 *                    0       8     "CKVRANK1"
 *                    8       8     which store: see ranking.c
 *                    16      4     L, record layers
 *                    20      4     E, experts of a layer
 *                    24      4 LE  f32, decayed use of expert ie of layer il at il * E + ie
 *                    ..      8     XXH3-64 of all before
 *
 * Little-endian. Nothing depends on it but what is read first: a file that is damaged, of another
 * version or of another store is as good as none, and is replaced. */
#ifndef STREAM_RANKING_H
#define STREAM_RANKING_H

#include "store/store.h"

/* use [L * E]. E_NOTFOUND, or E_FORMAT: what is wrong with it; use is then as it was. */
int ranking_read(const struct store *s, float *use, struct err *e);
/* The same from the file's bytes. */
int ranking_parse(const struct store *s, const void *data, size_t n, float *use, struct err *e);
/* Replaces the file, whole or not at all. Fails where the directory cannot be written, or while
 * another program writes there. */
int ranking_write(const struct store *s, const float *use, struct err *e);

#endif
