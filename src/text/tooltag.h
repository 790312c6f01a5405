/* The tags of the model's calls, as text/toolcall.c meets them at a place of the text. */
#ifndef TEXT_TOOLTAG_H
#define TEXT_TOOLTAG_H

#include <stdbool.h>
#include <stddef.h>

#include "text/toolset.h"

enum tag_kind {
    TAG_NONE,
    TAG_PARTIAL, /* what is there may become a tag */
    TAG_CALL,
    TAG_CALL_END,
    TAG_FUNCTION,
    TAG_FUNCTION_END,
    TAG_PARAMETER,
    TAG_PARAMETER_END,
};

struct tag {
    enum tag_kind kind;
    size_t len;
    char name[TOOL_NAME_MAX + 1]; /* of FUNCTION and PARAMETER */
    bool open;                    /* FUNCTION: its > is missing */
};

enum { TAG_BLANKS_MAX = 256 }; /* blanks that may stand inside or between tags of a call's head */

/* The tag at s [n]. */
void tag_read(const char *s, size_t n, struct tag *t);
/* How many blanks s begins with. */
size_t tag_blanks(const char *s, size_t n);

#endif
