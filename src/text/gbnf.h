/* Grammars in GBNF:
 *
 *      root  ::= item ("," item)*          # the text is a root; a rule may go on over lines
 *      item  ::= [a-z0-9] [^,\n]{0,20} | "\"" . "\x41\u00e9" "\""
 *
 * Names are of letters, digits, - and _. A rule ends where the next `name ::=` begins. Characters
 * are those of UTF-8; . is any, line ends too. Repetition: * + ? {m} {m,} {m,n}. */
#ifndef TEXT_GBNF_H
#define TEXT_GBNF_H

#include "text/automaton.h"

enum {
    GBNF_BYTES_MAX = 1 << 20,
    GBNF_DEPTH_MAX = 64,     /* of parentheses */
    GBNF_REPEAT_MAX = 10000, /* of {m,n} */
};

/* Adds rules to r. own: the text is this program's, and may use names with a dot, which no one
 * else's can. E_FORMAT and E_LIMIT name line and column. */
int gbnf_add(struct rules *r, const char *text, size_t len, bool own, const char *where,
             struct err *e);

#endif
