/* The public interface, saves: see api.h, and save_file.h for the bytes. */
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "runner/api.h"
#include "runner/save_file.h"

static int write_save(cherenkov_sequence *s, struct err *e);
static int restore(cherenkov_sequence *s, const void *data, size_t n, const char *where,
                   struct err *e);

int cherenkov_sequence_save_memory(cherenkov_sequence *s, const void **data, size_t *n)
{
    struct err *e = s ? &s->m->err : err_of_thread();
    err_clear(e);
    if (!s || !data || !n)
        return ERR(e, E_ARG, "cherenkov_sequence_save_memory: nothing may be NULL");
    *data = NULL;
    *n = 0;
    if (write_save(s, e))
        return -e->code;
    *data = s->given.data;
    *n = s->given.len;
    return 0;
}

int cherenkov_sequence_restore_memory(cherenkov_sequence *s, const void *data, size_t n)
{
    struct err *e = s ? &s->m->err : err_of_thread();
    err_clear(e);
    if (!s || !data)
        return ERR(e, E_ARG, "cherenkov_sequence_restore_memory: s and data must not be NULL");
    return restore(s, data, n, "a save in memory", e);
}

int cherenkov_sequence_save(cherenkov_sequence *s, const char *path)
{
    struct err *e = s ? &s->m->err : err_of_thread();
    err_clear(e);
    if (!s || !path)
        return ERR(e, E_ARG, "cherenkov_sequence_save: s and path must not be NULL");
    return write_save(s, e) ? -e->code : file_replace(path, s->given.data, s->given.len, e);
}

int cherenkov_sequence_restore(cherenkov_sequence *s, const char *path)
{
    struct err *e = s ? &s->m->err : err_of_thread();
    struct map m;
    err_clear(e);
    if (!s || !path)
        return ERR(e, E_ARG, "cherenkov_sequence_restore: s and path must not be NULL");
    if (map_open(path, &m, e))
        return -e->code;
    int rc = restore(s, m.data, m.size, path, e);
    map_close(&m);
    return rc;
}

static int add_json(const char *text, size_t n, void *buf)
{
    buf_add(buf, text, n);
    return 0;
}

/* Into s->given. */
static int write_parts(cherenkov_sequence *s, const struct buf *messages, const struct buf *state,
                       struct err *e)
{
    const bool chat = s->kind == KIND_CHAT;
    const struct tokens *ids = chat ? &s->chat.ids : &s->ids;
    struct save_file save = {
        .kind = chat ? SAVE_CHAT : SAVE_TEXT,
        .thinking = chat && s->chat.thinking,
        .tokens = {(const char *)ids->ids, ids->n * sizeof *ids->ids},
        .text = {chat ? s->chat.text.data : NULL, chat ? s->chat.text.len : 0},
        .messages = {messages->data, messages->len},
        .state = {state->data, state->len},
    };
    strncat(save.engine, s->m->model->engine->ops->name, sizeof save.engine - 1);
    buf_clear(&s->given);
    save_file_write(&save, &s->given);
    return buf_check(&s->given, e);
}

static int write_save(cherenkov_sequence *s, struct err *e)
{
    struct engine *g = s->m->model->engine;
    struct buf state = BUF_INIT, messages = BUF_INIT;
    if (s->kind == KIND_FRESH)
        return ERR(e, E_ARG, "nothing was fed to this sequence that could be saved");
    if (s->answer && s->kind == KIND_CHAT)
        s->prompted = false; /* its answer ends here */
    int rc = api_end_answer(s, e);
    if (!rc && s->kind == KIND_CHAT)
        rc = json_dump_callback(s->chat.messages, add_json, &messages, JSON_COMPACT)
                 ? ERR(e, E_NOMEM, "no memory to save a chat")
                 : buf_check(&messages, e);
    if (!rc)
        rc = g->ops->save(g, s->seq, &state, e);
    if (!rc)
        rc = write_parts(s, &messages, &state, e);
    buf_free(&messages);
    buf_free(&state);
    return rc;
}

/* What a save becomes, before it takes the place of what the sequence has. */
struct restored {
    enum kind kind;
    struct tokens ids;
    struct conversation chat;
    bool prompted;
};

static void restored_free(struct restored *r)
{
    tokens_free(&r->ids);
    if (r->kind == KIND_CHAT)
        conversation_free(&r->chat);
}

static int read_ids(const struct save_file *save, struct tokens *out, struct err *e)
{
    for (size_t at = 0; at < save->tokens.n; at += sizeof(int32_t)) {
        int32_t id;
        memcpy(&id, save->tokens.data + at, sizeof id);
        if (tokens_push(out, id, e))
            return -e->code;
    }
    return 0;
}

static int read_chat(cherenkov_sequence *s, const struct save_file *save, struct restored *r,
                     struct err *e)
{
    struct conversation *c = &r->chat;
    if (conversation_init(c, s->m->model, s->seq, e))
        return -e->code;
    r->kind = KIND_CHAT;
    json_decref(c->messages);
    c->messages = NULL;
    if (json_parse_own(save->messages.data, save->messages.n, "the messages", &c->messages, e))
        return -e->code;
    if (!json_is_array(c->messages))
        return ERR(e, E_FORMAT, "the messages are no list");
    const size_t n = json_array_size(c->messages);
    const json_t *last = n ? json_array_get(c->messages, n - 1) : NULL;
    const char *role = json_string_value(json_object_get(last, "role"));
    r->prompted = role && strcmp(role, "user") == 0;
    c->thinking = save->thinking;
    buf_add(&c->text, save->text.data, save->text.n);
    c->ids = r->ids;
    r->ids = (struct tokens){0};
    return buf_check(&c->text, e);
}

static int read_parts(cherenkov_sequence *s, const struct save_file *save, struct restored *r,
                      struct err *e)
{
    const char *name = s->m->model->engine->ops->name;
    if (strcmp(save->engine, name) != 0)
        return ERR(e, E_FORMAT, "saved by the engine '%s', and this one is '%s'", save->engine,
                   name);
    if (read_ids(save, &r->ids, e) || model_check_ids(s->m->model, &r->ids, e))
        return -e->code;
    r->kind = KIND_TEXT;
    r->prompted = r->ids.n > 0;
    return save->kind == SAVE_CHAT ? read_chat(s, save, r, e) : 0;
}

/* The engine's part, and that it is about a beginning of the tokens. */
static int restore_state(cherenkov_sequence *s, const struct save_file *save, struct err *e)
{
    struct engine *g = s->m->model->engine;
    if (g->ops->restore(g, s->seq, save->state.data, save->state.n, e))
        return -e->code;
    if ((size_t)g->ops->sequence_length(s->seq) <= save->tokens.n / sizeof(int32_t))
        return 0;
    g->ops->sequence_reset(s->seq); /* the ids are there: what s held is fed again */
    return ERR(e, E_FORMAT, "the state holds more tokens than the save");
}

static void become(cherenkov_sequence *s, const struct restored *r)
{
    tokens_free(&s->ids);
    if (s->kind == KIND_CHAT)
        conversation_free(&s->chat);
    s->kind = r->kind;
    s->ids = r->ids;
    s->chat = r->chat;
    s->prompted = r->prompted;
}

static int restore(cherenkov_sequence *s, const void *data, size_t n, const char *where,
                   struct err *e)
{
    struct save_file save;
    struct restored r = {0};
    if (save_file_parse(data, n, where, &save, e))
        return -e->code;
    if (read_parts(s, &save, &r, e) || api_end_answer(s, e) || restore_state(s, &save, e)) {
        restored_free(&r);
        return err_prefix(e, "%s", where);
    }
    become(s, &r);
    return 0;
}
