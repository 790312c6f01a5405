/* What was said, as text and as the ids that were generated: encoding the text of an answer does
 * not always give back the ids it was made of, and then no state could be used again. So a prompt
 * that begins with a turn said here keeps its ids, and only the rest is encoded.
 *
 * Any thread may call; the longest unused turns are forgotten first. */
#ifndef SERVER_TURNS_H
#define SERVER_TURNS_H

#include "text/tokenizer.h"

struct turns;

/* t is borrowed. */
int turns_open(const struct tokenizer *t, struct turns **out, struct err *e);
void turns_close(struct turns *s);
/* text [len] is what prompt was encoded from, said what followed it. Forgets rather than fails. */
void turns_keep(struct turns *s, const char *text, size_t len, const struct tokens *prompt,
                const struct tokens *said);
/* The ids of a text, appended, as tokenizer_encode_most gives them: some of them, and more than
 * `most`, if there are more than that. E_FORMAT: it is not UTF-8. */
int turns_encode(struct turns *s, const char *text, size_t len, size_t most, struct tokens *out,
                 struct err *e);

#endif
