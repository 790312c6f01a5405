/* What is kept for clients under names: stored responses, sessions. Each is one JSON text, so that
 * its size is known and no thread shares values with another. The longest unused go when there are
 * too many, and those that nobody used for a while. Any thread may call. */
#ifndef SERVER_KEPT_H
#define SERVER_KEPT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct kept;

struct kept_options {
    int entries;
    uint64_t bytes; /* of all texts */
    double idle_s;
};

/* o is copied. E_NOMEM. */
int kept_open(const struct kept_options *o, struct kept **out, struct err *e);
void kept_close(struct kept *k); /* NULL is fine */
/* Keeps v (borrowed) under a name of up to 63 bytes. E_LIMIT: it alone is longer than all may be.
 * E_BUSY: it does not fit beside what is claimed. Then all that was there stays. */
int kept_put(struct kept *k, const char *name, const json_t *v, struct err *e);
/* A copy, for json_decref. E_NOTFOUND. */
int kept_get(struct kept *k, const char *name, json_t **out, struct err *e);
/* false: there is none. One that is claimed goes too. */
bool kept_drop(struct kept *k, const char *name);

/* The same as kept_get for who will change it: until the claim is ended nobody else can claim it,
 * and it does not go by itself. E_EXISTS: it is claimed. *claim is for kept_end alone. */
int kept_claim(struct kept *k, const char *name, json_t **out, uint64_t *claim, struct err *e);
/* Ends a claim; v (borrowed) is kept instead of what was there, or that stays (NULL). Nothing
 * happens to what was dropped meanwhile. On failure (as of kept_put) what was there stays, and the
 * claim is over. */
int kept_end(struct kept *k, uint64_t claim, const json_t *v, struct err *e);

#endif
