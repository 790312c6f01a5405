/* Splits an answer as it comes into what the model thinks, <think> ... </think>, and what it says.
 *
 *      START --<think>--> THINKING --</think>--> CLOSED --any character--> ANSWER
 *        |  anything else                          (blanks are dropped)      ^
 *        +-------------------------------------------------------------------+
 *
 * A prompt that has opened <think> already starts in THINKING. Blanks at both ends of the thinking,
 * and those between </think> and the answer, belong to neither. Marks in the answer are text. The
 * outcome does not depend on how the text was cut, and only blanks and what may be the beginning of
 * a mark are held back. */
#ifndef TEXT_REASONING_H
#define TEXT_REASONING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define REASONING_OPEN  "<think>"
#define REASONING_CLOSE "</think>"
/* What ends a thinking whose budget is used up: it says so to the model, as the last of its
 * thoughts. */
#define REASONING_ENOUGH "\n\nThe time for thinking is over; the answer follows.\n</think>\n\n"

enum reasoning_state {
    REASONING_START,
    REASONING_THINKING,
    REASONING_CLOSED,
    REASONING_ANSWER,
};

struct reasoning {
    enum reasoning_state state;
    bool said;       /* THINKING: something but blanks has been released */
    bool cut;        /* by whom ever but the model */
    struct buf held; /* not released yet; owned */
};

/* opened: the prompt ends inside <think>. Cannot fail. */
void reasoning_init(struct reasoning *r, bool opened);
void reasoning_free(struct reasoning *r);
/* Appends what is certain to thinking and to answer (they may be the same buffer). Whole
 * characters in give whole characters out. */
void reasoning_push(struct reasoning *r, const char *text, size_t len, struct buf *thinking,
                    struct buf *answer);
/* The text is not whole: what its end has of a tag is dropped by reasoning_finish. */
void reasoning_cut(struct reasoning *r);
/* The end of the text: what is held back goes where it belongs. A state of THINKING says that the
 * thinking was never closed; there is no answer then. */
void reasoning_finish(struct reasoning *r, struct buf *thinking, struct buf *answer);

#endif
