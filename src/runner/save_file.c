/* Saves as bytes: see save_file.h. */
#include "runner/save_file.h"

#include <string.h>
#include <xxhash.h>

#define MAGIC "cherenkov save1\n"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are written as they are");

struct header {
    char magic[16];
    uint64_t bytes;
    char engine[SAVE_ENGINE_MAX];
    uint32_t kind, thinking;
    uint64_t tokens, text, messages, state;
};
_Static_assert(sizeof(struct header) == 80, "as in save_file.h");
_Static_assert(offsetof(struct header, tokens) == 48, "as in save_file.h");

enum { SUM_BYTES = 8 };

void save_file_write(const struct save_file *s, struct buf *out)
{
    const struct save_bytes *parts[] = {&s->tokens, &s->text, &s->messages, &s->state};
    const size_t start = out->len;
    struct header h = {.magic = MAGIC,
                       .bytes = sizeof h + SUM_BYTES,
                       .kind = s->kind,
                       .thinking = s->thinking,
                       .tokens = s->tokens.n / sizeof(int32_t),
                       .text = s->text.n,
                       .messages = s->messages.n,
                       .state = s->state.n};
    memcpy(h.engine, s->engine, sizeof h.engine);
    for (int i = 0; i < 4; i++)
        h.bytes += parts[i]->n;
    buf_add(out, &h, sizeof h);
    for (int i = 0; i < 4; i++)
        buf_add(out, parts[i]->data, parts[i]->n);
    if (out->failed)
        return;
    const uint64_t sum = XXH3_64bits(out->data + start, out->len - start);
    buf_add(out, &sum, sizeof sum);
}

static bool is_padded(const char *name, size_t room)
{
    const size_t n = strnlen(name, room);
    for (size_t i = n; i < room; i++)
        if (name[i])
            return false;
    return n > 0 && n < room;
}

/* Whether the parts fill what is between header and sum, none of them longer than that. */
static bool fits(const struct header *h, size_t n)
{
    const size_t body = n - sizeof *h - SUM_BYTES;
    return h->tokens <= body / sizeof(int32_t) && h->text <= body && h->messages <= body &&
           h->state <= body &&
           h->tokens * sizeof(int32_t) + h->text + h->messages + h->state == body;
}

static int check(const struct header *h, const char *data, size_t n, const char *where,
                 struct err *e)
{
    uint64_t sum;
    if (h->bytes != n)
        return ERR(e, E_FORMAT, "%s: the save has %llu bytes, here are %zu: it was cut or grew",
                   where, (unsigned long long)h->bytes, n);
    memcpy(&sum, data + n - SUM_BYTES, sizeof sum);
    if (sum != XXH3_64bits(data, n - SUM_BYTES))
        return ERR(e, E_FORMAT, "%s: the save does not match its checksum: it is damaged", where);
    if (!fits(h, n) || !is_padded(h->engine, sizeof h->engine) ||
        (h->kind != SAVE_TEXT && h->kind != SAVE_CHAT) || h->thinking > 1)
        return ERR(e, E_FORMAT, "%s: the save's header makes no sense, although its sum is right",
                   where);
    return 0;
}

int save_file_parse(const void *data, size_t n, const char *where, struct save_file *out,
                    struct err *e)
{
    struct header h;
    if (n < sizeof h + SUM_BYTES || memcmp(data, MAGIC, sizeof h.magic) != 0)
        return ERR(e, E_FORMAT, "%s: this is no save of version 1", where);
    memcpy(&h, data, sizeof h);
    if (check(&h, data, n, where, e))
        return -e->code;
    *out = (struct save_file){.kind = (enum save_kind)h.kind, .thinking = h.thinking};
    memcpy(out->engine, h.engine, sizeof out->engine);
    const size_t sizes[] = {h.tokens * sizeof(int32_t), h.text, h.messages, h.state};
    struct save_bytes *parts[] = {&out->tokens, &out->text, &out->messages, &out->state};
    const char *at = (const char *)data + sizeof h;
    for (int i = 0; i < 4; i++) {
        *parts[i] = (struct save_bytes){at, sizes[i]};
        at += sizes[i];
    }
    return 0;
}
