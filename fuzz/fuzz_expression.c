/* A pre-tokenizer's expression from any bytes: refused with a word about it, or it compiles and
 * then cuts a text into pieces that put together are the text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/pretoken.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char text[] = "It's  a\n\n LONG 1234 e\u0301\u0323 漢字\u00A0\u180E😀\t'\u017F {}[]-.";

static int take(void *ctx, const char *s, size_t n, struct err *e)
{
    const char **next = ctx;
    (void)e;
    if (s != *next || n == 0 || utf8_valid_prefix(s, n) != n)
        abort();
    *next = s + n;
    return 0;
}

static void split(const struct pretoken *p)
{
    struct pretoken_run r;
    struct err e = {0};
    const char *next = text;
    if (pretoken_run_init(&r, p, sizeof text - 1, take, &next, &e))
        abort();
    int rc = pretoken_split(&r, text, sizeof text - 1, &e);
    if (rc ? rc != -E_LIMIT || !e.msg[0] : next != text + sizeof text - 1)
        abort();
    pretoken_run_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct err e = {0};
    struct pretoken p;
    json_t *regex = json_stringn((const char *)data, n);
    if (!regex || strlen(json_string_value(regex)) != n) { /* not UTF-8, or a NUL in it */
        json_decref(regex);
        return 0;
    }
    json_t *spec =
        json_pack("{s:s, s:[{s:s, s:{s:o}, s:s}, {s:s, s:b, s:b}]}", "type", "Sequence",
                  "pretokenizers", "type", "Split", "pattern", "Regex", regex, "behavior",
                  "Isolated", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 0);
    int rc = pretoken_init(&p, spec, "fuzz", &e);
    if (rc && ((rc != -E_FORMAT && rc != -E_UNSUPPORTED) || strncmp(e.msg, "fuzz.", 5) != 0))
        abort();
    if (!rc) {
        split(&p);
        pretoken_free(&p);
    }
    json_decref(spec);
    return 0;
}
