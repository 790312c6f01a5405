/* Stop strings and a text cut anywhere: the outcome is that of the definition. Input: number of
 * strings, each with a length byte; a byte that says how to cut; the text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "text/stop.h"

enum { STRINGS_MAX = 6, LENGTH_MAX = 12, TEXT_MAX = 400 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct strings {
    char room[STRINGS_MAX][LENGTH_MAX + 1];
    const char *at[STRINGS_MAX];
    size_t n;
};

static size_t read_strings(const uint8_t *data, size_t n, struct strings *s)
{
    size_t at = 1, want = n ? data[0] % (STRINGS_MAX + 1) : 0;
    *s = (struct strings){.n = want};
    for (size_t k = 0; k < want; k++) {
        size_t len = at < n ? data[at++] % (LENGTH_MAX + 1) : 0;
        for (size_t i = 0; i < len && at < n; i++)
            s->room[k][i] = (char)data[at++];
        s->at[k] = s->room[k];
    }
    return at;
}

/* How much of the text is shown, and whether a string ended it. */
static size_t define(const struct strings *s, const char *text, size_t n, bool *hit)
{
    *hit = false;
    for (size_t end = 1; end <= n; end++) {
        size_t best = 0;
        for (size_t k = 0; k < s->n; k++) {
            size_t len = strlen(s->at[k]);
            if (len > best && len <= end && memcmp(text + end - len, s->at[k], len) == 0)
                best = len;
        }
        *hit = best > 0;
        if (best)
            return end - best;
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct strings strings;
    struct stop s;
    struct err e = {0};
    struct buf out = BUF_INIT;
    size_t at = read_strings(data, n, &strings);
    if (stop_init(&s, strings.at, strings.n, &e)) {
        if (e.code != E_ARG || !e.msg[0])
            abort();
        return 0;
    }
    uint64_t seed = at < n ? data[at++] : 0;
    const char *text = (const char *)data + (at < n ? at : n);
    size_t len = at < n ? n - at : 0, done = 0;
    len = len < TEXT_MAX ? len : TEXT_MAX;
    bool want, hit = false;
    size_t shown = define(&strings, text, len, &want);
    for (uint64_t i = 0; done < len && !hit; i++) {
        size_t k = rng_at(seed, i) % (seed % 8 + 2); /* 0 too */
        k = k < len - done ? k : len - done;
        hit = stop_push(&s, text + done, k, &out);
        done += k;
        if (out.len > shown)
            abort();
    }
    stop_finish(&s, &out);
    if (hit != want || out.len != shown || (shown && memcmp(out.data, text, shown) != 0))
        abort();
    buf_free(&out);
    stop_free(&s);
    return 0;
}
