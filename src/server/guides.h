/* What answers are held to, by what is asked for: formats, required calls, budgets of thinking.
 * Grammars, and what is known of their tokens (text/mask.h), are kept from one request to the next;
 * those that nobody uses go when they are many. The tree of the model's tokens is made when the
 * first grammar is. */
#ifndef SERVER_GUIDES_H
#define SERVER_GUIDES_H

#include "server/ask.h"
#include "text/guide.h"

enum { GUIDES_KEPT_MAX = 64 };              /* grammars that nobody uses */
#define GUIDES_BYTES_MAX ((size_t)64 << 20) /* of their tables */

struct guides;
struct guides_loan; /* a grammar in use */

/* m is borrowed until guides_close, when nothing is on loan. */
int guides_open(const struct model *m, struct guides **out, struct err *e);
void guides_close(struct guides *s);
/* The grammar that a request asks for; *out is NULL when it asks for none. tools: those declared,
 * or NULL. thinking: the prompt ends in an open <think>. A failure names the field. Any thread. */
int guides_lend(struct guides *s, const struct ask *a, const struct toolset *tools, bool thinking,
                struct guides_loan **out, struct wrong *w);
void guides_return(struct guides *s,
                   struct guides_loan *l); /* no guide of it is open; NULL: fine */
/* The guide of one answer; *out is NULL when anything may be said. l: of this request, or NULL. */
int guides_guide(const struct guides *s, const struct guides_loan *l, const struct ask *a,
                 bool thinking, struct guide **out, struct err *e);

struct guides_stats {
    int grammars, on_loan;
    uint64_t n_made, n_found; /* requests whose grammar was new, or there */
    size_t bytes;
};
void guides_stats(struct guides *s, struct guides_stats *out);

#endif
