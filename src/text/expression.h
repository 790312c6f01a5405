/* A pre-tokenizer's expression, as tokenizer.json has it for the Oniguruma library, rewritten so
 * that PCRE2 (UTF and UCP on) splits text exactly as Oniguruma does. Called by text/pretoken.
 *
 * Rewritten, because the two read them differently:
 *   \s \S         White_Space; PCRE2 would add U+180E. Neither has U+001C..U+001F.
 *   \p{L}, \p{Lu} and the other categories get the characters of Unicode 15 to 16 (unicode.h)
 *   \d            \p{Nd}
 *   .             anything but LF, whatever newline PCRE2 was built for
 *   \v \uHHHH     vertical tab, a code point
 *   (...)         groups capture nothing: only the whole match matters
 * Refused by name (E_UNSUPPORTED), because they differ or nobody vouched for them: \w \b \h \R \X,
 * ^ and $, back references, named groups, options other than (?i: or a leading (?i), scripts,
 * negated properties inside a class, nested classes, POSIX brackets and && in a class, possessive
 * intervals, and under (?i) what folds to several characters or to other cases (ss, ff, fi, fl, st,
 * letters outside ASCII, Lu Ll Lt). */
#ifndef TEXT_EXPRESSION_H
#define TEXT_EXPRESSION_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Appends the rewritten expression. s: valid UTF-8; where opens the messages, which count bytes. */
int expression_rewrite(const char *s, size_t n, const char *where, struct buf *out, struct err *e);

#endif
