/* A grammar as places and steps between them, and the set of places that a text has led to.
 *
 * A place eats one byte of a range, forks, calls a rule, or is the end of one; a rule that is
 * called remembers where to go on in a frame of a stack. What a text may go on with is a set of
 * (place, stack), a *state*. States are made when first met and kept with a row of what each byte
 * leads to, so that a byte met before costs one look-up. Rules that begin with themselves, or never
 * end, are refused: so no state is a dead end, and each is found in bounded time. */
#ifndef TEXT_AUTOMATON_H
#define TEXT_AUTOMATON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    AUTOMATON_PLACES_MAX = 1 << 17,
    AUTOMATON_RULES_MAX = 4096,
    AUTOMATON_SET_MAX = 512,        /* places in one state: more is too ambiguous */
    AUTOMATON_STATES_MAX = 8192,    /* kept; then those not in use are forgotten */
    AUTOMATON_FRAMES_MAX = 1 << 20, /* at once; half of it are kept */
};

enum place_kind { PLACE_BYTES, PLACE_FORK, PLACE_CALL, PLACE_END };

struct place {
    uint8_t kind, low, high; /* BYTES: from low to high */
    int32_t next;            /* BYTES, CALL: behind it; FORK: one way */
    int32_t other;           /* FORK: the other way; CALL: the rule */
};

struct rule {
    char *name;    /* owned */
    int32_t start; /* place, or -1: not defined yet */
    bool empty;    /* it matches the empty text */
};

/* Filled by text/gbnf.c; immutable after rules_check. */
struct rules {
    struct place *places;
    int32_t n_places, cap_places;
    struct rule *rules;
    int32_t n_rules, cap_rules;
    int32_t root;
};

void rules_free(struct rules *r);
/* A place's number, or -1 with the error in e. */
int32_t rules_place(struct rules *r, struct place p, struct err *e);
/* The number of a rule, made if it is new; -1 with the error in e. */
int32_t rules_name(struct rules *r, const char *name, size_t len, struct err *e);
/* E_FORMAT names the rule that is missing, begins with itself, or never ends. */
int rules_check(struct rules *r, const char *where, struct err *e);

enum { STATE_DEAD = 0 };
enum { STATE_DONE = 1 }; /* the root may end here */

struct automaton;

/* rules is borrowed. One thread at a time. */
int automaton_open(const struct rules *r, struct automaton **out, struct err *e);
void automaton_close(struct automaton *a);
/* States: STATE_DEAD where the text cannot go on, and after a failure, which automaton_check tells.
 * What failed is not kept: all else goes on. */
int32_t automaton_root(struct automaton *a);
int32_t automaton_next(struct automaton *a, int32_t state, uint8_t byte);
unsigned automaton_flags(const struct automaton *a, int32_t state);
bool automaton_full(const struct automaton *a); /* there are many states or frames */
/* Forgets all but those states whose numbers are at keep [n], and gives these new ones. Whether it
 * did; a failure makes them STATE_DEAD. */
bool automaton_trim(struct automaton *a, int32_t *const *keep, int n);
/* The failure since the last call, which forgets it. */
int automaton_check(struct automaton *a, struct err *e);
size_t automaton_bytes(const struct automaton *a); /* of memory, about */

#endif
