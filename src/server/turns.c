/* Turns as text and ids: see turns.h. */
#include "server/turns.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

enum { TURNS_MAX = 64, TURNS_BYTES_MAX = 16 << 20 };

struct entry {
    struct buf text;
    struct tokens ids;
    uint64_t used;
};

struct turns {
    const struct tokenizer *tokenizer;
    pthread_mutex_t lock; /* of all below */
    struct entry entries[TURNS_MAX];
    int n;
    uint64_t bytes, n_uses;
};

int turns_open(const struct tokenizer *t, struct turns **out, struct err *e)
{
    struct turns *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return ERR(e, E_NOMEM, "no memory for what was said");
    s->tokenizer = t;
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return 0;
}

static void entry_free(struct entry *x)
{
    buf_free(&x->text);
    tokens_free(&x->ids);
}

void turns_close(struct turns *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n; i++)
        entry_free(&s->entries[i]);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

static uint64_t entry_bytes(const struct entry *x)
{
    return x->text.len + x->ids.n * sizeof *x->ids.ids;
}

/* The lock is held from here on. */
static void forget(struct turns *s, int i)
{
    s->bytes -= entry_bytes(&s->entries[i]);
    entry_free(&s->entries[i]);
    s->entries[i] = s->entries[--s->n];
}

static void add(struct turns *s, struct entry *x)
{
    s->entries[s->n] = *x;
    s->entries[s->n++].used = ++s->n_uses;
    s->bytes += entry_bytes(x);
}

static void make_room(struct turns *s, uint64_t bytes)
{
    while (s->n == TURNS_MAX || (s->n && s->bytes + bytes > TURNS_BYTES_MAX)) {
        int oldest = 0;
        for (int i = 1; i < s->n; i++)
            if (s->entries[i].used < s->entries[oldest].used)
                oldest = i;
        forget(s, oldest);
    }
}

static bool begins_with(const char *text, size_t len, const struct buf *with)
{
    return with->len <= len && memcmp(text, with->data, with->len) == 0;
}

/* The longest entry that a text begins with, or NULL. */
static struct entry *longest(struct turns *s, const char *text, size_t len)
{
    struct entry *best = NULL;
    for (int i = 0; i < s->n; i++)
        if (begins_with(text, len, &s->entries[i].text) &&
            (!best || s->entries[i].text.len > best->text.len))
            best = &s->entries[i];
    return best;
}

/* --- without the lock --- */

static int append(struct tokens *to, const struct tokens *from, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < from->n; i++)
        rc = tokens_push(to, from->ids[i], e);
    return rc;
}

void turns_keep(struct turns *s, const char *text, size_t len, const struct tokens *prompt,
                const struct tokens *said)
{
    struct entry x = {0};
    struct err e = {0};
    buf_add(&x.text, text, len);
    if (tokenizer_decode(s->tokenizer, said->ids, said->n, false, &x.text, &e) ||
        append(&x.ids, prompt, &e) || append(&x.ids, said, &e) || buf_check(&x.text, &e) ||
        entry_bytes(&x) > TURNS_BYTES_MAX || !x.text.len) {
        entry_free(&x);
        return;
    }
    pthread_mutex_lock(&s->lock);
    struct entry *same = longest(s, x.text.data, x.text.len);
    if (same && same->text.len == x.text.len)
        forget(s, (int)(same - s->entries));
    make_room(s, entry_bytes(&x));
    add(s, &x);
    pthread_mutex_unlock(&s->lock);
}

int turns_encode(struct turns *s, const char *text, size_t len, size_t most, struct tokens *out,
                 struct err *e)
{
    const size_t before = out->n;
    size_t known = 0;
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    struct entry *x = longest(s, text, len);
    if (x) {
        known = x->text.len;
        x->used = ++s->n_uses;
        rc = append(out, &x->ids, e);
    }
    pthread_mutex_unlock(&s->lock);
    if (!rc)
        rc = tokenizer_encode_most(s->tokenizer, text + known, len - known, most, out, e);
    if (rc)
        out->n = before;
    return rc;
}
