/* packing.journal: which pieces of an unfinished store are written, with their checksums, so
 * that a second run goes on where the first was stopped. Nothing in it is trusted: the pieces
 * that it names are read back and kept only if their bytes have the noted checksum. Hence no
 * syncing, no order.
 *
 *   offset  bytes
 *   0       8     "CKVPACK1"
 *   8       8     fingerprint of the plan: another source, other choices, another journal
 *   16      8     N, number of pieces
 *   24      16 N  for each piece its XXH3-64, and a check over that, the piece's number and the
 *                 fingerprint; all zero while the piece is not written
 *
 * States of an output directory, and who moves it on:
 *   empty       -> unfinished  journal_open
 *   unfinished  -> unfinished  journal_note, a kill, another journal_open
 *   unfinished  -> store       publish_manifest
 *   store       -> store       journal_remove (left out by a kill: the next pack does it) */
#ifndef PACK_JOURNAL_H
#define PACK_JOURNAL_H

#include <stdbool.h>

#include "base/file.h"

#define JOURNAL_FILE "packing.journal"

struct journal {
    struct file file;
    uint64_t fingerprint;
    size_t n;
    bool *done;    /* [n]: this piece is written; owned */
    uint64_t *sum; /* [n]: with this checksum; owned */
    bool fresh;    /* there was none of this plan: no piece is done */
};

/* Opens the journal in dir for a plan of n pieces. One of another plan is emptied. Any number of
 * threads may then use different pieces at a time. */
int journal_open(const char *dir, uint64_t fingerprint, size_t n, struct journal *out,
                 struct err *e);
/* The piece is written. Each piece once. */
int journal_note(struct journal *j, size_t piece, uint64_t sum, struct err *e);
void journal_close(struct journal *j); /* one that is all zeros is fine */
int journal_remove(const char *dir, struct err *e);

#endif
