/* Kept states: what a later prompt may begin with, so that it need not be computed again.
 *
 * An entry is a save of a sequence (engine_ops.save) under the tokens it stands for: in memory, on
 * disk (server/saves.h), or both. What does not fit goes, the longest unused first. An engine's
 * save is right behind any next token, with drafts too, so any entry that a prompt begins with
 * will do, and the longest is the best.
 *
 * All functions are the worker's, but for prefix_stats. Files are written by a thread of their own,
 * so that no answer waits for a disk. */
#ifndef SERVER_PREFIX_H
#define SERVER_PREFIX_H

#include "runner/model.h"

struct prefix;

struct prefix_options {
    uint64_t bytes;      /* of memory */
    int entries;         /* in memory; 0: nothing is kept */
    double idle_s;       /* entries that nobody used for so long leave memory */
    int tokens_min;      /* shorter states are not worth an entry */
    const char *dir;     /* folder for files, made if it is not there; NULL: none */
    uint64_t file_bytes; /* of files */
};

/* Finds what is in dir; files that are damaged, or not ours, are told of and left alone. E_IO:
 * another server uses dir. */
int prefix_open(struct model *m, const struct prefix_options *o, struct prefix **out,
                struct err *e);
/* Waits for files to be written. */
void prefix_close(struct prefix *p);

/* How many of the tokens [n] the longest entry stands for, less than n; 0: none does. That one is
 * the next to be used. */
int prefix_longest(struct prefix *p, const int32_t *tokens, int n);
/* The state of exactly these tokens goes into seq. After a failure, which is told of here, the
 * entry is gone and seq is at length 0. */
int prefix_restore(struct prefix *p, const int32_t *tokens, int n, struct sequence *seq);
/* Keeps the state of seq, which holds exactly these tokens, unless there is an entry or it is too
 * short or too large to be worth one. What cannot be kept is told of here: nothing else fails. */
void prefix_keep(struct prefix *p, const int32_t *tokens, int n, const struct sequence *seq);
/* Now and then: entries that are idle leave memory. */
void prefix_tidy(struct prefix *p);

struct prefix_stats {
    int entries, files;
    uint64_t bytes, file_bytes;
};
void prefix_stats(struct prefix *p, struct prefix_stats *out); /* from any thread */

#endif
