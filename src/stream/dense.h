/* Dense weights in memory of our own: read once, in large direct reads, into huge pages where the
 * system has them, and locked, so that no step ever waits for a page of them. */
#ifndef STREAM_DENSE_H
#define STREAM_DENSE_H

#include "base/os.h"
#include "model/weights.h"
#include "store/store.h"

struct dense {
    const struct store *store;
    struct weight_source rest; /* the store's own */
    struct os_pages pages;
    uint8_t *data; /* the contents of dense.bin; in pages */
    size_t size;
    bool locked; /* false: `why` says what the system answered */
    char why[120];
};

int dense_load(const struct store *s, struct dense *d, struct err *e);
void dense_free(struct dense *d);
/* A source that finds dense tensors there, and all else in the store. d is borrowed. */
void dense_source(const struct dense *d, struct weight_source *out);

#endif
