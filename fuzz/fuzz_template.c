/* Chat templates from any bytes: the template, and behind a NUL the variables as JSON (else a fixed
 * conversation). Compiles and renders within its limits, or says where it went wrong. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \" Be kind. \"},"
    " {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
    "\"H\\u00e9\\n\\ud83d\\ude00\"}]},"
    " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\":"
    " {\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": [true, null, 2.5e-7]}}}]}],"
    " \"tools\": [{\"type\": \"function\"}], \"add_generation_prompt\": true, \"x\": \"ab cd\", "
    "\"n\": 3}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const struct template_limits lim = {.steps = 20000, .depth = 12, .bytes = 1 << 16};
    const uint8_t *nul = n ? memchr(data, 0, n) : NULL;
    size_t len = nul ? (size_t)(nul - data) : n;
    json_t *vars = nul ? json_loadb((const char *)nul + 1, n - len - 1, 0, NULL)
                       : json_loads(conversation, 0, NULL);
    struct err e = {0};
    struct buf out = {0};
    struct template *t;
    int rc = template_compile((const char *)data, len, "fuzz", &t, &e);
    if (!rc)
        rc = template_render(t, vars ? vars : json_null(), &lim, &out, &e);
    if (rc ? !e.msg[0] || e.code != -rc || out.len
           : out.len > lim.bytes || utf8_valid_prefix(buf_str(&out), out.len) != out.len)
        abort();
    template_close(t);
    buf_free(&out);
    json_decref(vars);
    return 0;
}
