/* What the handles of include/cherenkov.h are, for the files that implement it: api.c (models,
 * sequences, answers) and api_save.c (saves).
 *
 * A sequence is either a text or a chat, as the first feed decides:
 *
 *      fresh --feed, restore--> text --feed, next--> text
 *      fresh --feed_chat, restore--> chat --feed_chat, next--> chat
 */
#ifndef RUNNER_API_H
#define RUNNER_API_H

#include "cherenkov.h"
#include "runner/conversation.h"
#include "runner/generate.h"

enum kind { KIND_FRESH, KIND_TEXT, KIND_CHAT };

struct cherenkov {
    struct model *model;
    struct err err;
    struct draft_options draft;
    struct batch *batch; /* of next_many, for n_batch sequences; NULL until it is called */
    int n_batch;
    int n_users; /* its handle and its sequences; the last one out closes the model */
};

struct cherenkov_sequence {
    struct cherenkov *m;
    struct sequence *seq;
    enum kind kind;
    struct tokens ids;        /* of a text: all that was fed and generated */
    struct conversation chat; /* of a chat */
    struct sample_options sample;
    struct generation *answer; /* in the making, or NULL */
    struct buf text;           /* of that answer so far */
    struct buf given;          /* what next_many gave; what save_memory gave */
    bool prompted;             /* something was fed that an answer can follow */
};

/* Makes the answer so far part of what the sequence says. */
int api_end_answer(cherenkov_sequence *s, struct err *e);

#endif
