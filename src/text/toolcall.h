/* Reads the calls in an answer as it comes:
 *
 *      <tool_call>
 *      <function=NAME>
 *      <parameter=P>
 *      VALUE
 *      </parameter>
 *      </function>
 *      </tool_call>
 *
 * and gives them on as events: text, and for each call its beginning with the name, its arguments
 * in pieces that together are one JSON object, and its end. The events' contents do not depend on
 * how the text was cut. What is inside thinking never comes here (text/reasoning.h).
 *
 * A value whose schema allows a string is that text, without one newline at either end, and is
 * given on as it comes. Other values are trimmed and read as JSON: empty ones are left out; TRUE
 * and None are understood; integers may be written 1e5; what does not parse stays a string, and
 * what is not of a declared type is counted. Without a schema a value is JSON if it parses, else a
 * string.
 *
 * What is not as above is read as it was meant, and counted in `deviations`:
 *   - a name that is not declared: that call is text;
 *   - `>` missing behind the function's name, where a tag follows;
 *   - <tool_call> missing before <function=NAME> of a declared tool, at the beginning of a line;
 *   - </parameter>, </function>, </tool_call> missing, where the next tag or the end implies them;
 *   - a parameter given twice: the first counts;
 *   - text between parameters and behind a call: it is text of the answer.
 * In a value <parameter=...> and <tool_call> nest. Blanks before a call and between calls are
 * dropped; if no call comes of it, everything is text, byte for byte. */
#ifndef TEXT_TOOLCALL_H
#define TEXT_TOOLCALL_H

#include "base/buf.h"
#include "text/toolset.h"

enum toolcall_kind { TOOLCALL_TEXT, TOOLCALL_BEGIN, TOOLCALL_ARGUMENTS, TOOLCALL_END };

struct toolcall_event {
    enum toolcall_kind kind;
    int index;        /* which call, from 0; 0 of text */
    const char *text; /* TEXT and ARGUMENTS: a piece; BEGIN: the name. Borrowed for the call */
    size_t len;
    bool cut; /* END: the text ended inside a parameter; the arguments are closed where it did */
};

struct toolcall_options {
    const struct toolset *tools; /* borrowed; NULL: everything is text */
    /* Calls are given on at the end, and only if nothing deviates from the form; else the whole
     * text is text. */
    bool strict;
    void *ctx;
    void (*on_event)(void *ctx, const struct toolcall_event *event);
};

struct toolcall;

int toolcall_open(const struct toolcall_options *o, struct toolcall **out, struct err *e);
void toolcall_close(struct toolcall *c);
/* More of the answer. E_NOMEM alone. */
int toolcall_push(struct toolcall *c, const char *text, size_t len, struct err *e);
/* The answer was cut, not ended by the model: the beginning of a tag at its end, which
 * toolcall_finish would take for text, is dropped. only: it was to be calls alone, so that any
 * piece of a tag is one; else a piece shorter than <tool or <function= is still text. */
void toolcall_cut(struct toolcall *c, bool only);
/* The answer is over: open calls are closed. Nothing may be pushed behind it. */
int toolcall_finish(struct toolcall *c, struct err *e);
int toolcall_count(const struct toolcall *c);      /* calls begun so far */
int toolcall_deviations(const struct toolcall *c); /* so far */

/* The same of a whole answer: its text, and calls as [{"name", "arguments" (a string), "cut"}],
 * for json_decref. out is appended to. */
int toolcall_read(const struct toolset *tools, bool strict, const struct buf *text, struct buf *out,
                  json_t **calls, struct err *e);

#endif
