/* Thinking, text and calls: see parts.h. */
#include "server/parts.h"

static void on_call(void *ctx, const struct toolcall_event *event)
{
    struct parts *p = ctx;
    p->on.call(p->on.ctx, event);
}

int parts_init(struct parts *p, const struct parts_events *on, const struct toolset *tools,
               bool opened, struct err *e)
{
    *p = (struct parts){.on = *on};
    reasoning_init(&p->reasoning, opened);
    return toolcall_open(&(struct toolcall_options){.tools = tools, .ctx = p, .on_event = on_call},
                         &p->calls, e);
}

void parts_init_raw(struct parts *p, const struct parts_events *on)
{
    *p = (struct parts){.on = *on, .raw = true};
}

void parts_free(struct parts *p)
{
    reasoning_free(&p->reasoning);
    toolcall_close(p->calls);
    buf_free(&p->thinking);
    buf_free(&p->answer);
}

/* What the reasoning has released goes on. */
static int pass_on(struct parts *p, struct err *e)
{
    if (buf_check(&p->thinking, e) || buf_check(&p->answer, e))
        return -e->code;
    if (p->thinking.len)
        p->on.thinking(p->on.ctx, p->thinking.data, p->thinking.len);
    if (p->answer.len && toolcall_push(p->calls, p->answer.data, p->answer.len, e))
        return -e->code;
    buf_clear(&p->thinking);
    buf_clear(&p->answer);
    return 0;
}

int parts_push(struct parts *p, const char *text, size_t len, struct err *e)
{
    if (p->raw) {
        const struct toolcall_event event = {.kind = TOOLCALL_TEXT, .text = text, .len = len};
        p->on.call(p->on.ctx, &event);
        return 0;
    }
    reasoning_push(&p->reasoning, text, len, &p->thinking, &p->answer);
    return pass_on(p, e);
}

void parts_cut(struct parts *p, bool only)
{
    if (p->raw)
        return;
    reasoning_cut(&p->reasoning);
    toolcall_cut(p->calls, only);
}

int parts_finish(struct parts *p, struct err *e)
{
    if (p->raw)
        return 0;
    reasoning_finish(&p->reasoning, &p->thinking, &p->answer);
    return pass_on(p, e) ? -e->code : toolcall_finish(p->calls, e);
}

bool parts_thinking(const struct parts *p)
{
    return !p->raw && p->reasoning.state == REASONING_THINKING;
}
