/* cherenkov prompt: what a conversation renders to, or its ids. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/flags.h"
#include "cli/input.h"
#include "text/chat.h"
#include "text/tokenizer.h"

enum { FILE_BYTES_MAX = 64 << 20 };

struct options {
    const char *messages, *tools;
    struct flag_list set;
    bool no_generation_prompt, ids;
};

/* A conversation as the flags give it. */
struct input {
    json_t *messages, *tools, *set;
};

static void input_free(struct input *in)
{
    json_decref(in->messages);
    json_decref(in->tools);
    json_decref(in->set);
}

/* Adds NAME=JSON to the variables. */
static int add_variable(const char *word, json_t *set, struct err *e)
{
    const char *eq = strchr(word, '=');
    json_t *v = NULL;
    if (!eq || eq == word)
        return ERR(e, E_ARG, "--set %s: want NAME=JSON, such as enable_thinking=false", word);
    char *name = mem_strndup(word, (size_t)(eq - word));
    int rc = name ? 0 : ERR(e, E_NOMEM, "--set: out of memory");
    if (!rc && json_parse(eq + 1, strlen(eq + 1), name, &v, e)) {
        err_clear(e);
        rc = ERR(e, E_ARG, "--set %s: '%s' is no JSON; a string needs its quotes: '%s=\"%s\"'",
                 name, eq + 1, name, eq + 1);
    }
    if (!rc && json_object_set_new(set, name, v))
        rc = ERR(e, E_NOMEM, "--set %s: out of memory", name);
    mem_free(name);
    return rc;
}

/* arg: a file, or "-" for standard input. */
static int read_json(const char *arg, json_t **out, struct err *e)
{
    struct buf text = BUF_INIT;
    if (strcmp(arg, "-") != 0)
        return json_read_file(arg, FILE_BYTES_MAX, out, e);
    int rc = input_stdin(&text, e);
    if (!rc)
        rc = json_parse(buf_str(&text), text.len, "standard input", out, e);
    buf_free(&text);
    return rc;
}

static int read_input(const struct options *o, struct input *in, struct err *e)
{
    if (!o->messages)
        return ERR(e, E_ARG, "--messages FILE is missing: a JSON list of {\"role\", \"content\"}");
    if (o->tools && strcmp(o->messages, "-") == 0 && strcmp(o->tools, "-") == 0)
        return ERR(e, E_ARG, "--messages and --tools cannot both be standard input");
    in->set = json_object();
    int rc = in->set ? read_json(o->messages, &in->messages, e)
                     : ERR(e, E_NOMEM, "out of memory for template variables");
    if (!rc && o->tools)
        rc = read_json(o->tools, &in->tools, e);
    for (size_t i = 0; i < o->set.n && !rc; i++)
        rc = add_variable(o->set.at[i], in->set, e);
    if (!rc && o->no_generation_prompt &&
        json_object_set_new(in->set, "add_generation_prompt", json_false()))
        rc = ERR(e, E_NOMEM, "out of memory for template variables");
    return rc;
}

/* The tokenizer of a folder or of the store in its packed/. */
static int open_tokenizer(const char *path, struct tokenizer **t, struct err *e)
{
    char *own = file_join(path, "tokenizer.json"), *packed = file_join(path, "packed");
    int rc = own && packed ? 0 : ERR(e, E_NOMEM, "%s: out of memory for a path", path);
    if (!rc && !file_is_dir(path))
        rc = ERR(e, E_ARG, "%s: --ids wants a store or model folder, which has a tokenizer", path);
    if (!rc)
        rc = tokenizer_open(!file_exists(own) && file_is_dir(packed) ? packed : path, t, e);
    mem_free(own);
    mem_free(packed);
    return rc;
}

static int print_ids(const char *path, const struct buf *text, struct err *e)
{
    struct tokenizer *t = NULL;
    struct tokens ids = {0};
    int rc = open_tokenizer(path, &t, e);
    if (!rc)
        rc = tokenizer_encode(t, buf_str(text), text->len, false, &ids, e);
    for (size_t i = 0; i < ids.n && !rc; i++)
        printf("%s%d", i ? "," : "", ids.ids[i]);
    if (!rc) {
        printf("\n");
        log_say(LOG_INFO, "%zu tokens, %zu bytes", ids.n, text->len);
    }
    tokens_free(&ids);
    tokenizer_close(t);
    return rc;
}

static int render(const char *path, const struct input *in, struct buf *out, struct err *e)
{
    struct chat *c;
    int rc = chat_open(path, &c, e);
    if (rc)
        return rc;
    rc = chat_render(c, in->messages, in->tools, in->set, out, e);
    chat_close(c);
    return rc;
}

static int prompt(const char *path, const struct options *o, struct err *e)
{
    struct input in = {0};
    struct buf text = BUF_INIT;
    int rc = read_input(o, &in, e);
    if (!rc)
        rc = render(path, &in, &text, e);
    if (!rc && o->ids) {
        rc = print_ids(path, &text, e);
    } else if (!rc) {
        fwrite(text.data, 1, text.len, stdout);
        log_say(LOG_INFO, "%zu bytes, %zu messages", text.len, json_array_size(in.messages));
    }
    buf_free(&text);
    input_free(&in);
    return rc;
}

static int run(int argc, char **argv, struct err *e)
{
    struct options o = {0};
    const struct flag flags[] = {
        {"messages", FLAG_STRING, &o.messages, "FILE", "the conversation, a JSON list; - is stdin",
         0, 0},
        {"tools", FLAG_STRING, &o.tools, "FILE", "tools offered to the model, a JSON list", 0, 0},
        {"set", FLAG_LIST, &o.set, "NAME=JSON", "a variable of the template; may be repeated", 0,
         0},
        {"no-generation-prompt", FLAG_BOOL, &o.no_generation_prompt, NULL,
         "do not open the assistant's turn", 0, 0},
        {"ids", FLAG_BOOL, &o.ids, NULL, "print token ids instead of text", 0, 0},
        {0}};
    struct flags f = {.command = &cmd_prompt, .flag = flags, .min_args = 1, .max_args = 1};
    int rc = flags_parse(&f, argc, argv, e);
    return rc || f.help ? rc : prompt(f.args[0], &o, e);
}

const struct command cmd_prompt = {"prompt", "STORE|TEMPLATE --messages FILE",
                                   "print what a conversation renders to", run};
