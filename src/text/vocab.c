/* The vocabulary: see vocab.h. */
#include "text/vocab.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/utf8.h"

enum { PLACES_MIN = 1024 };

static bool stands_for_itself(int byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

void vocab_init(struct vocab *v)
{
    uint16_t other = 0x100;
    *v = (struct vocab){0};
    memset(v->byte_of, 0xFF, sizeof v->byte_of);
    for (int byte = 0; byte < 256; byte++) {
        v->character_of[byte] = stands_for_itself(byte) ? (uint16_t)byte : other++;
        v->byte_of[v->character_of[byte]] = (int16_t)byte;
    }
}

void vocab_free(struct vocab *v)
{
    mem_free(v->tokens);
    mem_free(v->places);
    buf_free(&v->text);
    *v = (struct vocab){0};
}

/* The place of a name, or the empty one where it would be. There is always an empty one. */
static int32_t *place_of(const struct vocab *v, const char *name, size_t n)
{
    size_t i = (size_t)XXH3_64bits(name, n) & v->mask;
    for (; v->places[i] >= 0; i = (i + 1) & v->mask) {
        const struct vocab_token *t = &v->tokens[v->places[i]];
        if (t->name_len == n && memcmp(v->text.data + t->name, name, n) == 0)
            break;
    }
    return &v->places[i];
}

int32_t vocab_find(const struct vocab *v, const char *name, size_t n)
{
    return v->places && n ? *place_of(v, name, n) : -1;
}

int32_t vocab_find_near(const struct vocab *v, const char *name, size_t n, int32_t guess)
{
    size_t len;
    const char *s = vocab_name(v, guess, &len);
    return s && len == n && memcmp(s, name, n) == 0 ? guess : vocab_find(v, name, n);
}

/* Room for more names, at most half of the places used. */
static int reserve_places(struct vocab *v, size_t more, struct err *e)
{
    size_t n = v->places ? v->mask + 1 : 0, want = n ? n : PLACES_MIN;
    if (2 * (v->n_names + more) <= n)
        return 0;
    while (want < 2 * (v->n_names + more))
        want *= 2;
    int32_t *old = v->places, *places = mem_array(want, sizeof *places);
    if (!places)
        return ERR(e, E_NOMEM, "out of memory for a vocabulary of %zu tokens", v->n_names);
    memset(places, 0xFF, want * sizeof *places);
    v->places = places;
    v->mask = want - 1;
    for (size_t i = 0; i < n; i++)
        if (old[i] >= 0) {
            const struct vocab_token *t = &v->tokens[old[i]];
            *place_of(v, v->text.data + t->name, t->name_len) = old[i];
        }
    mem_free(old);
    return 0;
}

/* Room for ids below end. */
static int reserve_ids(struct vocab *v, size_t end, struct err *e)
{
    if (end <= v->cap)
        return 0;
    size_t cap = v->cap + v->cap / 2 > end ? v->cap + v->cap / 2 : end;
    struct vocab_token *t = mem_realloc(v->tokens, cap * sizeof *t);
    if (!t)
        return ERR(e, E_NOMEM, "out of memory for a vocabulary of %zu ids", end);
    memset(t + v->cap, 0, (cap - v->cap) * sizeof *t);
    v->tokens = t;
    v->cap = cap;
    return 0;
}

int vocab_reserve(struct vocab *v, size_t n, size_t text_bytes, struct err *e)
{
    int rc = reserve_places(v, n, e);
    rc = rc ? rc : reserve_ids(v, n, e);
    buf_reserve(&v->text, text_bytes);
    return rc ? rc : buf_check(&v->text, e);
}

/* Decodes a name through the alphabet, appending its bytes; false, appending nothing, if a
 * character is outside it. */
static bool put_bytes(struct vocab *v, const char *name, size_t n)
{
    char *to = buf_reserve(&v->text, n);
    size_t k = 0;
    for (size_t i = 0; to && i < n; k++) {
        uint32_t cp = 0;
        i += (size_t)utf8_decode(name + i, n - i, &cp);
        if (cp >= VOCAB_ALPHABET_END || v->byte_of[cp] < 0)
            return false;
        to[k] = (char)v->byte_of[cp];
    }
    v->text.len += k;
    return true;
}

static int conflict(const struct vocab *v, const char *name, size_t n, int64_t id, struct err *e)
{
    int32_t other = vocab_find(v, name, n);
    int shown = n < 60 ? (int)n : 60;
    if (id < 0 || id > VOCAB_ID_MAX)
        return ERR(e, E_FORMAT, "token \"%.*s\" has id %" PRId64 ", want 0 to %d", shown, name, id,
                   VOCAB_ID_MAX);
    if (!n)
        return ERR(e, E_FORMAT, "the token with id %" PRId64 " is empty", id);
    if (other >= 0)
        return ERR(e, E_FORMAT, "token \"%.*s\" is there twice, with ids %d and %" PRId64, shown,
                   name, other, id);
    const struct vocab_token *t = &v->tokens[id];
    return ERR(e, E_FORMAT, "id %" PRId64 " has two tokens, \"%.*s\" and \"%.*s\"", id,
               (int)(t->name_len < 60 ? t->name_len : 60), v->text.data + t->name, shown, name);
}

int vocab_add(struct vocab *v, const char *name, size_t n, int64_t id, enum vocab_kind kind,
              struct err *e)
{
    int32_t known = vocab_find(v, name, n);
    bool in_range = id >= 0 && id <= VOCAB_ID_MAX;
    if (kind != VOCAB_MODEL && known >= 0 && known == id) {
        v->tokens[id].special = kind == VOCAB_SPECIAL;
        return 0;
    }
    if (!n || n > UINT32_MAX || !in_range || known >= 0 || (id < v->n && v->tokens[id].used))
        return conflict(v, name, n, id, e);
    int rc = reserve_places(v, 1, e);
    rc = rc ? rc : reserve_ids(v, (size_t)id + 1, e);
    if (rc)
        return rc;
    struct vocab_token t = {.name = v->text.len, .name_len = (uint32_t)n, .used = true};
    buf_add(&v->text, name, n);
    t.bytes = v->text.len;
    if (kind != VOCAB_MODEL || !put_bytes(v, name, n))
        t.bytes = t.name;
    t.bytes_len = (uint32_t)(t.bytes == t.name ? n : v->text.len - t.bytes);
    t.special = kind == VOCAB_SPECIAL;
    if ((rc = buf_check(&v->text, e)))
        return rc;
    *place_of(v, name, n) = (int32_t)id;
    v->tokens[id] = t;
    v->n_names++;
    v->n = id < v->n ? v->n : (int32_t)id + 1;
    return 0;
}

static const struct vocab_token *token_at(const struct vocab *v, int32_t id)
{
    static const struct vocab_token none;
    return id >= 0 && id < v->n ? &v->tokens[id] : &none;
}

const char *vocab_name(const struct vocab *v, int32_t id, size_t *n)
{
    const struct vocab_token *t = token_at(v, id);
    *n = t->name_len;
    return t->used ? v->text.data + t->name : NULL;
}

const char *vocab_bytes(const struct vocab *v, int32_t id, size_t *n)
{
    const struct vocab_token *t = token_at(v, id);
    *n = t->bytes_len;
    return t->used ? v->text.data + t->bytes : NULL;
}

bool vocab_is_special(const struct vocab *v, int32_t id)
{
    return token_at(v, id)->special;
}
