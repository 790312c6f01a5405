/* A request in the words of no API: see ask.h. */
#include "server/ask.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/utf8.h"
#include "text/toolcheck.h"
#include "text/toolset.h"

enum { TOOLS_MAX = 512 };

void ask_init(struct ask *a, json_t *body)
{
    *a = (struct ask){
        .body = body,
        .max_field = "max_tokens",
        .prompt_field = "messages",
        .thinking = -1,
        .think_budget = -1,
        .n = 1,
        .seed = -1,
        .top_k = -1,
        .temperature = NAN,
        .top_p = NAN,
        .min_p = NAN,
        .presence = NAN,
        .frequency = NAN,
        .repetition = NAN,
        .parallel_tools = true,
    };
}

void ask_free(struct ask *a)
{
    json_decref(a->messages);
    json_decref(a->tools);
    json_decref(a->strict);
    json_decref(a->variables);
    json_decref(a->keep);
    buf_free(&a->text);
    tokens_free(&a->ids);
    mem_free(a->bias);
    json_decref(a->body);
}

static int out_of_memory(struct wrong *w)
{
    return WRONG(w, E_NOMEM, "", "no memory for this request");
}

static int wrong_stop(const json_t *v, const char *name, struct wrong *w)
{
    char what[96];
    snprintf(what, sizeof what, "strings of 1 to %d bytes without NUL", ASK_STOP_BYTES_MAX);
    return wrong_value(w, name, v, what);
}

static int add_stop(struct ask *a, const json_t *v, const char *name, struct wrong *w)
{
    const char *s = json_string_value(v);
    const size_t n = json_string_length(v);
    if (!s || n == 0 || n > ASK_STOP_BYTES_MAX || strlen(s) != n)
        return wrong_stop(v, name, w);
    a->stop[a->n_stop++] = s;
    return 0;
}

int ask_stop(struct ask *a, const json_t *v, const char *name, struct wrong *w)
{
    if (!json_is_array(v))
        return add_stop(a, v, name, w);
    if (json_array_size(v) > ASK_STOP_MAX)
        return WRONG(w, E_LIMIT, name, "%s: want at most %d strings, found %zu", name, ASK_STOP_MAX,
                     json_array_size(v));
    for (size_t i = 0; i < json_array_size(v); i++)
        if (add_stop(a, json_array_get(v, i), name, w))
            return -w->e.code;
    return 0;
}

static int one_bias(const char *key, const json_t *v, const char *name, struct sample_bias *out,
                    struct wrong *w)
{
    char *end;
    errno = 0;
    const long id = strtol(key, &end, 10);
    const double add = json_number_value(v);
    if (*key < '0' || *key > '9' || *end || errno || id > INT32_MAX)
        return WRONG(w, E_FORMAT, name, "%s: want token ids as keys, found '%.40s'", name, key);
    if (!json_is_number(v) || !(add >= -100 && add <= 100)) {
        char what[96];
        snprintf(what, sizeof what, "numbers from -100 to 100 (token %ld)", id);
        return wrong_value(w, name, v, what);
    }
    *out = (struct sample_bias){(int32_t)id, add};
    return 0;
}

int ask_bias(struct ask *a, const json_t *v, const char *name, struct wrong *w)
{
    const char *key;
    json_t *value;
    const size_t n = json_object_size(v);
    if (!json_is_object(v))
        return wrong_value(w, name, v, "an object of token ids and biases");
    if (n > SAMPLE_BIAS_MAX)
        return WRONG(w, E_LIMIT, name, "%s: at most %d tokens, found %zu", name, SAMPLE_BIAS_MAX,
                     n);
    mem_free(a->bias);
    a->n_bias = 0;
    a->bias = mem_array(n, sizeof *a->bias);
    if (!a->bias)
        return out_of_memory(w);
    json_object_foreach((json_t *)v, key, value) {
        struct sample_bias *b = &a->bias[a->n_bias];
        if (one_bias(key, value, name, b, w))
            return -w->e.code;
        for (int i = 0; i < a->n_bias; i++)
            if (a->bias[i].id == b->id)
                return WRONG(w, E_FORMAT, name, "%s: token %d is there twice", name, (int)b->id);
        a->n_bias++;
    }
    return 0;
}

int ask_schema(struct ask *a, const json_t *v, const char *name, struct wrong *w)
{
    if (!json_is_object(v))
        return wrong_value(w, name, v, "a JSON schema, an object");
    a->format = ASK_SCHEMA;
    a->format_field = name;
    a->schema = v;
    return 0;
}

int ask_grammar(struct ask *a, struct wrong *w)
{
    if (a->format != ASK_TEXT)
        return WRONG(w, E_FORMAT, "grammar", "grammar: cannot hold together with %s",
                     a->format_field);
    a->format = ASK_GRAMMAR;
    a->format_field = "grammar";
    return 0;
}

static int set_thinking(struct ask *a, bool on, const char *name, struct wrong *w)
{
    if (a->thinking >= 0 && a->thinking != on)
        return WRONG(w, E_FORMAT, name,
                     "%s: switches thinking %s, which another field of this request switches %s",
                     name, on ? "on" : "off", on ? "off" : "on");
    a->thinking = on;
    return 0;
}

int ask_effort(struct ask *a, const char *word, const char *name, struct wrong *w)
{
    /* The words of the model's template on the right; its own "high" is called xhigh. */
    static const char *const words[][2] = {
        {"none", NULL},       {"minimal", "low"}, {"low", "low"},
        {"medium", "medium"}, {"high", "xhigh"},  {"xhigh", "xhigh"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i][0], word) != 0)
            continue;
        if (a->effort && words[i][1] && strcmp(a->effort, words[i][1]) != 0)
            return WRONG(w, E_FORMAT, name,
                         "%s: wants %s of thinking, and another field of this request another "
                         "effort",
                         name, word);
        a->effort = words[i][1];
        return set_thinking(a, a->effort != NULL, name, w);
    }
    return WRONG(w, E_FORMAT, name,
                 "%s: want none, minimal, low, medium, high or xhigh, found '%.40s'", name, word);
}

/* Sets one of the template's variables. */
static int set_variable(struct ask *a, const char *key, json_t *v, struct wrong *w)
{
    if (!a->variables)
        a->variables = json_object();
    return json_object_set(a->variables, key, v) ? out_of_memory(w) : 0;
}

int ask_variables(struct ask *a, const json_t *v, const char *name, struct wrong *w)
{
    const char *key;
    json_t *value;
    if (!json_is_object(v))
        return wrong_value(w, name, v, "an object of template variables");
    json_object_foreach((json_t *)v, key, value) {
        char full[96];
        snprintf(full, sizeof full, "%s.%.60s", name, key);
        if (strcmp(key, "enable_thinking") == 0) {
            if (!json_is_boolean(value))
                return wrong_value(w, full, value, "true or false");
            if (set_thinking(a, json_is_true(value), full, w))
                return -w->e.code;
        } else if (strcmp(key, "reasoning_effort") == 0) {
            const char *word = json_string_value(value);
            if (!word)
                return wrong_value(w, full, value, "none, minimal, low, medium, high or xhigh");
            if (ask_effort(a, word, full, w))
                return -w->e.code;
        } else if (strcmp(key, "thinking_budget") == 0) {
            if (!json_is_integer(value) || json_integer_value(value) < 0 ||
                json_integer_value(value) > INT32_MAX)
                return wrong_value(w, full, value, "a whole number from 0 to 2147483647");
            if (a->think_budget >= 0 && a->think_budget != json_integer_value(value))
                return WRONG(w, E_FORMAT, full,
                             "%s: is %lld tokens, and thinking_budget of this request %lld: say "
                             "one of them",
                             full, (long long)json_integer_value(value),
                             (long long)a->think_budget);
            a->think_budget = json_integer_value(value);
        } else if (strcmp(key, "messages") == 0 || strcmp(key, "tools") == 0 ||
                   strcmp(key, "add_generation_prompt") == 0) {
            return WRONG(w, E_UNSUPPORTED, full, "%s: is not the request's to set", full);
        } else if (set_variable(a, key, value, w)) {
            return -w->e.code;
        }
    }
    return 0;
}

static bool is_tool_name(const char *s)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const size_t n = strlen(s);
    return n && n <= TOOL_NAME_MAX && strspn(s, letters) == n;
}

static bool has_tool(const struct ask *a, const char *name)
{
    for (size_t i = 0; i < json_array_size(a->tools); i++) {
        const json_t *f = json_object_get(json_array_get(a->tools, i), "function");
        if (strcmp(json_string_value(json_object_get(f, "name")), name) == 0)
            return true;
    }
    return false;
}

static int check_tool(const struct ask *a, const char *name, const json_t *parameters,
                      const char *where, struct wrong *w)
{
    char room[96];
    if (!name)
        return WRONG(w, E_FORMAT, where, "%s: want a name, found nothing", where);
    if (!is_tool_name(name))
        return WRONG(w, E_FORMAT, where,
                     "%s: a tool's name has 1 to %d letters, digits, _ or -, found '%.40s'", where,
                     TOOL_NAME_MAX, name);
    if (parameters && !json_is_object(parameters))
        return WRONG(w, E_FORMAT, where, "%s: parameters: want a JSON schema, an object, found %s",
                     where, json_describe(parameters, room, sizeof room));
    if (has_tool(a, name))
        return WRONG(w, E_FORMAT, where, "%s: another tool is called '%.60s' too", where, name);
    if (json_array_size(a->tools) >= TOOLS_MAX)
        return WRONG(w, E_LIMIT, where, "%s: want at most %d tools, found more", where, TOOLS_MAX);
    return parameters && toolcheck(parameters, &w->e) ? wrong_field(w, where) : 0;
}

int ask_tool(struct ask *a, const char *name, const char *description, const json_t *parameters,
             const char *where, struct wrong *w)
{
    if (check_tool(a, name, parameters, where, w))
        return -w->e.code;
    if (!a->tools)
        a->tools = json_array();
    json_t *function = json_pack("{s:s}", "name", name);
    int bad = !function;
    if (description)
        bad = bad || json_object_set_new(function, "description", json_string(description));
    bad = bad ||
          (parameters
               ? json_object_set(function, "parameters", (json_t *)parameters)
               : json_object_set_new(function, "parameters",
                                     json_pack("{s:s, s:{}}", "type", "object", "properties")));
    json_t *tool = json_pack("{s:s, s:o}", "type", "function", "function", function);
    if (json_array_append_new(a->tools, tool) || bad)
        return out_of_memory(w);
    return 0;
}

int ask_strict(struct ask *a, struct wrong *w)
{
    const json_t *last = json_array_get(a->tools, json_array_size(a->tools) - 1);
    const json_t *name = json_object_get(json_object_get(last, "function"), "name");
    if (!a->strict)
        a->strict = json_object();
    return json_object_set_new(a->strict, json_string_value(name), json_true()) ? out_of_memory(w)
                                                                                : 0;
}

bool ask_must_call(const struct ask *a)
{
    return a->tool_choice == ASK_TOOLS_REQUIRED || a->tool_choice == ASK_TOOLS_NAMED;
}

int ask_check(const struct ask *a, struct wrong *w)
{
    const bool calls = ask_must_call(a);
    if (calls && !json_array_size(a->tools))
        return WRONG(w, E_FORMAT, "tool_choice",
                     "tool_choice: asks for a call, but there are no "
                     "tools");
    if (a->tool_choice == ASK_TOOLS_NAMED && !has_tool(a, a->tool_name))
        return WRONG(w, E_FORMAT, "tool_choice", "tool_choice: there is no tool called '%.60s'",
                     a->tool_name);
    if (calls && a->format != ASK_TEXT)
        return WRONG(w, E_FORMAT, a->format_field,
                     "%s: cannot hold while tool_choice asks for a call", a->format_field);
    if (a->ignore_eos && (calls || a->format != ASK_TEXT))
        return WRONG(w, E_FORMAT, "ignore_eos",
                     "ignore_eos: goes on behind an end, which %s must come to",
                     calls ? "a required call" : a->format_field);
    if (a->top_logprobs && !a->logprobs)
        return WRONG(w, E_FORMAT, "top_logprobs", "top_logprobs: wants logprobs to be true");
    return 0;
}

static double pick(double asked, double by_default, double model)
{
    return !isnan(asked) ? asked : !isnan(by_default) ? by_default : model;
}

void ask_sample(const struct ask *a, const struct ask_defaults *d, const struct model *m,
                struct sample_options *out)
{
    const struct sample_options *o = &m->sample;
    uint64_t seed = (uint64_t)a->seed;
    if (a->seed < 0)
        os_random(&seed, sizeof seed);
    *out = (struct sample_options){
        .temperature = pick(a->temperature, d->temperature, o->temperature),
        .top_p = pick(a->top_p, d->top_p, o->top_p),
        .min_p = pick(a->min_p, d->min_p, o->min_p),
        .presence = pick(a->presence, d->presence, o->presence),
        .frequency = pick(a->frequency, d->frequency, o->frequency),
        .repetition = pick(a->repetition, d->repetition, o->repetition),
        .top_k = a->top_k >= 0   ? (int)a->top_k
                 : d->top_k >= 0 ? (int)d->top_k
                                 : o->top_k,
        .seed = seed,
        .bias = a->bias,
        .n_bias = a->n_bias,
    };
}
