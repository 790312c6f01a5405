/* Requests of every API: read, or refused with a message. The first byte says which; the rest is
 * the body. What was read has messages only in the form that templates are given. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/asks.h"
#include "server/kept.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* With nothing stored, but for one response that inputs may refer to. */
static int read_responses(struct ask *a, struct wrong *w)
{
    static const struct kept_options o = {.entries = 1, .bytes = 1 << 16, .idle_s = 60};
    static const char stored[] =
        "{\"items\": [{\"role\": \"user\", \"content\": \"x\"}], \"response\": {\"output\": [{"
        "\"id\": \"msg_1_0\", \"role\": \"assistant\", \"content\": \"y\"}]}}";
    struct err e = {0};
    struct kept *k;
    const char *id;
    json_t *v = json_loads(stored, 0, NULL);
    if (kept_open(&o, &k, &e) || kept_put(k, "resp_1", v, &e))
        abort();
    const int rc = openai_ask_responses(a, k, &id, w);
    json_decref(v);
    kept_close(k);
    return rc;
}

static int read_as(unsigned api, struct ask *a, struct wrong *w)
{
    const char *id;
    bool empty;
    if (api == 'r')
        return read_responses(a, w);
    switch (api % 5) {
    case 0:
        return openai_ask_chat(a, &id, w);
    case 1:
        return openai_ask_text(a, &id, w);
    case 2:
        return anthropic_ask(a, api & 8, w);
    case 3:
        return ollama_ask_chat(a, &empty, w);
    default:
        return ollama_ask_generate(a, &empty, w);
    }
}

static void check_messages(const json_t *messages)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *m = json_array_get(messages, i);
        const char *role = json_string_value(json_object_get(m, "role"));
        if (!role || !json_is_string(json_object_get(m, "content")) ||
            (strcmp(role, "system") == 0 && i))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct ask a;
    struct wrong w = {0};
    json_t *body = NULL;
    if (n == 0 || json_parse((const char *)data + 1, n - 1, "body", &body, &w.e))
        return 0;
    if (!json_is_object(body)) {
        json_decref(body);
        return 0;
    }
    ask_init(&a, body);
    if (read_as(data[0], &a, &w)) {
        if (!w.e.code || !w.e.msg[0])
            abort();
    } else {
        check_messages(a.messages);
    }
    ask_free(&a);
    return 0;
}
