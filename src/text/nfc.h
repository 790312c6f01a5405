/* Unicode normalisation form C, in time linear in the text whatever its combining marks are.
 * The data is that of utf8proc (2.8: Unicode 15). Text without combining marks, which is nearly all
 * text, is recognised by a short table and costs no more than looking at it. */
#ifndef TEXT_NFC_H
#define TEXT_NFC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Whether s (valid UTF-8) surely is in form C already; false says nothing. */
bool nfc_is_normal(const char *s, size_t n);
/* Appends the normal form of s (valid UTF-8). */
int nfc_put(const char *s, size_t n, struct buf *out, struct err *e);

#endif
