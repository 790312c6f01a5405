/* Requests in Ollama's form: see asks.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/asks.h"
#include "server/messages.h"

enum { PLACE_MAX = 64, PREDICT_UNSAID = -3 };

struct fields_of_request {
    struct ask ask;
    const json_t *messages, *tools, *format, *think, *stop;
    const char *prompt, *system;
    int64_t predict;
    /* Of a chat, beside options, which win: as clients have them that know other APIs too. */
    const json_t *tool_choice;
    int64_t max_tokens;        /* 0: not given */
    double temperature, top_p; /* NAN: not given */
    bool raw;
};

#define AT(member) offsetof(struct fields_of_request, member)
#define A(member)  offsetof(struct fields_of_request, ask.member)
static const struct field option_fields[] = {
    {"num_predict", FIELD_INT, AT(predict), -2, INT32_MAX, NULL, NULL},
    {"temperature", FIELD_REAL, A(temperature), 0, 100, NULL, NULL},
    {"top_k", FIELD_INT, A(top_k), 0, INT32_MAX, NULL, NULL},
    {"top_p", FIELD_REAL, A(top_p), 0, 1, NULL, NULL},
    {"min_p", FIELD_REAL, A(min_p), 0, 1, NULL, NULL},
    {"seed", FIELD_INT, A(seed), 0, 0x1p53, NULL, NULL},
    {"stop", FIELD_VALUE, AT(stop), 0, 0, NULL, NULL},
    {"repeat_penalty", FIELD_REAL, A(repetition), 0.01, 10, NULL, NULL},
    {"presence_penalty", FIELD_REAL, A(presence), -2, 2, NULL, NULL},
    {"frequency_penalty", FIELD_REAL, A(frequency), -2, 2, NULL, NULL},
    {"repeat_last_n", FIELD_ONLY, 0, 0, 0, "-1", NULL},
    {"typical_p", FIELD_ONLY, 0, 0, 0, "1|1.0", NULL},
    {"tfs_z", FIELD_ONLY, 0, 0, 0, "1|1.0", NULL},
    {"mirostat", FIELD_ONLY, 0, 0, 0, "0", NULL},
    {"penalize_newline", FIELD_ONLY, 0, 0, 0, "true", NULL},
    /* How to load the model: that was decided when the server was started. */
    {"num_ctx", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"num_keep", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"num_batch", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"num_gpu", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"main_gpu", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"num_thread", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"use_mmap", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"use_mlock", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"low_vram", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"numa", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

/* What both endpoints take. */
#define COMMON                                                                                     \
    {"model", FIELD_STRING, A(model), 0, 0, NULL, NULL},                                           \
        {"stream", FIELD_BOOL, A(stream), 0, 0, NULL, NULL},                                       \
        {"format", FIELD_VALUE, AT(format), 0, 0, NULL, NULL},                                     \
        {"think", FIELD_VALUE, AT(think), 0, 0, NULL, NULL},                                       \
        {"options", FIELD_FIELDS, 0, 0, 0, NULL, option_fields},                                   \
        {"keep_alive", FIELD_HINT, 0, 0, 0, NULL, NULL},                                           \
        {"logprobs", FIELD_ONLY, 0, 0, 0, "false", NULL},                                          \
    {                                                                                              \
        "top_logprobs", FIELD_ONLY, 0, 0, 0, "0", NULL                                             \
    }

static const struct field chat_fields[] = {
    COMMON,
    {"messages", FIELD_VALUE, AT(messages), 0, 0, NULL, NULL},
    {"tools", FIELD_VALUE, AT(tools), 0, 0, NULL, NULL},
    {"tool_choice", FIELD_VALUE, AT(tool_choice), 0, 0, NULL, NULL},
    {"max_output_tokens", FIELD_INT, AT(max_tokens), 1, INT32_MAX, NULL, NULL},
    {"temperature", FIELD_REAL, AT(temperature), 0, 100, NULL, NULL},
    {"top_p", FIELD_REAL, AT(top_p), 0, 1, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
static const struct field generate_fields[] = {
    COMMON,
    {"prompt", FIELD_STRING, AT(prompt), 0, 0, NULL, NULL},
    {"system", FIELD_STRING, AT(system), 0, 0, NULL, NULL},
    {"raw", FIELD_BOOL, AT(raw), 0, 0, NULL, NULL},
    {"suffix", FIELD_ONLY, 0, 0, 0, "\"\"", NULL},
    {"images", FIELD_ONLY, 0, 0, 0, "[]", NULL},
    {"template", FIELD_ONLY, 0, 0, 0, "\"\"", NULL},
    {"context", FIELD_ONLY, 0, 0, 0, "[]", NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef A
#undef AT

/* think: true, false, or a word of effort. */
static int read_think(struct ask *a, const json_t *v, struct wrong *w)
{
    if (json_is_string(v))
        return ask_effort(a, json_string_value(v), "think", w);
    if (!json_is_boolean(v))
        return wrong_value(w, "think", v, "true, false, or a word like \"high\"");
    a->thinking = json_is_true(v);
    return 0;
}

/* format: "json", "" for text, or a schema. */
static int read_format(struct ask *a, const json_t *v, struct wrong *w)
{
    const char *word = json_string_value(v);
    if (json_is_object(v))
        return ask_schema(a, v, "format", w);
    if (!word)
        return wrong_value(w, "format", v, "\"json\" or a schema, an object");
    if (*word && strcmp(word, "json") != 0)
        return WRONG(w, E_FORMAT, "format", "format: want \"json\" or a schema, found '%.40s'",
                     word);
    a->format = *word ? ASK_JSON : ASK_TEXT;
    a->format_field = "format";
    return 0;
}

static int read_common(struct fields_of_request *q, const struct field *table, struct wrong *w)
{
    struct ask *a = &q->ask;
    a->stream = true; /* here that is the default */
    a->max_field = "options.num_predict";
    q->predict = PREDICT_UNSAID;
    if (fields_read(table, a->body, "", q, w))
        return -w->e.code;
    if (q->predict == 0)
        return WRONG(w, E_FORMAT, a->max_field,
                     "%s: want 1 or more tokens, or -1 or -2: until the context is full, found 0",
                     a->max_field);
    if (q->predict != PREDICT_UNSAID)
        a->max_tokens = q->predict > 0 ? q->predict : ASK_TOKENS_ALL;
    if ((q->think && read_think(a, q->think, w)) || (q->format && read_format(a, q->format, w)) ||
        (q->stop && ask_stop(a, q->stop, "options.stop", w)))
        return -w->e.code;
    return 0;
}

/* --- messages --- */

/* A message of Ollama's form in OpenAI's: calls without ids, "thinking", "tool_name". For
 * json_decref; NULL: w says why. */
static json_t *convert_one(const json_t *m, const char *place, struct wrong *w)
{
    static const char *const names[][2] = {{"thinking", "reasoning_content"},
                                           {"tool_name", "name"}};
    json_t *out = json_copy((json_t *)m);
    const json_t *images = json_object_get(out, "images");
    if (images && !json_is_null(images) && !json_is_array(images)) {
        char name[PLACE_MAX + 16];
        snprintf(name, sizeof name, "%s.images", place);
        (void)wrong_value(w, name, images, "an array");
        json_decref(out);
        return NULL;
    }
    if (json_array_size(images)) {
        json_decref(out);
        (void)WRONG(w, E_UNSUPPORTED, place, "%s.images: images are not supported", place);
        return NULL;
    }
    json_object_del(out, "images");
    for (size_t i = 0; i < 2; i++) {
        json_t *v = json_object_get(out, names[i][0]);
        if (!v)
            continue;
        json_object_set(out, names[i][1], v);
        json_object_del(out, names[i][0]);
    }
    if (json_array_size(json_object_get(out, "tool_calls")) == 0)
        json_object_del(out, "tool_calls");
    return out;
}

/* What is said outside options holds where they do not say it. */
static void take_outer(struct fields_of_request *q)
{
    struct ask *a = &q->ask;
    if (isnan(a->temperature))
        a->temperature = q->temperature;
    if (isnan(a->top_p))
        a->top_p = q->top_p;
    if (q->max_tokens && q->predict == PREDICT_UNSAID) {
        a->max_tokens = q->max_tokens;
        a->max_field = "max_output_tokens";
    }
}

int ollama_ask_chat(struct ask *a, bool *empty, struct wrong *w)
{
    struct fields_of_request q = {.ask = *a, .temperature = NAN, .top_p = NAN};
    int rc = read_common(&q, chat_fields, w);
    if (!rc)
        take_outer(&q);
    *a = q.ask;
    if (!rc && q.messages && !json_is_array(q.messages))
        rc = wrong_value(w, "messages", q.messages, "an array");
    *empty = !rc && json_array_size(q.messages) == 0;
    if (rc || *empty)
        return rc;
    json_t *list = json_array();
    for (size_t i = 0; !rc && i < json_array_size(q.messages); i++) {
        char place[PLACE_MAX];
        snprintf(place, sizeof place, "messages[%zu]", i);
        json_t *m = convert_one(json_array_get(q.messages, i), place, w);
        rc = m ? json_array_append_new(list, m) : -w->e.code;
    }
    if (!rc)
        rc = messages_read(a, list, "messages", w);
    json_decref(list);
    if (!rc && q.tools)
        rc = openai_tools(a, q.tools, w);
    if (!rc && q.tool_choice)
        rc = openai_tool_choice(a, q.tool_choice, w);
    return rc ? rc : ask_check(a, w);
}

int ollama_ask_generate(struct ask *a, bool *empty, struct wrong *w)
{
    struct fields_of_request q = {.ask = *a};
    const int rc = read_common(&q, generate_fields, w);
    *a = q.ask;
    *empty = !rc && (!q.prompt || !*q.prompt);
    a->prompt_field = "prompt";
    if (rc || *empty)
        return rc;
    if (q.raw && (q.system || q.think))
        return WRONG(w, E_FORMAT, "raw", "raw: feeds the prompt as it is, so %s has no effect",
                     q.system ? "system" : "think");
    if (q.raw) {
        buf_puts(&a->text, q.prompt);
        return buf_check(&a->text, &w->e);
    }
    json_t *list = json_array();
    if (q.system)
        json_array_append_new(list, json_pack("{s:s, s:s}", "role", "system", "content", q.system));
    json_array_append_new(list, json_pack("{s:s, s:s}", "role", "user", "content", q.prompt));
    const int bad = messages_read(a, list, "prompt", w);
    json_decref(list);
    return bad ? bad : ask_check(a, w);
}
