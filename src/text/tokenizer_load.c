/* Loading a tokenizer: see tokenizer.h for what is read and what is refused. */
#include "text/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/nfc.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_parts.h"

enum { FILE_MAX = 1 << 28, BYTE_TOKENS = 256, PLACE_ROOM = 400 };

struct loader {
    struct tokenizer *t;
    const char *where;
    struct tokenizer_json json;
    struct buf room;     /* for the name a merge makes */
    int32_t next_merged; /* what the next merge makes, probably: vocabularies list them in order */
};

static int load(struct loader *l, struct err *e);

int tokenizer_open(const char *path, struct tokenizer **out, struct err *e)
{
    struct map map;
    char *file = file_is_dir(path) ? file_join(path, "tokenizer.json") : mem_strdup(path);
    *out = NULL;
    if (!file)
        return ERR(e, E_NOMEM, "%s: out of memory", path);
    int rc = map_open(file, &map, e);
    if (!rc) {
        rc = map.size > FILE_MAX
                 ? ERR(e, E_LIMIT, "%s: has %zu bytes, at most %d are read", file, map.size,
                       FILE_MAX)
                 : tokenizer_parse(map.data ? (const char *)map.data : "", map.size, file, out, e);
        map_close(&map);
    }
    mem_free(file);
    return rc;
}

int tokenizer_parse(const char *json, size_t len, const char *where, struct tokenizer **out,
                    struct err *e)
{
    struct loader l = {.where = where, .room = BUF_INIT};
    size_t valid = utf8_valid_prefix(json, len);
    *out = NULL;
    if (valid < len)
        return ERR(e, E_FORMAT, "%s: byte %zu (0x%02x) is not valid UTF-8", where, valid,
                   (unsigned char)json[valid]);
    l.t = mem_zalloc(1, sizeof *l.t);
    if (!l.t)
        return ERR(e, E_NOMEM, "%s: out of memory", where);
    vocab_init(&l.t->vocab);
    bpe_init(&l.t->bpe);
    int rc = tokenizer_json_read(json, len, where, &l.json, e);
    if (!rc) {
        rc = load(&l, e);
        tokenizer_json_free(&l.json);
    }
    buf_free(&l.room);
    if (rc) {
        tokenizer_close(l.t);
        return rc;
    }
    *out = l.t;
    return 0;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    added_free(&t->raw);
    added_free(&t->normalized);
    pretoken_free(&t->pretoken);
    bpe_free(&t->bpe);
    vocab_free(&t->vocab);
    mem_free(t);
}

/* "tokenizer.json: model", shortened if need be. */
static const char *place(const struct loader *l, const char *what, char room[PLACE_ROOM])
{
    snprintf(room, PLACE_ROOM, "%.300s: %s", l->where, what);
    return room;
}

static int add_token(void *ctx, const char *name, size_t n, int64_t id, struct err *e)
{
    struct loader *l = ctx;
    return vocab_add(&l->t->vocab, name, n, id, VOCAB_MODEL, e);
}

static int find_part(struct loader *l, const char *s, size_t n, int32_t guess, int32_t *id,
                     struct err *e)
{
    *id = vocab_find_near(&l->t->vocab, s, n, guess);
    if (*id >= 0)
        return 0;
    return ERR(e, E_FORMAT, "merge number %u: \"%.*s\" is not in the vocabulary", l->t->bpe.n,
               n < 60 ? (int)n : 60, s);
}

static int add_merge(void *ctx, const char *left, size_t left_n, const char *right, size_t right_n,
                     struct err *e)
{
    struct loader *l = ctx;
    int32_t a, b, ab;
    size_t n = left_n + right_n;
    buf_clear(&l->room);
    buf_add(&l->room, left, left_n);
    buf_add(&l->room, right, right_n);
    int rc = buf_check(&l->room, e);
    rc = rc ? rc : find_part(l, left, left_n, -1, &a, e);
    rc = rc ? rc : find_part(l, right, right_n, -1, &b, e);
    rc = rc ? rc : find_part(l, buf_str(&l->room), n, l->next_merged, &ab, e);
    if (rc)
        return rc;
    l->next_merged = ab + 1;
    return bpe_add(&l->t->bpe, a, b, ab, e);
}

/* Every byte needs its token: then no text is without ids. */
static int find_bytes(struct loader *l, struct err *e)
{
    for (int byte = 0; byte < BYTE_TOKENS; byte++) {
        char s[4];
        int n = utf8_put(l->t->vocab.character_of[byte], s);
        int32_t id = vocab_find(&l->t->vocab, s, (size_t)n);
        if (id < 0)
            return ERR(e, E_FORMAT,
                       "%s: model.vocab: no token \"%.*s\" for byte 0x%02x: this is no byte-level "
                       "vocabulary",
                       l->where, n, s, (unsigned)byte);
        l->t->bpe.byte_id[byte] = id;
    }
    return 0;
}

/* A text that must be absent, null or empty. */
static int want_empty(const json_t *obj, const char *where, const char *key, struct err *e)
{
    const char *s = "";
    int rc = json_field_str(obj, where, key, false, &s, e);
    if (!rc && s[0])
        rc = ERR(e, E_UNSUPPORTED, "%s.%s: \"%s\" is not supported, only an empty one is", where,
                 key, s);
    return rc;
}

static int check_model(struct loader *l, const json_t *model, const char *where, struct err *e)
{
    const char *type = "BPE";
    double dropout = 0;
    json_t *vocab, *merges;
    int rc = json_field_str(model, where, "type", false, &type, e);
    if (!rc && strcmp(type, "BPE") != 0)
        rc =
            ERR(e, E_UNSUPPORTED, "%s.type: \"%s\" is not supported, only \"BPE\" is", where, type);
    rc = rc ? rc : json_field_real(model, where, "dropout", false, 0, 1, &dropout, e);
    if (!rc && dropout != 0)
        rc = ERR(e, E_UNSUPPORTED, "%s.dropout: %g is not supported, only 0 is", where, dropout);
    rc = rc ? rc : want_empty(model, where, "continuing_subword_prefix", e);
    rc = rc ? rc : want_empty(model, where, "end_of_word_suffix", e);
    rc = rc ? rc : json_field_bool(model, where, "ignore_merges", false, &l->t->ignore_merges, e);
    rc = rc ? rc : json_field_obj(model, where, "vocab", true, &vocab, e);
    rc = rc ? rc : json_field_arr(model, where, "merges", true, &merges, e);
    return rc;
}

/* Makes room at once: growing by and by would move everything several times. */
static int reserve(struct loader *l, struct err *e)
{
    const struct json_part *vocab = &l->json.vocab, *merges = &l->json.merges;
    const size_t most = VOCAB_ID_MAX + 1; /* a broken file may claim more */
    size_t n_tokens = vocab->entries < most ? vocab->entries : most;
    size_t n_merges = merges->entries < most ? merges->entries : most;
    int rc = vocab_reserve(&l->t->vocab, n_tokens, vocab->n, e);
    return rc ? rc : bpe_reserve(&l->t->bpe, n_merges, e);
}

static int load_model(struct loader *l, struct err *e)
{
    char where[PLACE_ROOM], room[PLACE_ROOM];
    json_t *model = NULL;
    int rc = json_field_obj(l->json.rest, l->where, "model", true, &model, e);
    place(l, "model", where);
    rc = rc ? rc : check_model(l, model, where, e);
    rc = rc ? rc : reserve(l, e);
    rc = rc ? rc : tokenizer_json_vocab(&l->json, place(l, "model.vocab", room), add_token, l, e);
    rc = rc ? rc : find_bytes(l, e);
    rc = rc ? rc : tokenizer_json_merges(&l->json, place(l, "model.merges", room), add_merge, l, e);
    if (!rc && !l->t->bpe.n && !l->t->ignore_merges && l->t->vocab.n_names > BYTE_TOKENS)
        rc = ERR(e, E_FORMAT, "%s.merges: is empty, but only merges lead to %zu of the tokens",
                 where, l->t->vocab.n_names - BYTE_TOKENS);
    return rc;
}

/* One step of a chain: its type must be `want`, or a Sequence of such. *n counts them. */
static int want_type(const json_t *step, const char *where, const char *list, const char *want,
                     int *n, struct err *e)
{
    const char *type = "";
    json_t *steps = NULL;
    int rc = json_field_str(step, where, "type", true, &type, e);
    if (rc)
        return rc;
    if (strcmp(type, want) == 0) {
        ++*n;
        return 0;
    }
    if (!list || strcmp(type, "Sequence") != 0)
        return ERR(e, E_UNSUPPORTED, "%s: type \"%s\" is not supported, only \"%s\" is", where,
                   type, want);
    rc = json_field_arr(step, where, list, true, &steps, e);
    for (size_t i = 0; !rc && i < json_array_size(steps); i++)
        rc = want_type(json_array_get(steps, i), where, NULL, want, n, e);
    return rc;
}

static int load_normalizer(struct loader *l, struct err *e)
{
    char where[PLACE_ROOM];
    json_t *step = NULL;
    int n = 0, rc = json_field_obj(l->json.rest, l->where, "normalizer", false, &step, e);
    if (!rc && step)
        rc = want_type(step, place(l, "normalizer", where), "normalizers", "NFC", &n, e);
    l->t->nfc = n > 0;
    return rc;
}

static int check_decoder(struct loader *l, struct err *e)
{
    char where[PLACE_ROOM];
    json_t *step = NULL;
    int n = 0, rc = json_field_obj(l->json.rest, l->where, "decoder", true, &step, e);
    rc = rc ? rc : want_type(step, place(l, "decoder", where), "decoders", "ByteLevel", &n, e);
    if (!rc && n != 1)
        rc = ERR(e, E_UNSUPPORTED, "%s: want one \"ByteLevel\", found %d", where, n);
    return rc;
}

static int load_pretoken(struct loader *l, struct err *e)
{
    char where[PLACE_ROOM];
    json_t *spec = NULL;
    int rc = json_field_obj(l->json.rest, l->where, "pre_tokenizer", true, &spec, e);
    return rc ? rc : pretoken_init(&l->t->pretoken, spec, place(l, "pre_tokenizer", where), e);
}

struct added_flags {
    bool special, single_word, lstrip, rstrip, normalized;
};

static int read_flags(const json_t *a, const char *where, struct added_flags *f, struct err *e)
{
    const struct {
        const char *key;
        bool *to;
    } keys[] = {{"special", &f->special},
                {"single_word", &f->single_word},
                {"lstrip", &f->lstrip},
                {"rstrip", &f->rstrip},
                {"normalized", &f->normalized}};
    int rc = 0;
    *f = (struct added_flags){0};
    for (size_t i = 0; !rc && i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i].to == &f->normalized)
            f->normalized = !f->special; /* what the format means when it is absent */
        rc = json_field_bool(a, where, keys[i].key, false, keys[i].to, e);
    }
    if (!rc && f->single_word)
        rc = ERR(e, E_UNSUPPORTED, "%s.single_word: true is not supported", where);
    return rc;
}

static int load_added_one(struct loader *l, const json_t *a, const char *where, struct err *e)
{
    const char *content = "";
    int64_t id = 0;
    struct added_flags f;
    int rc = json_field_int(a, where, "id", true, 0, VOCAB_ID_MAX, &id, e);
    rc = rc ? rc : json_field_str(a, where, "content", true, &content, e);
    rc = rc ? rc : read_flags(a, where, &f, e);
    if (rc)
        return rc;
    enum vocab_kind kind = f.special ? VOCAB_SPECIAL : VOCAB_ADDED;
    struct added *set = f.normalized ? &l->t->normalized : &l->t->raw;
    buf_clear(&l->room);
    if (f.normalized && l->t->nfc)
        rc = nfc_put(content, strlen(content), &l->room, e);
    else
        buf_puts(&l->room, content);
    rc = rc ? rc : buf_check(&l->room, e);
    rc = rc ? rc : vocab_add(&l->t->vocab, content, strlen(content), id, kind, e);
    const struct added_token token = {(int32_t)id, f.lstrip, f.rstrip};
    rc = rc ? rc : added_put(set, buf_str(&l->room), l->room.len, token, e);
    return rc ? err_prefix(e, "%s", where) : 0;
}

static int load_added(struct loader *l, struct err *e)
{
    json_t *list = NULL;
    int rc = json_field_arr(l->json.rest, l->where, "added_tokens", false, &list, e);
    for (size_t i = 0; !rc && i < json_array_size(list); i++) {
        char where[PLACE_ROOM];
        snprintf(where, sizeof where, "%.300s: added_tokens[%zu]", l->where, i);
        rc = load_added_one(l, json_array_get(list, i), where, e);
    }
    return rc;
}

static size_t longest_token(const struct vocab *v)
{
    size_t longest = 1;
    for (int32_t i = 0; i < v->n; i++)
        longest = v->tokens[i].bytes_len > longest ? v->tokens[i].bytes_len : longest;
    return longest;
}

static int load(struct loader *l, struct err *e)
{
    int rc = load_model(l, e);
    rc = rc ? rc : load_normalizer(l, e);
    rc = rc ? rc : load_pretoken(l, e);
    rc = rc ? rc : check_decoder(l, e);
    rc = rc ? rc : load_added(l, e);
    l->t->longest = longest_token(&l->t->vocab);
    return rc;
}
