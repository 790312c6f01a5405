/* A chat as tokens: see conversation.h. */
#include "runner/conversation.h"

#include <string.h>

#include "base/utf8.h"

#define THINK_OPEN  "<think>\n"
#define THINK_CLOSE "</think>"

int conversation_init(struct conversation *c, struct model *m, struct sequence *seq, struct err *e)
{
    *c = (struct conversation){.m = m, .seq = seq};
    if (!m->chat)
        return ERR(e, E_UNSUPPORTED,
                   "%s has no chat template: use `cherenkov run --raw`, or put a "
                   "chat_template.jinja there",
                   m->store->dir);
    c->messages = json_array();
    return c->messages ? 0 : ERR(e, E_NOMEM, "no memory for a conversation");
}

void conversation_free(struct conversation *c)
{
    json_decref(c->messages);
    tokens_free(&c->ids);
    buf_free(&c->text);
}

void conversation_reset(struct conversation *c)
{
    json_array_clear(c->messages);
    c->ids.n = 0;
    buf_clear(&c->text);
    c->m->engine->ops->sequence_reset(c->seq);
}

int conversation_say(struct conversation *c, const char *role, const char *content, size_t len,
                     struct err *e)
{
    const size_t valid = utf8_valid_prefix(content, len);
    if (valid < len)
        return ERR(e, E_FORMAT, "the %s message is not valid UTF-8 at byte %zu (0x%02x)", role,
                   valid, (unsigned char)content[valid]);
    json_t *message = json_pack("{s:s, s:s%}", "role", role, "content", content, len);
    if (!message || json_array_append_new(c->messages, message))
        return ERR(e, E_NOMEM, "no memory for a message of %zu bytes", len);
    return 0;
}

void conversation_unsay(struct conversation *c)
{
    json_array_remove(c->messages, json_array_size(c->messages) - 1);
}

static bool starts_with(const struct buf *text, const struct buf *with)
{
    return with->len && with->len <= text->len && memcmp(text->data, with->data, with->len) == 0;
}

static bool ends_with(const struct buf *text, const char *with)
{
    const size_t n = strlen(with);
    return text->len >= n && memcmp(text->data + text->len - n, with, n) == 0;
}

static int append(struct tokens *to, const struct tokens *from, struct err *e)
{
    for (size_t i = 0; i < from->n; i++)
        if (tokens_push(to, from->ids[i], e))
            return -e->code;
    return 0;
}

/* The ids of a rendering: those known already, as far as its text goes on from theirs. */
static int encode(const struct conversation *c, const struct buf *text, struct tokens *out,
                  struct err *e)
{
    size_t known = 0;
    if (starts_with(text, &c->text)) {
        known = c->text.len;
        if (append(out, &c->ids, e))
            return -e->code;
    }
    return tokenizer_encode(c->m->tokenizer, text->data + known, text->len - known, false, out, e);
}

/* Starts the sequence over unless it holds a beginning of the prompt. */
static void reuse(const struct conversation *c, const struct tokens *prompt)
{
    const struct engine_ops *ops = c->m->engine->ops;
    const size_t held = (size_t)ops->sequence_length(c->seq);
    if (held >= prompt->n || held > c->ids.n ||
        (held && memcmp(c->ids.ids, prompt->ids, held * sizeof *prompt->ids) != 0))
        ops->sequence_reset(c->seq);
}

int conversation_prompt(struct conversation *c, const json_t *set, struct err *e)
{
    struct buf text = BUF_INIT;
    struct tokens prompt = {0};
    int rc = chat_render(c->m->chat, c->messages, NULL, set, &text, e);
    if (!rc && text.len == 0)
        rc =
            ERR(e, E_FORMAT,
                "%s: the chat template renders these messages to nothing (`cherenkov prompt` shows "
                "what it renders): correct it, or use `cherenkov run --raw`",
                c->m->store->dir);
    if (rc || encode(c, &text, &prompt, e)) {
        tokens_free(&prompt);
        buf_free(&text);
        return -e->code;
    }
    if (c->seq)
        reuse(c, &prompt);
    tokens_free(&c->ids);
    buf_free(&c->text);
    c->ids = prompt;
    c->text = text;
    c->thinking = ends_with(&text, THINK_OPEN);
    return 0;
}

/* Takes the reasoning off the front of an answer to a prompt that ends in an open <think>. */
static json_t *answer_message(const struct conversation *c, const char *text, size_t len)
{
    const char *end = text + len, *content = text;
    if (!c->thinking)
        return json_pack("{s:s, s:s%}", "role", "assistant", "content", text, len);
    const char *close = memmem(text, len, THINK_CLOSE, strlen(THINK_CLOSE));
    content = close ? close + strlen(THINK_CLOSE) : end;
    while (content < end && *content == '\n')
        content++;
    const size_t n_reasoning = close ? (size_t)(close - text) : len;
    return json_pack("{s:s, s:s%, s:s%}", "role", "assistant", "reasoning_content", text,
                     n_reasoning, "content", content, (size_t)(end - content));
}

int conversation_answer(struct conversation *c, const struct tokens *ids, const char *text,
                        size_t len, struct err *e)
{
    json_t *message = answer_message(c, text, len);
    int rc = message ? append(&c->ids, ids, e) : ERR(e, E_NOMEM, "no memory for an answer");
    if (!rc)
        rc = tokenizer_decode(c->m->tokenizer, ids->ids, ids->n, false, &c->text, e);
    if (!rc && json_array_append(c->messages, message))
        rc = ERR(e, E_NOMEM, "no memory for an answer");
    if (rc) { /* what the ids say is not known: the next prompt is encoded whole */
        c->ids.n = 0;
        buf_clear(&c->text);
    }
    json_decref(message);
    return rc;
}
