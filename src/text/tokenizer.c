/* Text to ids and back: see tokenizer.h. Loading is in tokenizer_load.c. */
#include "text/tokenizer.h"

#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/detok.h"
#include "text/nfc.h"
#include "text/tokenizer_parts.h"

enum {
    TEXT_MAX = 1 << 30, /* positions within a piece are 32 bits */
    KEY_MAX = 26,       /* longer pieces are rarely seen twice */
    SLOTS_MAX = 1 << 13,
    TEXT_PER_SLOT = 16, /* bytes of text for which a slot is worth making */
    NFC_SHRINKS = 3,    /* form C has at least a third of a text's bytes */
};

/* A piece seen before in this text: its ids are out[at .. at + n) of this call. */
struct slot {
    uint32_t at;
    uint8_t n, len; /* of ids, of key; len 0: empty */
    char key[KEY_MAX];
};

/* What one call of tokenizer_encode works with. */
struct encoder {
    const struct tokenizer *t;
    bool plain;
    struct tokens *out;
    size_t base; /* out->n when the call began */
    size_t most; /* ids of this call: with more it is full, and stops */
    struct pretoken_run run;
    struct bpe_work work;
    struct buf nfc, name;
    struct slot *slots; /* NULL for short texts */
    size_t mask;
};

static int encode_piece(void *ctx, const char *s, size_t n, struct err *e);
static int encode_text(struct encoder *c, const char *s, size_t len, struct err *e);

int tokens_push(struct tokens *t, int32_t id, struct err *e)
{
    if (t->n == t->cap) {
        size_t cap = t->cap + t->cap / 2 + 16;
        int32_t *p = cap < SIZE_MAX / sizeof *p ? mem_realloc(t->ids, cap * sizeof *p) : NULL;
        if (!p)
            return ERR(e, E_NOMEM, "out of memory after %zu tokens", t->n);
        t->ids = p;
        t->cap = cap;
    }
    t->ids[t->n++] = id;
    return 0;
}

void tokens_free(struct tokens *t)
{
    mem_free(t->ids);
    *t = (struct tokens){0};
}

static int encoder_init(struct encoder *c, size_t len, struct err *e)
{
    size_t slots = 1;
    while (slots < SLOTS_MAX && slots < len / TEXT_PER_SLOT)
        slots *= 2;
    c->mask = slots - 1;
    if (slots > 1 && !(c->slots = mem_zalloc(slots, sizeof *c->slots)))
        return ERR(e, E_NOMEM, "out of memory for encoding %zu bytes of text", len);
    return pretoken_run_init(&c->run, &c->t->pretoken, len, encode_piece, c, e);
}

static void encoder_free(struct encoder *c)
{
    pretoken_run_free(&c->run);
    bpe_work_free(&c->work);
    buf_free(&c->nfc);
    buf_free(&c->name);
    mem_free(c->slots);
}

static bool is_full(const struct encoder *c)
{
    return c->out->n - c->base > c->most;
}

static int encode(struct encoder *c, const char *text, size_t len, struct err *e)
{
    if (len > TEXT_MAX)
        return ERR(e, E_LIMIT, "text has %zu bytes, at most %d are encoded at once", len, TEXT_MAX);
    size_t valid = utf8_valid_prefix(text, len);
    if (valid < len)
        return ERR(e, E_FORMAT, "text: byte %zu (0x%02x) is not valid UTF-8", valid,
                   (unsigned char)text[valid]);
    struct err why = {0};
    int rc = len ? encoder_init(c, len, &why) : 0;
    if (len && !rc)
        rc = encode_text(c, text, len, &why);
    encoder_free(c);
    if (is_full(c) || !rc)
        return 0;
    c->out->n = c->base;
    return ERR(e, why.code, "%s", why.msg);
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, bool plain,
                     struct tokens *out, struct err *e)
{
    struct encoder c = {.t = t, .plain = plain, .out = out, .base = out->n, .most = SIZE_MAX};
    return encode(&c, text, len, e);
}

int tokenizer_encode_most(const struct tokenizer *t, const char *text, size_t len, size_t most,
                          struct tokens *out, struct err *e)
{
    struct encoder c = {.t = t, .out = out, .base = out->n, .most = most};
    return encode(&c, text, len, e);
}

/* A piece that is a token by its name. */
static int32_t whole_piece(struct encoder *c, const char *s, size_t n)
{
    const struct vocab *v = &c->t->vocab;
    buf_clear(&c->name);
    for (size_t i = 0; i < n; i++) {
        char u[4];
        buf_add(&c->name, u, (size_t)utf8_put(v->character_of[(unsigned char)s[i]], u));
    }
    return vocab_find(v, buf_str(&c->name), c->name.len);
}

static int merge_piece(struct encoder *c, const char *s, size_t n, struct err *e)
{
    if (c->t->ignore_merges) {
        int32_t id = whole_piece(c, s, n);
        if (c->name.failed)
            return buf_check(&c->name, e);
        if (id >= 0)
            return tokens_push(c->out, id, e);
    }
    return bpe_encode(&c->t->bpe, &c->work, s, n, c->out, e);
}

static int repeat_ids(struct encoder *c, const struct slot *slot, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < slot->n && !rc; i++)
        rc = tokens_push(c->out, c->out->ids[c->base + slot->at + i], e);
    return rc;
}

/* Of n bytes in which a token has at most `longest`: so many that they surely fill what is left. */
static size_t enough_bytes(const struct encoder *c, size_t n, size_t longest)
{
    const size_t left = c->most - (c->out->n - c->base);
    return n / longest > left ? (left + 1) * longest : n;
}

static int encode_piece(void *ctx, const char *s, size_t n, struct err *e)
{
    struct encoder *c = ctx;
    if (is_full(c))
        return ERR(e, E_LIMIT, "the text has more than %zu tokens", c->most); /* ends the search */
    n = enough_bytes(c, n, c->t->longest);
    if (n == 1)
        return tokens_push(c->out, c->t->bpe.byte_id[(unsigned char)*s], e);
    if (n > KEY_MAX || !c->slots)
        return merge_piece(c, s, n, e);
    struct slot *slot = &c->slots[XXH3_64bits(s, n) & c->mask];
    if (slot->len == n && memcmp(slot->key, s, n) == 0)
        return repeat_ids(c, slot, e);
    size_t at = c->out->n - c->base;
    int rc = merge_piece(c, s, n, e);
    slot->at = (uint32_t)at;
    slot->n = (uint8_t)(c->out->n - c->base - at);
    slot->len = (uint8_t)n;
    memcpy(slot->key, s, n);
    return rc;
}

/* Cuts the tokens of a set out of the text; next deals with what is left. */
static int cut_added(struct encoder *c, const struct added *set, const char *s, size_t len,
                     int (*next)(struct encoder *c, const char *s, size_t len, struct err *e),
                     struct err *e)
{
    struct added_hit hit;
    size_t at = 0;
    int rc = 0;
    while (!rc && !c->plain && !is_full(c) && added_find(set, s, len, at, &hit)) {
        rc = next(c, s + at, hit.from - at, e);
        rc = rc ? rc : tokens_push(c->out, hit.id, e);
        at = hit.to;
    }
    return rc ? rc : next(c, s + at, len - at, e);
}

static int split_text(struct encoder *c, const char *s, size_t len, struct err *e)
{
    return pretoken_split(&c->run, s, len, e);
}

/* Of a text that is not normal, what is enough; all of it where added tokens could take blanks. */
static size_t enough_text(const struct encoder *c, const char *s, size_t len)
{
    size_t n = c->t->normalized.n ? len : enough_bytes(c, len, NFC_SHRINKS * c->t->longest);
    while (n < len && ((unsigned char)s[n] & 0xC0) == 0x80)
        n++;
    return n;
}

static int normalize_text(struct encoder *c, const char *s, size_t len, struct err *e)
{
    if (is_full(c))
        return 0;
    if (c->t->nfc && !nfc_is_normal(s, len)) {
        buf_clear(&c->nfc);
        int rc = nfc_put(s, enough_text(c, s, len), &c->nfc, e);
        if (rc)
            return rc;
        s = buf_str(&c->nfc);
        len = c->nfc.len;
    }
    return cut_added(c, &c->t->normalized, s, len, split_text, e);
}

static int encode_text(struct encoder *c, const char *s, size_t len, struct err *e)
{
    return cut_added(c, &c->t->raw, s, len, normalize_text, e);
}

const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *len)
{
    return vocab_bytes(&t->vocab, id, len);
}

int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                     struct buf *out, struct err *e)
{
    struct detok d;
    detok_init(&d, t, skip_special);
    for (size_t i = 0; i < n; i++)
        detok_push(&d, ids[i], out);
    detok_finish(&d, out);
    return buf_check(out, e);
}

int32_t tokenizer_id(const struct tokenizer *t, const char *token)
{
    return vocab_find(&t->vocab, token, strlen(token));
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return vocab_is_special(&t->vocab, id);
}

int32_t tokenizer_count(const struct tokenizer *t)
{
    return t->vocab.n;
}
