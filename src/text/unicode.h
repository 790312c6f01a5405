/* What Unicode says about characters, where the libraries of this machine may be older than those a
 * tokenizer was made with: the categories of characters that came with Unicode 15, 15.1 and 16, and
 * the property White_Space. Called by text/expression and text/added. */
#ifndef TEXT_UNICODE_H
#define TEXT_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* The members of White_Space as the inside of a PCRE2 character class. */
#define UNICODE_WHITE_CLASS                                                                        \
    "\\t-\\r "                                                                                     \
    "\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

bool unicode_is_white(uint32_t cp);

/* Appends, as ranges inside a PCRE2 character class, the late characters of a general category:
 * "L" is all letters, "Lu" the capitals. */
void unicode_late_put(const char *category, struct buf *out);

#endif
