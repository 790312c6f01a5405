/* Any bytes as text for the demonstration model's tokenizer, and as ids.
 *   text: refused exactly where it is not UTF-8; otherwise decoding gives its normal form back,
 * with and without added tokens recognised; ids:  pushed one by one they give what decoding the
 * whole gives, in whole characters. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/detok.h"
#include "text/nfc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct tokenizer *demo(void)
{
    static struct tokenizer *t;
    struct err e = {0};
    if (!t && tokenizer_open("models/demo", &t, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        abort();
    }
    return t;
}

static void same(const struct buf *a, const struct buf *b)
{
    if (a->len != b->len || memcmp(buf_str(a), buf_str(b), a->len) != 0)
        abort();
}

static void check_ids(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip,
                      struct buf *whole)
{
    struct err e = {0};
    struct buf pieces = BUF_INIT;
    struct detok d;
    detok_init(&d, t, skip);
    for (size_t i = 0; i < n; i++) {
        size_t old = pieces.len, n_new;
        detok_push(&d, ids[i], &pieces);
        n_new = pieces.len - old;
        if (utf8_valid_prefix(buf_str(&pieces) + old, n_new) != n_new)
            abort();
    }
    detok_finish(&d, &pieces);
    if (tokenizer_decode(t, ids, n, skip, whole, &e))
        abort();
    same(whole, &pieces);
    buf_free(&pieces);
}

static void check_text(const struct tokenizer *t, const char *s, size_t n, bool plain)
{
    struct err e = {0};
    struct tokens ids = {0};
    struct buf whole = BUF_INIT, normal = BUF_INIT;
    size_t valid = utf8_valid_prefix(s, n);
    int rc = tokenizer_encode(t, s, n, plain, &ids, &e);
    if (valid < n) {
        char place[40];
        snprintf(place, sizeof place, "byte %zu (", valid);
        if (rc != -E_FORMAT || ids.n || !strstr(e.msg, place))
            abort();
        return;
    }
    if (rc || (ids.n == 0) != (n == 0) || ids.n > 3 * n)
        abort();
    for (size_t i = 0; i < ids.n; i++)
        if (ids.ids[i] < 0 || ids.ids[i] >= tokenizer_count(t))
            abort();
    check_ids(t, ids.ids, ids.n, false, &whole);
    if (nfc_put(s, n, &normal, &e))
        abort();
    if (plain || !memchr(s, '<', n)) /* a marker parts what would otherwise combine */
        same(&whole, &normal);
    tokens_free(&ids);
    buf_free(&whole);
    buf_free(&normal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct tokenizer *t = demo();
    struct tokens ids = {0};
    struct buf whole = BUF_INIT;
    struct err e = {0};
    check_text(t, (const char *)data, n, true);
    check_text(t, (const char *)data, n, false);
    for (size_t i = 0; i + 1 < n; i += 2) /* mostly single bytes, where characters are cut */
        if (tokens_push(&ids, data[i] < 32 ? data[i] << 8 | data[i + 1] : data[i + 1], &e))
            abort();
    check_ids(t, ids.ids, ids.n, n & 1, &whole);
    tokens_free(&ids);
    buf_free(&whole);
    return 0;
}
