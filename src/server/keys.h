/* API keys: of which a client must show one, if there are any. */
#ifndef SERVER_KEYS_H
#define SERVER_KEYS_H

#include <stdbool.h>

#include "base/buf.h"

enum { KEYS_MAX = 64, KEY_BYTES_MAX = 256 };

struct keys {
    char (*keys)[KEY_BYTES_MAX + 1]; /* [n], zeros behind each; owned */
    int n;
};

/* Keys of a file, one a line; empty lines and those that begin with # are passed over. path NULL:
 * none. Then `extra` (may be NULL), one more. E_FORMAT names the line. */
int keys_read(const char *path, const char *extra, struct keys *out, struct err *e);
void keys_free(struct keys *k); /* and overwrites them; zeros are fine */
/* Whether this is one of them. How long that takes depends on how many there are and on how long
 * the word is, not on where they differ. */
bool keys_match(const struct keys *k, const char *word);

#endif
