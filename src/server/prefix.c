/* Kept states: see prefix.h.
 *
 *      kept --> in memory --written--> in memory and a file --idle, or no room--> a file --> gone
 *
 * The worker alone adds and removes entries, and frees what they have in memory. The writer turns
 * what is in memory into files, and removes files that do not fit; it marks the entry it is at with
 * `busy`, and the worker leaves that one alone. */
#include "server/prefix.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "server/saves.h"

struct entry {
    struct entry *next;
    int32_t *tokens;
    int n;
    struct buf state;    /* len 0: not in memory */
    uint64_t file_bytes; /* 0: no file */
    bool unwritable;     /* a file could not be written: not tried again */
    bool busy;
    uint64_t used;    /* the use that was last */
    uint64_t used_ns; /* and when */
};

struct prefix {
    struct model *m;
    const char *engine; /* its name */
    struct prefix_options o;
    char *dir; /* NULL: no files */
    struct file dir_lock;
    struct thread writer;
    bool writing; /* there is a writer */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work;  /* the writer waits on it */
    pthread_cond_t done;  /* an entry is not busy any more */
    bool stop;
    struct entry *entries;
    uint64_t n_uses;
    int n_memory, n_files;
    uint64_t memory_bytes, file_bytes;

    int too_long; /* the worker's: states of so many tokens do not fit memory; 0: not known */
};

static int open_dir(struct prefix *p, struct err *e);
static void write_files(void *ctx);
static void entry_free(struct entry *x);

int prefix_open(struct model *m, const struct prefix_options *o, struct prefix **out, struct err *e)
{
    struct prefix *p = mem_zalloc(1, sizeof *p);
    if (!p)
        return ERR(e, E_NOMEM, "no memory for kept states");
    *p = (struct prefix){.m = m, .engine = m->engine->ops->name, .o = *o, .dir_lock = FILE_CLOSED};
    pthread_mutex_init(&p->lock, NULL);
    thread_cond_init(&p->work);
    thread_cond_init(&p->done);
    if (o->dir && o->entries && open_dir(p, e)) {
        prefix_close(p);
        return -e->code;
    }
    *out = p;
    return 0;
}

void prefix_close(struct prefix *p)
{
    if (!p)
        return;
    if (p->writing) {
        pthread_mutex_lock(&p->lock);
        p->stop = true;
        pthread_cond_broadcast(&p->work);
        pthread_mutex_unlock(&p->lock);
        thread_join(&p->writer);
    }
    while (p->entries) {
        struct entry *next = p->entries->next;
        entry_free(p->entries);
        p->entries = next;
    }
    file_drop(&p->dir_lock);
    mem_free(p->dir);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->done);
    mem_free(p);
}

static void entry_free(struct entry *x)
{
    buf_free(&x->state);
    mem_free(x->tokens);
    mem_free(x);
}

/* --- entries; the lock is held --- */

static bool is_there(const struct entry *x)
{
    return x->state.len || x->file_bytes;
}

static void touch(struct prefix *p, struct entry *x)
{
    x->used = ++p->n_uses;
    x->used_ns = clock_ns();
}

static struct entry *find(const struct prefix *p, const int32_t *tokens, int n)
{
    for (struct entry *x = p->entries; x; x = x->next)
        if (x->n == n && is_there(x) && !memcmp(x->tokens, tokens, (size_t)n * sizeof *tokens))
            return x;
    return NULL;
}

static void drop_memory(struct prefix *p, struct entry *x)
{
    if (!x->state.len)
        return;
    p->memory_bytes -= x->state.len;
    p->n_memory--;
    buf_free(&x->state);
    x->state = BUF_INIT;
}

static void drop_file(struct prefix *p, struct entry *x)
{
    if (!x->file_bytes)
        return;
    p->file_bytes -= x->file_bytes;
    p->n_files--;
    x->file_bytes = 0;
}

/* Entries that are nowhere any more. */
static void sweep(struct prefix *p)
{
    for (struct entry **at = &p->entries; *at;) {
        struct entry *x = *at;
        if (is_there(x) || x->busy) {
            at = &x->next;
            continue;
        }
        *at = x->next;
        entry_free(x);
    }
}

/* The longest unused of those in memory, or (files) on disk, that no one is at; NULL: none. */
static struct entry *oldest(const struct prefix *p, bool files)
{
    struct entry *old = NULL;
    for (struct entry *x = p->entries; x; x = x->next)
        if (!x->busy && (files ? x->file_bytes > 0 : x->state.len > 0) &&
            (!old || x->used < old->used))
            old = x;
    return old;
}

/* Whether there is room in memory for so many bytes now. Nothing goes for what never fits. */
static bool make_room(struct prefix *p, uint64_t bytes)
{
    if (bytes > p->o.bytes)
        return false;
    while (p->n_memory >= p->o.entries || p->memory_bytes + bytes > p->o.bytes) {
        struct entry *x = oldest(p, false);
        if (!x)
            return false;
        drop_memory(p, x);
    }
    return true;
}

static void add(struct prefix *p, struct entry *x)
{
    touch(p, x);
    x->next = p->entries;
    p->entries = x;
    p->n_memory += x->state.len > 0;
    p->memory_bytes += x->state.len;
    p->n_files += x->file_bytes > 0;
    p->file_bytes += x->file_bytes;
}

/* --- the worker's --- */

int prefix_longest(struct prefix *p, const int32_t *tokens, int n)
{
    struct entry *best = NULL;
    pthread_mutex_lock(&p->lock);
    for (struct entry *x = p->entries; x; x = x->next)
        if (x->n < n && is_there(x) && (!best || x->n > best->n) &&
            !memcmp(x->tokens, tokens, (size_t)x->n * sizeof *tokens))
            best = x;
    if (best)
        touch(p, best);
    const int found = best ? best->n : 0;
    pthread_mutex_unlock(&p->lock);
    return found;
}

static int restore(struct prefix *p, const struct entry *x, struct sequence *seq, struct err *e)
{
    struct engine *g = p->m->engine;
    if (x->state.len)
        return g->ops->restore(g, seq, x->state.data, x->state.len, e);
    char *path = saves_path(p->dir, x->tokens, x->n);
    if (!path)
        return ERR(e, E_NOMEM, "no memory for the name of a file");
    int rc = saves_restore(path, g, x->tokens, x->n, seq, e);
    mem_free(path);
    return rc;
}

/* The lock is held: x is not the writer's any more. */
static void wait_until_idle(struct prefix *p, const struct entry *x)
{
    while (x->busy)
        pthread_cond_wait(&p->done, &p->lock);
}

/* What is in memory can be read while the writer makes its file: only the worker takes it away. */
int prefix_restore(struct prefix *p, const int32_t *tokens, int n, struct sequence *seq)
{
    struct err e = {0};
    pthread_mutex_lock(&p->lock);
    struct entry *x = find(p, tokens, n);
    const bool from_file = x && !x->state.len;
    if (from_file) {
        wait_until_idle(p, x);
        x->busy = true;
    }
    pthread_mutex_unlock(&p->lock);
    if (!x)
        ERR(&e, E_NOTFOUND, "it has just been removed");
    else
        restore(p, x, seq, &e);
    pthread_mutex_lock(&p->lock);
    if (from_file)
        x->busy = false;
    if (x && e.code) {
        wait_until_idle(p, x);
        drop_memory(p, x);
        drop_file(p, x);
    } else if (x) {
        touch(p, x);
    }
    sweep(p);
    pthread_mutex_unlock(&p->lock);
    if (!e.code)
        return 0;
    log_say(LOG_WARN, "a kept state of %d tokens is of no use: %s", n, e.msg);
    p->m->engine->ops->sequence_reset(seq);
    return -e.code;
}

static struct entry *entry_new(struct prefix *p, const int32_t *tokens, int n,
                               const struct sequence *seq, struct err *e)
{
    struct entry *x = mem_zalloc(1, sizeof *x);
    if (x)
        *x = (struct entry){.tokens = mem_array((size_t)n, sizeof *x->tokens), .n = n};
    if (!x || !x->tokens)
        ERR(e, E_NOMEM, "no memory for %d tokens", n);
    else
        memcpy(x->tokens, tokens, (size_t)n * sizeof *tokens);
    if (!e->code)
        p->m->engine->ops->save(p->m->engine, seq, &x->state, e);
    if (e->code && x) {
        entry_free(x);
        return NULL;
    }
    return x;
}

/* Room for one that is as large as the last one is made before it is: so there is never more in
 * memory than was said. */
void prefix_keep(struct prefix *p, const int32_t *tokens, int n, const struct sequence *seq)
{
    struct err e = {0};
    if (n < p->o.tokens_min || !p->o.entries || (p->too_long && n >= p->too_long))
        return;
    pthread_mutex_lock(&p->lock);
    struct entry *same = find(p, tokens, n);
    if (same)
        touch(p, same);
    const uint64_t guess = p->n_memory ? p->memory_bytes / (uint64_t)p->n_memory : 0;
    const bool room = !same && make_room(p, guess);
    sweep(p);
    pthread_mutex_unlock(&p->lock);
    if (!room)
        return;
    struct entry *x = entry_new(p, tokens, n, seq, &e);
    if (!x) {
        log_say(LOG_WARN, "a state of %d tokens is not kept: %s", n, e.msg);
        return;
    }
    if (x->state.len > p->o.bytes)
        p->too_long = n;
    pthread_mutex_lock(&p->lock);
    const bool fits = make_room(p, x->state.len);
    if (fits)
        add(p, x);
    sweep(p);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    if (!fits)
        entry_free(x);
}

void prefix_tidy(struct prefix *p)
{
    pthread_mutex_lock(&p->lock);
    for (struct entry *x = p->entries; x; x = x->next)
        if (!x->busy && clock_seconds_since(x->used_ns) > p->o.idle_s)
            drop_memory(p, x);
    sweep(p);
    pthread_mutex_unlock(&p->lock);
}

void prefix_stats(struct prefix *p, struct prefix_stats *out)
{
    pthread_mutex_lock(&p->lock);
    *out = (struct prefix_stats){.entries = p->n_memory,
                                 .files = p->n_files,
                                 .bytes = p->memory_bytes,
                                 .file_bytes = p->file_bytes};
    pthread_mutex_unlock(&p->lock);
}

/* --- files --- */

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

struct found_file {
    struct entry *entry;
    int64_t mtime_ns;
};

struct found_files {
    struct prefix *p;
    struct found_file *files; /* owned */
    size_t n, cap;
};

static int add_found(struct found_files *all, const struct save_head *h, struct err *e)
{
    struct entry *x = mem_zalloc(1, sizeof *x);
    if (x && all->n == all->cap) {
        const size_t cap = all->cap ? 2 * all->cap : 64;
        struct found_file *more = mem_realloc(all->files, cap * sizeof *more);
        if (more) {
            all->files = more;
            all->cap = cap;
        }
    }
    if (!x || all->n == all->cap) {
        mem_free(x);
        mem_free(h->tokens);
        return ERR(e, E_NOMEM, "no memory for the kept states of %s", all->p->dir);
    }
    *x = (struct entry){.tokens = h->tokens, .n = h->n, .file_bytes = h->bytes};
    all->files[all->n++] = (struct found_file){x, h->mtime_ns};
    return 0;
}

/* Under another name than its own a file would not be found again. Drops h if so. */
static bool is_named_so(const char *dir, struct save_head *h, const char *path)
{
    char *want = saves_path(dir, h->tokens, h->n);
    const bool so = want && strcmp(want, path) == 0;
    if (!so) {
        log_say(LOG_WARN, "%s: holds what %s is for; it is not used", path,
                want ? want : "another");
        mem_free(h->tokens);
    }
    mem_free(want);
    return so;
}

/* What a kill left half-written goes; what is damaged is told of and stays. */
static int look_at(void *ctx, const char *name, struct err *e)
{
    struct found_files *all = ctx;
    struct save_head h;
    struct err why = {0};
    if (!ends_with(name, ".keep") && !ends_with(name, ".keep.tmp"))
        return 0;
    char *path = file_join(all->p->dir, name);
    int rc = 0;
    if (!path)
        rc = ERR(e, E_NOMEM, "no memory for the kept states of %s", all->p->dir);
    else if (ends_with(name, ".tmp"))
        rc = file_remove(path, e);
    else if (saves_read_head(path, all->p->engine, &h, &why) == 0)
        rc = is_named_so(all->p->dir, &h, path) ? add_found(all, &h, e) : 0;
    else
        log_say(LOG_WARN, "%s; it is not used", why.msg);
    mem_free(path);
    return rc;
}

static int by_age(const void *a, const void *b)
{
    const struct found_file *x = a, *y = b;
    return (x->mtime_ns > y->mtime_ns) - (x->mtime_ns < y->mtime_ns);
}

static int open_dir(struct prefix *p, struct err *e)
{
    struct found_files all = {.p = p};
    p->dir = mem_strdup(p->o.dir);
    if (!p->dir)
        return ERR(e, E_NOMEM, "no memory for the kept states of %s", p->o.dir);
    if (file_make_dir(p->dir, e) || file_lock_dir(p->dir, &p->dir_lock, e))
        return -e->code;
    int rc = file_each(p->dir, look_at, &all, e);
    if (all.n)
        qsort(all.files, all.n, sizeof *all.files, by_age);
    for (size_t i = 0; i < all.n; i++)
        add(p, all.files[i].entry);
    mem_free(all.files);
    if (!rc)
        rc = thread_start(&p->writer, write_files, p, e);
    p->writing = !rc;
    return rc;
}

/* The one used last of those that want a file; NULL: none. */
static struct entry *next_to_write(const struct prefix *p)
{
    struct entry *next = NULL;
    for (struct entry *x = p->entries; x; x = x->next)
        if (x->state.len && !x->file_bytes && !x->unwritable && !x->busy &&
            (!next || x->used > next->used))
            next = x;
    return next;
}

/* The file of x; the lock is not held, x is busy. Returns its bytes, 0: it could not be. */
static uint64_t write_file(const struct prefix *p, const struct entry *x)
{
    struct err e = {0};
    struct save_head h = {0};
    char *path = saves_path(p->dir, x->tokens, x->n);
    if (!path)
        ERR(&e, E_NOMEM, "no memory for the name of a file");
    else if (saves_write(path, p->engine, x->tokens, x->n, &x->state, &e) == 0)
        saves_read_head(path, p->engine, &h, &e);
    if (e.code)
        log_say(LOG_WARN, "a state of %d tokens is not saved: %s", x->n, e.msg);
    mem_free(h.tokens);
    mem_free(path);
    return h.bytes;
}

/* The lock is held, and let go of while a file is removed. */
static void fit_files(struct prefix *p)
{
    struct entry *x;
    while (p->file_bytes > p->o.file_bytes && (x = oldest(p, true))) {
        struct err e = {0};
        drop_file(p, x);
        x->busy = true;
        pthread_mutex_unlock(&p->lock);
        char *path = saves_path(p->dir, x->tokens, x->n);
        if (path && file_remove(path, &e))
            log_say(LOG_WARN, "%s", e.msg);
        mem_free(path);
        pthread_mutex_lock(&p->lock);
        x->unwritable = true; /* or it would be written once more */
        x->busy = false;
        pthread_cond_broadcast(&p->done);
    }
}

/* The writer: files for what is in memory, until it is told to stop and all are written. */
static void write_files(void *ctx)
{
    struct prefix *p = ctx;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        struct entry *x = next_to_write(p);
        if (!x && p->stop)
            break;
        if (!x) {
            pthread_cond_wait(&p->work, &p->lock);
            continue;
        }
        x->busy = true;
        pthread_mutex_unlock(&p->lock);
        const uint64_t bytes = write_file(p, x);
        pthread_mutex_lock(&p->lock);
        x->busy = false;
        x->unwritable = !bytes;
        x->file_bytes = bytes;
        p->file_bytes += bytes;
        p->n_files += bytes > 0;
        fit_files(p);
        pthread_cond_broadcast(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
}
