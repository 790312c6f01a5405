/* A chat as tokens: the messages and, beside them, the ids of what was fed and generated.
 *
 * Rendering and encoding the whole history at every turn would not always give back the ids that
 * were generated, and then nothing of the state could be reused. So a prompt whose text goes on
 * from the text before keeps those ids, and only what is new is encoded. Where the template
 * renders an earlier turn otherwise than it was fed, all is encoded again and the sequence
 * starts over. */
#ifndef RUNNER_CONVERSATION_H
#define RUNNER_CONVERSATION_H

#include <jansson.h>

#include "runner/model.h"

struct conversation {
    struct model *m;      /* borrowed */
    struct sequence *seq; /* borrowed; holds a beginning of ids. NULL: only to render */
    json_t *messages;     /* array of {role, content}, owned */
    struct tokens ids;    /* the last prompt and what was generated behind it */
    struct buf text;      /* what ids say */
    bool thinking;        /* the last prompt ends in an open <think> */
};

/* E_UNSUPPORTED when the model has no chat template. seq must be at length 0, or NULL. */
int conversation_init(struct conversation *c, struct model *m, struct sequence *seq, struct err *e);
void conversation_free(struct conversation *c);
void conversation_reset(struct conversation *c); /* no messages, nothing in the sequence */

/* A message; content must be UTF-8 (E_FORMAT with the byte). */
int conversation_say(struct conversation *c, const char *role, const char *content, size_t len,
                     struct err *e);
void conversation_unsay(struct conversation *c); /* takes the last message back */
/* Renders the messages and the opening of an answer, with `set` as template variables (an object
 * or NULL). Afterwards c->ids is the prompt, and the sequence holds a beginning of it, less than
 * all. On failure all is as before. */
int conversation_prompt(struct conversation *c, const json_t *set, struct err *e);
/* What was generated behind the prompt: its ids, and the text that was shown, which becomes the
 * assistant's message (with reasoning_content when the prompt left a <think> open). */
int conversation_answer(struct conversation *c, const struct tokens *ids, const char *text,
                        size_t len, struct err *e);

#endif
