/* tokenizer.json from any bytes: loads, or says why not; and what loads keeps the promise that any
 * text survives encoding and decoding, up to its normal form. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/nfc.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void round_trip(const struct tokenizer *t, const char *text)
{
    struct err e = {0};
    struct tokens ids = {0};
    struct buf back = BUF_INIT, normal = BUF_INIT;
    int rc = tokenizer_encode(t, text, strlen(text), true, &ids, &e);
    if (rc && rc != -E_LIMIT) /* an expression may give up */
        abort();
    if (!rc && tokenizer_decode(t, ids.ids, ids.n, false, &back, &e))
        abort();
    if (!rc && nfc_put(text, strlen(text), &normal, &e))
        abort();
    if (!rc && strcmp(buf_str(&back), text) != 0 && strcmp(buf_str(&back), buf_str(&normal)) != 0)
        abort();
    tokens_free(&ids);
    buf_free(&back);
    buf_free(&normal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct err e = {0};
    struct tokenizer *t = NULL;
    struct tokens ids = {0};
    int rc = tokenizer_parse((const char *)data, n, "fuzz", &t, &e);
    if ((rc != 0) != (t == NULL) || (rc && (!e.msg[0] || strncmp(e.msg, "fuzz", 4) != 0)))
        abort();
    if (rc)
        return 0;
    static const char text[] = "ab ab\n  É e\u0301\u0323 <a>[L]  1234's 漢字\u00A0😀";
    round_trip(t, text);
    rc = tokenizer_encode(t, text, sizeof text - 1, false, &ids, &e);
    for (size_t i = 0; !rc && i < ids.n; i++)
        if (ids.ids[i] < 0 || ids.ids[i] >= tokenizer_count(t))
            abort();
    tokens_free(&ids);
    tokenizer_close(t);
    return 0;
}
