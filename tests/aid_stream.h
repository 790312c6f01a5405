/* A store on disk and a stream over it, driven as an engine would: random visits whose records are
 * compared with the store's own bytes. Failures end the test. */
#ifndef TESTS_AID_STREAM_H
#define TESTS_AID_STREAM_H

#include "stream/reader.h"
#include "stream/stream.h"
#include "tests/aid_store.h"

struct aid_stream {
    char *dir;
    struct aid_tensors tensors;
    struct store *store;
    struct counters counters;
    struct stream *stream; /* NULL until aid_stream_start */
    int hold;              /* entries that a visit keeps at most before it gives some back; 4 */
    uint64_t seed;         /* of visits; each takes the next */
};

/* A made-up store in the shape of a golden ("micro": 5 record layers of 16 experts), with copies of
 * its experts in 3 and 2 bits. */
void aid_stream_open(struct aid_stream *a, const char *golden);
void aid_stream_start(struct aid_stream *a, const struct stream_options *o); /* sets o's counters */
void aid_stream_stop(struct aid_stream *a);
void aid_stream_close(struct aid_stream *a);

/* n distinct experts of a layer, with random rows and weights. */
void aid_stream_uses(const struct aid_stream *a, uint64_t seed, int n, struct stream_use *out);
/* A whole visit: entries are taken in random batches and given back in random order. Every record
 * must be the store's. Returns what the stream says. */
int aid_stream_visit(struct aid_stream *a, int il, const struct stream_use *uses, int n,
                     enum cause cause, struct err *e);
void aid_stream_check_record(const struct aid_stream *a, int il, int expert,
                             const struct stream_entry *x);

#endif
