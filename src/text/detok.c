/* Ids to text: see detok.h. tokenizer_decode is this very code, so that the two cannot differ. */
#include "text/detok.h"

#include <string.h>

#include "base/utf8.h"

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

void detok_init(struct detok *d, const struct tokenizer *t, bool skip_special)
{
    *d = (struct detok){.tokenizer = t, .skip_special = skip_special};
}

/* Releases from the front of what is held: whole characters, and U+FFFD for what can no longer
 * become one; what still can stays unless this is the end. */
static void release(struct detok *d, bool end, struct buf *out)
{
    while (d->n_held) {
        uint32_t cp;
        size_t used = (size_t)utf8_decode(d->held, d->n_held, &cp);
        if (used) {
            buf_add(out, d->held, used);
        } else {
            if (!end && utf8_incomplete_tail(d->held, d->n_held) == d->n_held)
                return;
            buf_puts(out, replacement);
            used = utf8_bad_length(d->held, d->n_held);
        }
        d->n_held -= used;
        memmove(d->held, d->held + used, d->n_held);
    }
}

void detok_push(struct detok *d, int32_t id, struct buf *out)
{
    size_t n, i = 0;
    const char *s = tokenizer_bytes(d->tokenizer, id, &n);
    if (d->skip_special && tokenizer_is_special(d->tokenizer, id))
        return;
    while (i < n) {
        if (!d->n_held) {
            size_t whole = utf8_valid_prefix(s + i, n - i);
            buf_add(out, s + i, whole);
            i += whole;
        }
        if (i < n)
            d->held[d->n_held++] = s[i++];
        release(d, false, out);
    }
}

void detok_finish(struct detok *d, struct buf *out)
{
    release(d, true, out);
}
