/* What commands are given to read: token ids, texts, standard input. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "base/buf.h"
#include "text/tokenizer.h"

/* All of standard input, appended. E_LIMIT: over 64 MiB. */
int input_stdin(struct buf *out, struct err *e);
/* arg: "-" for standard input; a file; or, if it has a blank in it, the text itself. */
int input_text(const char *arg, struct buf *out, struct err *e);
/* arg: a list ("1,2,3"), a file of such a list or of a JSON array, or "-". Numbers may be parted by
 * commas, blanks and line ends. At least one; each 0 to INT32_MAX. */
int input_ids(const char *arg, struct tokens *out, struct err *e);

#endif
