/* cherenkov run: one prompt, one answer, streamed. */
#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/os.h"
#include "cli/answer.h"
#include "cli/input.h"
#include "runner/conversation.h"

struct job {
    struct answer_flags answer;
    bool raw;
    struct model *m;
    struct sequence *seq;
    struct buf text;      /* as given */
    struct tokens prompt; /* what is fed */
};

static int check_flags(const struct job *j, struct err *e)
{
    const struct answer_flags *a = &j->answer;
    const char *chat_only = a->system                 ? "system"
                            : a->effort               ? "effort"
                            : a->think || a->no_think ? "think and --no-think"
                                                      : NULL;
    if (j->raw && chat_only)
        return ERR(e, E_ARG, "run: --raw feeds the text as it is, so --%s would have no effect",
                   chat_only);
    return answer_flags_check(a, "run", e);
}

static int read_prompt(const struct flags *f, struct buf *text, struct err *e)
{
    int rc = 0;
    if (f->n_args > 1 && strcmp(f->args[1], "-") != 0)
        buf_puts(text, f->args[1]);
    else if (f->n_args > 1 || !os_is_terminal(0))
        rc = input_stdin(text, e);
    else
        return ERR(e, E_ARG, "run: no prompt: give one, or pipe one in; `cherenkov chat %s` asks",
                   f->args[0]);
    if (!rc && text->len == 0)
        rc = ERR(e, E_ARG, "run: the prompt is empty");
    return rc ? rc : buf_check(text, e);
}

/* The messages as the model's template renders them, thinking off unless asked for. */
static int render(struct job *j, struct err *e)
{
    const char *system = j->answer.system;
    struct conversation c;
    json_t *set = NULL;
    int rc = conversation_init(&c, j->m, j->seq, e);
    if (!rc && system)
        rc = conversation_say(&c, "system", system, strlen(system), e);
    if (!rc)
        rc = conversation_say(&c, "user", j->text.data, j->text.len, e);
    if (!rc)
        rc = answer_variables(&j->answer, &set, e);
    if (!rc)
        rc = conversation_prompt(&c, set, e);
    if (!rc) {
        j->prompt = c.ids;
        c.ids = (struct tokens){0};
    }
    json_decref(set);
    conversation_free(&c);
    return rc;
}

static int answer(struct job *j, struct err *e)
{
    struct generate_options o;
    struct generate_result r = {0};
    if (answer_options(&j->answer, j->m, &o, e))
        return -e->code;
    int rc = generate(j->m, j->seq, &j->prompt, &o, &r, e);
    if (!rc &&
        ((r.finish == FINISH_INTERRUPTED && !interrupt_asked()) || answer_print(NULL, "\n", 1)))
        rc = err_sys(e, "writing to standard output failed");
    if (!rc) {
        answer_figures(j->m, &r, &o);
        if (r.finish == FINISH_INTERRUPTED)
            rc = interrupt_check(e);
    }
    tokens_free(&r.ids);
    return rc;
}

static int open_and_answer(struct job *j, const char *path, struct err *e)
{
    struct model_options mo;
    if (answer_model_options(&j->answer, "run", &mo, e) || model_open(path, &mo, &j->m, e))
        return -e->code;
    const struct engine_ops *ops = j->m->engine->ops;
    model_flags_say_opening(j->m);
    int rc =
        j->raw ? tokenizer_encode(j->m->tokenizer, j->text.data, j->text.len, false, &j->prompt, e)
               : render(j, e);
    if (!rc)
        rc = generation_check(j->m, &j->prompt, e);
    if (!rc)
        rc = ops->sequence_open(j->m->engine, j->m->ctx, &j->seq, e);
    if (!rc)
        rc = answer(j, e);
    if (j->seq)
        ops->sequence_close(j->seq);
    model_close(j->m);
    return rc;
}

static int run(int argc, char **argv, struct err *e)
{
    struct job j = {0};
    struct flag flag[ANSWER_FLAGS + 2] = {[ANSWER_FLAGS] = {"raw", FLAG_BOOL, &j.raw, NULL,
                                                            "feed the text as it is, no template",
                                                            0, 0}};
    struct flags f = {.command = &cmd_run, .flag = flag, .min_args = 1, .max_args = 2};
    answer_flags_init(&j.answer, flag);
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    rc = check_flags(&j, e);
    if (!rc)
        rc = read_prompt(&f, &j.text, e);
    interrupt_catch();
    if (!rc)
        rc = open_and_answer(&j, f.args[0], e);
    tokens_free(&j.prompt);
    buf_free(&j.text);
    return rc;
}

const struct command cmd_run = {"run", "STORE [PROMPT | -]", "answer one prompt", run};
