/* What a tokenizer is made of: filled by tokenizer_load.c, used by tokenizer.c, seen by nobody
 * else. */
#ifndef TEXT_TOKENIZER_PARTS_H
#define TEXT_TOKENIZER_PARTS_H

#include "text/added.h"
#include "text/bpe.h"
#include "text/pretoken.h"
#include "text/vocab.h"

/* In the order in which text goes through it. Immutable after loading. */
struct tokenizer {
    struct added raw; /* added tokens cut out of the text as it came */
    bool nfc;
    struct added normalized; /* and those cut out after normalisation */
    struct pretoken pretoken;
    bool ignore_merges; /* a piece that is a token is that token, whatever merges would make */
    struct bpe bpe;
    struct vocab vocab;
    size_t longest; /* token, in bytes; at least 1 */
};

#endif
