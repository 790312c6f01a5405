/* Grammars of any bytes, and behind a NUL a text to follow: read, checked and followed within the
 * limits, or refused with a message. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *nul = n ? memchr(data, 0, n) : NULL;
    size_t len = nul ? (size_t)(nul - data) : n;
    struct err e = {0};
    struct grammar *g;
    struct automaton *a;
    if (len > 2000)
        return 0;
    const struct grammar_spec spec = {.gbnf = (const char *)data, .gbnf_len = len};
    if (grammar_open(&spec, &g, &e)) {
        if (!e.msg[0] || g)
            abort();
        return 0;
    }
    if (automaton_open(&g->rules, &a, &e))
        abort();
    int32_t state = automaton_root(a);
    for (size_t i = len + 1; i < n && i < len + 500; i++)
        state = automaton_next(a, state, data[i]);
    automaton_close(a);
    grammar_close(g);
    return 0;
}
