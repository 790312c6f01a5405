/* Texts under names: see kept.h. */
#include "server/kept.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

enum { NAME_ROOM = 64 };

struct entry {
    struct entry *next;
    char name[NAME_ROOM];
    struct buf text;
    uint64_t claim; /* 0: nobody's */
    uint64_t used_ns;
};

struct kept {
    struct kept_options o;
    pthread_mutex_t lock;  /* of all below */
    struct entry *entries; /* the last used first */
    int n;
    uint64_t bytes, n_claims;
};

int kept_open(const struct kept_options *o, struct kept **out, struct err *e)
{
    struct kept *k = mem_zalloc(1, sizeof *k);
    *out = k;
    if (!k)
        return ERR(e, E_NOMEM, "no memory for what is kept for clients");
    k->o = *o;
    pthread_mutex_init(&k->lock, NULL);
    return 0;
}

static void entry_free(struct entry *x)
{
    buf_free(&x->text);
    mem_free(x);
}

void kept_close(struct kept *k)
{
    if (!k)
        return;
    while (k->entries) {
        struct entry *next = k->entries->next;
        entry_free(k->entries);
        k->entries = next;
    }
    pthread_mutex_destroy(&k->lock);
    mem_free(k);
}

/* --- entries; the lock is held --- */

static struct entry *take_out(struct kept *k, struct entry **at)
{
    struct entry *x = *at;
    *at = x->next;
    k->n--;
    k->bytes -= x->text.len;
    return x;
}

static void put_in(struct kept *k, struct entry *x)
{
    x->used_ns = clock_ns();
    x->next = k->entries;
    k->entries = x;
    k->n++;
    k->bytes += x->text.len;
}

static void drop_idle(struct kept *k)
{
    for (struct entry **at = &k->entries; *at;)
        if (!(*at)->claim && clock_seconds_since((*at)->used_ns) > k->o.idle_s)
            entry_free(take_out(k, at));
        else
            at = &(*at)->next;
}

/* The entry of that name, which is the last used from now on; or NULL. */
static struct entry *find(struct kept *k, const char *name)
{
    drop_idle(k);
    for (struct entry **at = &k->entries; *at; at = &(*at)->next)
        if (strcmp((*at)->name, name) == 0) {
            put_in(k, take_out(k, at));
            return k->entries;
        }
    return NULL;
}

/* Room for so many bytes, in place of one entry (NULL: of none): others go for it, but nobody whose
 * claim stands. Nothing goes where that would not do. */
static int make_room(struct kept *k, uint64_t bytes, const struct entry *of, struct err *e)
{
    uint64_t held = 0;
    int n_held = 0;
    for (const struct entry *x = k->entries; x; x = x->next) {
        held += x->claim && x != of ? x->text.len : 0;
        n_held += x->claim && x != of;
    }
    if (bytes > k->o.bytes)
        return ERR(e, E_LIMIT, "%llu bytes are more than may be kept, %llu",
                   (unsigned long long)bytes, (unsigned long long)k->o.bytes);
    if (n_held >= k->o.entries || held + bytes > k->o.bytes)
        return ERR(e, E_BUSY,
                   "requests are at work on %d of %d, %llu of %llu bytes, that may be kept: "
                   "try again later",
                   n_held, k->o.entries, (unsigned long long)held, (unsigned long long)k->o.bytes);
    while (k->n - (of != NULL) >= k->o.entries ||
           k->bytes - (of ? of->text.len : 0) + bytes > k->o.bytes) {
        struct entry **last = NULL;
        for (struct entry **at = &k->entries; *at; at = &(*at)->next)
            if (!(*at)->claim && *at != of)
                last = at;
        assert(last); /* what is held leaves room */
        entry_free(take_out(k, last));
    }
    return 0;
}

/* --- without the lock --- */

static int print(const json_t *v, struct buf *out, struct err *e)
{
    return json_print(v, JSON_COMPACT, out, e) ? -e->code : buf_check(out, e);
}

int kept_put(struct kept *k, const char *name, const json_t *v, struct err *e)
{
    struct entry *x = mem_zalloc(1, sizeof *x);
    if (!x)
        return ERR(e, E_NOMEM, "no memory to keep '%s'", name);
    snprintf(x->name, sizeof x->name, "%s", name);
    int rc = print(v, &x->text, e);
    pthread_mutex_lock(&k->lock);
    const struct entry *same = rc ? NULL : find(k, name);
    rc = rc ? rc : make_room(k, x->text.len, same, e);
    if (!rc && same)
        entry_free(take_out(k, &k->entries)); /* find has put it first */
    if (!rc)
        put_in(k, x);
    pthread_mutex_unlock(&k->lock);
    if (rc)
        entry_free(x);
    return rc;
}

/* A copy of the text; claims it if claim is not NULL. */
static int copy(struct kept *k, const char *name, uint64_t *claim, struct buf *text, struct err *e)
{
    int rc = 0;
    pthread_mutex_lock(&k->lock);
    struct entry *x = find(k, name);
    if (!x)
        rc = ERR(e, E_NOTFOUND, "there is no '%.80s' here, or not any more", name);
    else if (claim && x->claim)
        rc = ERR(e, E_EXISTS, "'%s' is at work: wait for the end of the other request", name);
    if (!rc) {
        buf_add(text, x->text.data, x->text.len);
        rc = buf_check(text, e);
    }
    if (!rc && claim)
        *claim = x->claim = ++k->n_claims;
    pthread_mutex_unlock(&k->lock);
    return rc;
}

static int get(struct kept *k, const char *name, uint64_t *claim, json_t **out, struct err *e)
{
    struct buf text = BUF_INIT;
    struct err ignored = {0};
    *out = NULL;
    int rc = copy(k, name, claim, &text, e);
    if (!rc)
        rc = json_parse(buf_str(&text), text.len, name, out, e);
    if (rc && claim && *claim)
        (void)kept_end(k, *claim, NULL, &ignored);
    buf_free(&text);
    return rc;
}

int kept_get(struct kept *k, const char *name, json_t **out, struct err *e)
{
    return get(k, name, NULL, out, e);
}

int kept_claim(struct kept *k, const char *name, json_t **out, uint64_t *claim, struct err *e)
{
    *claim = 0;
    return get(k, name, claim, out, e);
}

bool kept_drop(struct kept *k, const char *name)
{
    pthread_mutex_lock(&k->lock);
    const bool there = find(k, name) != NULL;
    if (there)
        entry_free(take_out(k, &k->entries));
    pthread_mutex_unlock(&k->lock);
    return there;
}

/* The lock is held. Room for what is longer now is made while the claim stands. */
static int replace(struct kept *k, struct entry *x, struct buf *text, struct err *e)
{
    if (make_room(k, text->len, x, e))
        return -e->code;
    k->bytes += text->len - x->text.len;
    const struct buf old = x->text;
    x->text = *text;
    *text = old;
    return 0;
}

int kept_end(struct kept *k, uint64_t claim, const json_t *v, struct err *e)
{
    struct buf text = BUF_INIT;
    int rc = v ? print(v, &text, e) : 0;
    pthread_mutex_lock(&k->lock);
    struct entry *x = k->entries;
    while (x && x->claim != claim)
        x = x->next;
    if (x && v && !rc)
        rc = replace(k, x, &text, e);
    if (x) {
        x->claim = 0;
        x->used_ns = clock_ns();
    }
    pthread_mutex_unlock(&k->lock);
    buf_free(&text);
    return rc;
}
