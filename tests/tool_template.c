/* Renders templates for scripts: one JSON object a line on standard input, {"template": ...,
 * "vars": {...}}, with one a line on standard output: {"text": ...} or {"error": ...}. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template.h"

static json_t *answer(const json_t *request)
{
    const char *source = json_string_value(json_object_get(request, "template"));
    json_t *vars = json_object_get(request, "vars");
    struct template_limits lim = {.now = json_integer_value(json_object_get(request, "now"))};
    struct template *t = NULL;
    struct buf out = {0};
    struct err e = {0};
    int rc =
        template_compile(source ? source : "", source ? strlen(source) : 0, "template", &t, &e);
    if (!rc)
        rc = template_render(t, vars, &lim, &out, &e);
    json_t *a = rc ? json_pack("{s:s, s:i}", "error", e.msg, "code", e.code)
                   : json_pack("{s:s%}", "text", buf_str(&out), out.len);
    template_close(t);
    buf_free(&out);
    return a;
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, stdin) > 0) {
        json_t *request = json_loads(line, JSON_ALLOW_NUL, NULL);
        json_t *a = answer(request);
        json_dumpf(a ? a : json_null(), stdout, JSON_COMPACT | JSON_ENCODE_ANY);
        putchar('\n');
        fflush(stdout);
        json_decref(a);
        json_decref(request);
    }
    free(line);
    return 0;
}
