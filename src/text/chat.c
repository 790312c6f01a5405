/* Chat formats: see chat.h. */
#include "text/chat.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

enum { TEMPLATE_BYTES_MAX = 1 << 20, CONFIG_BYTES_MAX = 64 << 20 };

struct chat {
    struct template *template;
    json_t *vars; /* what the tokenizer's configuration defines: bos_token, eos_token... */
};

static int open_folder(const char *path, struct chat *c, struct err *e);
static int take_template(const json_t *config, const char *where, struct chat *c, struct err *e);
static int take_vars(const json_t *config, struct chat *c, struct err *e);

/* An empty one renders every conversation to nothing, which no model can answer. */
static int compile(const char *text, size_t len, const char *name, struct chat *c, struct err *e)
{
    if (strspn(text, " \t\r\n") == len)
        return ERR(e, E_FORMAT,
                   "%s: the chat template is empty: copy it from where the model was published, or "
                   "take it away, and `cherenkov run --raw` does without one",
                   name);
    return template_compile(text, len, name, &c->template, e);
}

static int compile_file(const char *path, struct chat *c, struct err *e)
{
    struct buf text = BUF_INIT;
    const char *slash = strrchr(path, '/');
    int rc = file_read_all(path, TEMPLATE_BYTES_MAX, &text, e);
    if (!rc)
        rc = compile(buf_str(&text), text.len, slash ? slash + 1 : path, c, e);
    if (rc && slash && text.len)
        rc = err_prefix(e, "%.*s", (int)(slash - path), path);
    buf_free(&text);
    return rc;
}

int chat_open(const char *path, struct chat **out, struct err *e)
{
    *out = NULL;
    struct chat *c = mem_zalloc(1, sizeof *c);
    if (c)
        c->vars = json_object();
    if (!c || !c->vars) {
        chat_close(c);
        return ERR(e, E_NOMEM, "%s: out of memory for the chat format", path);
    }
    int rc = file_is_dir(path) ? open_folder(path, c, e) : compile_file(path, c, e);
    if (rc)
        chat_close(c);
    else
        *out = c;
    return rc;
}

void chat_close(struct chat *c)
{
    if (!c)
        return;
    template_close(c->template);
    json_decref(c->vars);
    mem_free(c);
}

/* The configuration, or NULL when the folder has none. */
static int read_config(const char *path, json_t **out, struct err *e)
{
    *out = NULL;
    return file_exists(path) ? json_read_file(path, CONFIG_BYTES_MAX, out, e) : 0;
}

static int open_from(const char *template, const char *config_path, const char *dir, struct chat *c,
                     struct err *e)
{
    json_t *config;
    int rc = read_config(config_path, &config, e);
    if (!rc && file_exists(template))
        rc = compile_file(template, c, e);
    else if (!rc && config)
        rc = take_template(config, config_path, c, e);
    if (!rc && !c->template)
        rc = ERR(e, E_NOTFOUND,
                 "%s: no chat template: there is no chat_template.jinja, and "
                 "tokenizer_config.json has none; give a template file",
                 dir);
    if (!rc && config)
        rc = take_vars(config, c, e);
    json_decref(config);
    return rc;
}

/* *found: the folder has one of the two files. */
static int open_dir(const char *dir, bool *found, struct chat *c, struct err *e)
{
    char *template = file_join(dir, "chat_template.jinja");
    char *config = file_join(dir, "tokenizer_config.json");
    int rc = template && config ? 0 : ERR(e, E_NOMEM, "%s: out of memory for a path", dir);
    *found = !rc && (file_exists(template) || file_exists(config));
    if (*found)
        rc = open_from(template, config, dir, c, e);
    mem_free(template);
    mem_free(config);
    return rc;
}

static int open_folder(const char *path, struct chat *c, struct err *e)
{
    bool found = false;
    char *packed = file_join(path, "packed");
    int rc = packed ? open_dir(path, &found, c, e)
                    : ERR(e, E_NOMEM, "%s: out of memory for a path", path);
    if (!rc && !found)
        rc = open_dir(packed, &found, c, e);
    mem_free(packed);
    if (rc || found)
        return rc;
    return ERR(e, E_NOTFOUND,
               "%s: no chat template: neither chat_template.jinja nor tokenizer_config.json is "
               "here or in packed/; give a template file",
               path);
}

/* The entry of a list of {name, template} that is called "default". */
static const json_t *default_template(const json_t *list)
{
    size_t i;
    json_t *entry;
    json_array_foreach(list, i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name && strcmp(name, "default") == 0)
            return json_object_get(entry, "template");
    }
    return NULL;
}

static int take_template(const json_t *config, const char *where, struct chat *c, struct err *e)
{
    const json_t *t = json_object_get(config, "chat_template");
    char room[96];
    if (!t || json_is_null(t))
        return 0;
    if (json_is_array(t)) {
        t = default_template(t);
        if (!t)
            return ERR(e, E_FORMAT,
                       "%s: chat_template is a list without an entry called \"default\"", where);
    }
    if (!json_is_string(t))
        return ERR(e, E_FORMAT, "%s: chat_template: want a string or a list, found %s", where,
                   json_describe(t, room, sizeof room));
    return compile(json_string_value(t), json_string_length(t), "chat_template", c, e)
               ? err_prefix(e, "%s", where)
               : 0;
}

/* A token is a string, or an object whose "content" is one. */
static json_t *token_text(json_t *t)
{
    return json_is_object(t) ? json_object_get(t, "content") : t;
}

static int take_vars(const json_t *config, struct chat *c, struct err *e)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        json_t *t = token_text(json_object_get(config, names[i]));
        if (json_is_string(t) && json_object_set(c->vars, names[i], t))
            return ERR(e, E_NOMEM, "out of memory for the chat format");
    }
    return 0;
}

static int check_message(const json_t *m, size_t i, struct err *e)
{
    char room[96], where[40];
    const char *role;
    snprintf(where, sizeof where, "messages[%zu]", i);
    int rc = json_field_str(m, where, "role", true, &role, e);
    if (rc)
        return rc;
    const json_t *content = json_object_get(m, "content");
    if (content && !json_is_string(content) && !json_is_array(content) && !json_is_null(content))
        return ERR(e, E_FORMAT, "%s.content: want a string, a list of parts or null, found %s",
                   where, json_describe(content, room, sizeof room));
    const json_t *calls = json_object_get(m, "tool_calls");
    if (calls && !json_is_array(calls) && !json_is_null(calls))
        return ERR(e, E_FORMAT, "%s.tool_calls: want a list, found %s", where,
                   json_describe(calls, room, sizeof room));
    return 0;
}

static int check_lists(const json_t *messages, const json_t *tools, const json_t *set,
                       struct err *e)
{
    char room[96];
    if (!json_is_array(messages))
        return ERR(e, E_FORMAT, "messages: want a list, found %s",
                   json_describe(messages, room, sizeof room));
    if (tools && !json_is_array(tools) && !json_is_null(tools))
        return ERR(e, E_FORMAT, "tools: want a list, found %s",
                   json_describe(tools, room, sizeof room));
    if (set && !json_is_object(set))
        return ERR(e, E_ARG, "template variables: want an object, found %s",
                   json_describe(set, room, sizeof room));
    for (size_t i = 0; i < json_array_size(messages); i++) {
        int rc = check_message(json_array_get(messages, i), i, e);
        if (rc)
            return rc;
    }
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (!json_is_object(json_array_get(tools, i)))
            return ERR(e, E_FORMAT, "tools[%zu]: want an object, found %s", i,
                       json_describe(json_array_get(tools, i), room, sizeof room));
    return 0;
}

/* The template's variables. The lists are shared, not copied; jansson counts references
 * atomically. */
static json_t *variables(const struct chat *c, const json_t *messages, const json_t *tools,
                         const json_t *set)
{
    json_t *v = json_copy(c->vars);
    bool bad = !v || json_object_set(v, "messages", (json_t *)messages) ||
               json_object_set_new(v, "add_generation_prompt", json_true());
    if (!bad && json_array_size(tools))
        bad = json_object_set(v, "tools", (json_t *)tools);
    if (!bad && set)
        bad = json_object_update(v, (json_t *)set);
    if (!bad)
        return v;
    json_decref(v);
    return NULL;
}

int chat_render(const struct chat *c, const json_t *messages, const json_t *tools,
                const json_t *set, struct buf *out, struct err *e)
{
    int rc = check_lists(messages, tools, set, e);
    if (rc)
        return rc;
    json_t *vars = variables(c, messages, tools, set);
    if (!vars)
        return ERR(e, E_NOMEM, "out of memory for the template's variables");
    rc = template_render(c->template, vars, NULL, out, e);
    json_decref(vars);
    return rc;
}

/* --- what it can show --- */

#define PROBE_CALL   "probe_call"
#define PROBE_RESULT "probe result"

static json_t *probe_tools(void)
{
    return json_pack("[{s:s, s:{s:s, s:s, s:{s:s, s:{}}}}]", "type", "function", "function", "name",
                     PROBE_CALL, "description", "A probe.", "parameters", "type", "object",
                     "properties");
}

static json_t *probe_messages(bool called)
{
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "probe");
    if (!called)
        return messages;
    json_array_append_new(messages, json_pack("{s:s, s:s, s:[{s:s, s:s, s:{s:s, s:{}}}]}", "role",
                                              "assistant", "content", "", "tool_calls", "id",
                                              "call_1", "type", "function", "function", "name",
                                              PROBE_CALL, "arguments"));
    json_array_append_new(messages, json_pack("{s:s, s:s, s:s}", "role", "tool", "tool_call_id",
                                              "call_1", "content", PROBE_RESULT));
    return messages;
}

/* Takes messages, tools and set over; out stays empty where the template refuses them. */
static void probe(const struct chat *c, json_t *messages, json_t *tools, json_t *set,
                  struct buf *out)
{
    struct err ignored = {0};
    (void)chat_render(c, messages, tools, set, out, &ignored);
    json_decref(messages);
    json_decref(tools);
    json_decref(set);
}

void chat_can(const struct chat *c, struct chat_can *out)
{
    struct buf shown = BUF_INIT, on = BUF_INIT, off = BUF_INIT;
    probe(c, probe_messages(true), probe_tools(), NULL, &shown);
    probe(c, probe_messages(false), NULL, json_pack("{s:b}", "enable_thinking", 1), &on);
    probe(c, probe_messages(false), NULL, json_pack("{s:b}", "enable_thinking", 0), &off);
    const char *declared = strstr(buf_str(&shown), PROBE_CALL);
    *out = (struct chat_can){
        .tools =
            declared && strstr(declared + 1, PROBE_CALL) && strstr(buf_str(&shown), PROBE_RESULT),
        .thinking = on.len && off.len && strcmp(buf_str(&on), buf_str(&off)) != 0,
    };
    buf_free(&shown);
    buf_free(&on);
    buf_free(&off);
}
