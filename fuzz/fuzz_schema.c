/* JSON schemas, and lists of tools, of any JSON: a grammar within the limits, or a message. Of
 * tools whose names begin with s all arguments must be kept to. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#include "text/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void open(const struct grammar_spec *spec)
{
    struct err e = {0};
    struct grammar *g;
    if (grammar_open(spec, &g, &e) && (!e.msg[0] || g))
        abort();
    grammar_close(g);
}

static void open_tools(const json_t *list)
{
    struct err e = {0};
    struct toolset t;
    json_t *strict = json_object(), *part;
    const char *name;
    if (!toolset_init(&t, list, &e)) {
        json_object_foreach(t.tools, name, part) {
            json_object_set_new(strict, name, json_boolean(name[0] == 's'));
        }
        struct grammar_spec spec = {.start = GRAMMAR_THINKING,
                                    .tools = &t,
                                    .strict = strict,
                                    .several = true,
                                    .must_call = json_array_size(list) % 2};
        open(&spec);
        toolset_free(&t);
    }
    json_decref(strict);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    json_t *v = n > 4000 ? NULL : json_loadb((const char *)data, n, JSON_DECODE_ANY, NULL);
    if (json_is_array(v)) {
        open_tools(v);
    } else if (v) {
        open(&(struct grammar_spec){.schema = v});
        open(&(struct grammar_spec){.schema = v, .lenient = true});
    }
    json_decref(v);
    return 0;
}
