/* JSON schemas, and lists of tools, of any JSON: a grammar within the limits, or a message. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#include "text/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    json_t *v = json_loadb((const char *)data, n, JSON_DECODE_ANY, NULL);
    struct err e = {0};
    struct grammar *g;
    struct toolset t;
    if (!v || n > 4000) {
        json_decref(v);
        return 0;
    }
    if (json_is_array(v)) {
        if (!toolset_init(&t, v, &e)) {
            if (grammar_of_tools(&t, NULL, true, GRAMMAR_THINKING, &g, &e) && !e.msg[0])
                abort();
            grammar_free(g);
            toolset_free(&t);
        }
    } else {
        if (grammar_of_schema(v, GRAMMAR_ANSWER, &g, &e) && (!e.msg[0] || g))
            abort();
        grammar_free(g);
    }
    json_decref(v);
    return 0;
}
