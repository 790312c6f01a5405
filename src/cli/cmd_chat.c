/* cherenkov chat: a conversation at the terminal, or over a pipe, a line a message. Ctrl-C stops an
 * answer, not the program; Ctrl-D ends it, and so does a terminal that goes away. */
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "cli/answer.h"
#include "cli/line.h"
#include "runner/conversation.h"

struct chat {
    struct answer_flags answer;
    struct model *m;
    struct sequence *seq;
    struct conversation talk;
    struct line *line;
    struct buf system, text; /* system message in force; answer as shown */
    struct generate_options o;
    struct generate_result total; /* of all turns; ids unused */
    bool terminal, quit;
};

/* --- commands: a line that starts with a slash --- */

static int do_help(struct chat *c, const char *rest, struct err *e);

static int do_quit(struct chat *c, const char *rest, struct err *e)
{
    (void)rest, (void)e;
    c->quit = true;
    return 0;
}

static int do_reset(struct chat *c, const char *rest, struct err *e)
{
    (void)rest;
    conversation_reset(&c->talk);
    return c->system.len ? conversation_say(&c->talk, "system", c->system.data, c->system.len, e)
                         : 0;
}

static int do_system(struct chat *c, const char *rest, struct err *e)
{
    buf_clear(&c->system);
    buf_puts(&c->system, rest);
    return buf_check(&c->system, e) ? -e->code : do_reset(c, rest, e);
}

static int do_think(struct chat *c, const char *rest, struct err *e)
{
    if (strcmp(rest, "on") && strcmp(rest, "off"))
        return ERR(e, E_ARG, "/think wants on or off");
    c->answer.think = strcmp(rest, "on") == 0;
    if (!c->answer.think)
        c->answer.effort = NULL;
    return 0;
}

static int do_save(struct chat *c, const char *rest, struct err *e)
{
    if (!*rest)
        return ERR(e, E_ARG, "/save wants the name of a file");
    char *json = json_dumps(c->talk.messages, JSON_INDENT(2));
    if (!json)
        return ERR(e, E_NOMEM, "no memory to save the conversation");
    int rc = file_replace(rest, json, strlen(json), e);
    free(json);
    if (!rc)
        log_say(LOG_INFO, "%zu messages saved in %s", json_array_size(c->talk.messages), rest);
    return rc;
}

static const struct {
    const char *name, *args, *help;
    int (*run)(struct chat *c, const char *rest, struct err *e);
} commands[] = {
    {"help", "", "this list", do_help},
    {"reset", "", "forget the conversation", do_reset},
    {"system", "TEXT", "start over with this system message (without TEXT: none)", do_system},
    {"think", "on|off", "let the model think before it answers", do_think},
    {"save", "FILE", "write the messages as JSON", do_save},
    {"quit", "", "end, like Ctrl-D", do_quit},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static int do_help(struct chat *c, const char *rest, struct err *e)
{
    (void)c, (void)rest, (void)e;
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(stderr, "  /%-6s %-7s %s\n", commands[i].name, commands[i].args, commands[i].help);
    fprintf(stderr, "A message that starts with a slash: put a blank in front. Ctrl-C stops an "
                    "answer.\n");
    return 0;
}

static int command(struct chat *c, const char *line, struct err *e)
{
    const char *names[N_COMMANDS];
    char word[32];
    const size_t n = strcspn(line, " ");
    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), line);
    const char *rest = line + n + strspn(line + n, " ");
    for (int i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i].name;
        if (strcmp(word, names[i]) == 0)
            return commands[i].run(c, rest, e);
    }
    const char *near = flags_nearest(word, names, N_COMMANDS);
    return ERR(e, E_ARG, "there is no command /%s%s%s%s; /help lists them", word,
               near ? ", did you mean /" : "", near ? near : "", near ? "?" : "");
}

/* --- messages --- */

static int on_text(void *ctx, const char *text, size_t len)
{
    struct chat *c = ctx;
    buf_add(&c->text, text, len);
    return answer_print(NULL, text, len);
}

static void add_up(struct generate_result *total, const struct generate_result *r)
{
    total->finish = r->finish;
    total->n_prompt += r->n_prompt;
    total->n_cached += r->n_cached;
    total->n_generated += r->n_generated;
    total->n_drafted += r->n_drafted;
    total->n_accepted += r->n_accepted;
    total->n_steps += r->n_steps;
    total->prefill_s += r->prefill_s;
    total->decode_s += r->decode_s;
    total->logits_hash = r->logits_hash;
}

static int answer(struct chat *c, struct err *e)
{
    struct generate_result r = {0};
    buf_clear(&c->text);
    interrupt_set(false);
    if (generate(c->m, c->seq, &c->talk.ids, &c->o, &r, e))
        return -e->code;
    add_up(&c->total, &r);
    int rc = answer_print(NULL, "\n", 1);
    if (rc || (r.finish == FINISH_INTERRUPTED && !interrupt_asked()))
        rc = err_sys(e, "writing to standard output failed");
    if (!rc)
        rc = buf_check(&c->text, e);
    if (!rc)
        rc = conversation_answer(&c->talk, &r.ids, buf_str(&c->text), c->text.len, e);
    if (!rc && c->talk.ids.n >= (size_t)c->m->ctx)
        log_say(LOG_INFO, "the context of %d tokens is full; /reset starts over", c->m->ctx);
    tokens_free(&r.ids);
    return rc;
}

static int message(struct chat *c, const struct buf *line, struct err *e)
{
    json_t *set = NULL;
    if (conversation_say(&c->talk, "user", line->data, line->len, e))
        return -e->code;
    int rc = answer_variables(&c->answer, &set, e);
    if (!rc)
        rc = conversation_prompt(&c->talk, set, e);
    if (!rc)
        rc = generation_check(c->m, &c->talk.ids, e);
    json_decref(set);
    if (rc) {
        conversation_unsay(&c->talk);
        return rc;
    }
    rc = answer(c, e);
    if (rc) { /* nobody knows how far it came: the next turn feeds all again */
        conversation_unsay(&c->talk);
        c->m->engine->ops->sequence_reset(c->seq);
    }
    return rc;
}

/* At a terminal a failure is told and the conversation goes on. */
static int turn(struct chat *c, const struct buf *line, struct err *e)
{
    const char *text = buf_str(line);
    if (text[strspn(text, " \t")] == '\0')
        return 0;
    int rc = *text == '/' ? command(c, text + 1, e) : message(c, line, e);
    if (rc && c->terminal) {
        log_say(LOG_ERROR, "%s", e->msg);
        err_clear(e);
        rc = 0;
    }
    return rc;
}

static int talk(struct chat *c, struct err *e)
{
    struct buf line = BUF_INIT;
    enum line_event event = LINE_READ;
    int rc = 0;
    interrupt_catch_always();
    while (!rc && !c->quit && event != LINE_END && !interrupt_final()) {
        interrupt_set(false);
        rc = line_read(c->line, &line, &event, e);
        if (!rc && event == LINE_READ)
            rc = turn(c, &line, e);
    }
    buf_free(&line);
    return !rc && !c->quit ? interrupt_check(e) : rc;
}

/* --- the command --- */

static int open_all(struct chat *c, const char *path, struct err *e)
{
    struct model_options mo;
    char *history = env_get(ENV_HOME) ? file_join(env_get(ENV_HOME), ".cherenkov_history") : NULL;
    int rc = answer_model_options(&c->answer, "chat", &mo, e);
    if (!rc)
        rc = model_open(path, &mo, &c->m, e);
    if (!rc)
        rc = c->m->engine->ops->sequence_open(c->m->engine, c->m->ctx, &c->seq, e);
    if (!rc)
        rc = conversation_init(&c->talk, c->m, c->seq, e);
    if (!rc)
        rc = answer_options(&c->answer, c->m, &c->o, e);
    if (!rc)
        rc = line_open(history, &c->line, e);
    if (!rc)
        model_flags_say_opening(c->m);
    c->o.on_text = on_text;
    c->o.ctx = c;
    c->terminal = os_is_terminal(0);
    mem_free(history);
    return rc ? rc : do_system(c, c->answer.system ? c->answer.system : "", e);
}

static void close_all(struct chat *c)
{
    line_close(c->line);
    conversation_free(&c->talk);
    buf_free(&c->system);
    buf_free(&c->text);
    if (c->seq)
        c->m->engine->ops->sequence_close(c->seq);
    model_close(c->m);
}

static int run(int argc, char **argv, struct err *e)
{
    struct chat c = {0};
    struct flag flag[ANSWER_FLAGS + 1] = {{0}};
    struct flags f = {.command = &cmd_chat, .flag = flag, .min_args = 1, .max_args = 1};
    answer_flags_init(&c.answer, flag);
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    rc = answer_flags_check(&c.answer, "chat", e);
    interrupt_catch();
    if (!rc)
        rc = open_all(&c, f.args[0], e);
    if (!rc)
        rc = interrupt_check(e);
    if (!rc && c.terminal)
        log_say(LOG_INFO, "/help lists the commands, Ctrl-D ends");
    if (!rc)
        rc = talk(&c, e);
    if (c.m && c.total.n_prompt)
        answer_figures(c.m, &c.total, &c.o);
    close_all(&c);
    return rc;
}

const struct command cmd_chat = {"chat", "STORE", "talk with a model", run};
