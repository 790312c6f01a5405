/* Answers of any bytes: the first says how the text is cut. Reading it in pieces gives what reading
 * it whole gives, and the arguments of every call are JSON when the text is UTF-8. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "text/toolcall.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char declared[] =
    "[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},"
    "\"i\":{\"type\":\"integer\"}}}}},{\"function\":{\"name\":\"g\"}}]";

struct record {
    struct buf text, calls, arguments;
    bool utf8;
};

static void note(void *ctx, const struct toolcall_event *event)
{
    struct record *r = ctx;
    json_t *v = NULL;
    if (event->kind == TOOLCALL_TEXT)
        buf_add(&r->text, event->text, event->len);
    else if (event->kind == TOOLCALL_BEGIN)
        buf_add(&r->calls, event->text, event->len);
    else if (event->kind == TOOLCALL_ARGUMENTS)
        buf_add(&r->arguments, event->text, event->len);
    if (event->kind != TOOLCALL_END)
        return;
    v = json_loadb(buf_str(&r->arguments), r->arguments.len, JSON_ALLOW_NUL, NULL);
    if (r->utf8 && !v)
        abort();
    json_decref(v);
    buf_add(&r->calls, r->arguments.data, r->arguments.len);
    buf_clear(&r->arguments);
}

static void read_text(const struct toolset *t, const char *s, size_t n, uint64_t seed,
                      struct record *r)
{
    const struct toolcall_options o = {.tools = t, .strict = seed & 1, .ctx = r, .on_event = note};
    struct err e = {0};
    struct toolcall *c;
    size_t at = 0;
    *r = (struct record){.utf8 = utf8_valid_prefix(s, n) == n};
    if (toolcall_open(&o, &c, &e))
        abort();
    for (uint64_t i = 0; at < n; i++) {
        size_t k = seed < 2 ? n : 1 + rng_at(seed, i) % 7;
        k = k < n - at ? k : n - at;
        if (toolcall_push(c, s + at, k, &e))
            abort();
        at += k;
    }
    if (toolcall_finish(c, &e))
        abort();
    toolcall_close(c);
}

static void record_free(struct record *r)
{
    buf_free(&r->text);
    buf_free(&r->calls);
    buf_free(&r->arguments);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct err e = {0};
    struct toolset t;
    struct record whole, cut;
    json_t *tools;
    if (!n || json_parse(declared, strlen(declared), "tools", &tools, &e) ||
        toolset_init(&t, tools, &e))
        return 0;
    const char *text = (const char *)data + 1;
    read_text(&t, text, n - 1, data[0] & 1, &whole);
    read_text(&t, text, n - 1, data[0], &cut);
    if (strcmp(buf_str(&whole.text), buf_str(&cut.text)) != 0 ||
        strcmp(buf_str(&whole.calls), buf_str(&cut.calls)) != 0)
        abort();
    record_free(&whole);
    record_free(&cut);
    toolset_free(&t);
    json_decref(tools);
    return 0;
}
