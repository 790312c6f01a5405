/* Stop strings: see stop.h. Each string is sought on its own by the automaton of Knuth, Morris and
 * Pratt: `matched` is the length of the longest prefix of it that the text so far ends with. */
#include "text/stop.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

struct stop_string {
    char *text;
    size_t len, matched;
    size_t *border; /* [k]: the longest proper prefix of text that text[0..k] ends with */
};

static void find_borders(struct stop_string *t)
{
    size_t k = 0;
    t->border[0] = 0;
    for (size_t i = 1; i < t->len; i++) {
        while (k && t->text[i] != t->text[k])
            k = t->border[k - 1];
        k += t->text[i] == t->text[k];
        t->border[i] = k;
    }
}

static int add_string(struct stop *s, const char *text, struct err *e)
{
    struct stop_string *t = &s->strings[s->n];
    size_t len = strlen(text), valid = utf8_valid_prefix(text, len);
    if (!len)
        return ERR(e, E_ARG, "stop string number %zu is empty", s->n + 1);
    if (valid < len)
        return ERR(e, E_ARG, "stop string number %zu: byte %zu is not valid UTF-8", s->n + 1,
                   valid);
    s->n++;
    t->len = len;
    t->text = mem_strndup(text, len);
    t->border = mem_array(len, sizeof *t->border);
    if (!t->text || !t->border || !buf_reserve(&s->held, len))
        return ERR(e, E_NOMEM, "out of memory for a stop string of %zu bytes", len);
    find_borders(t);
    return 0;
}

int stop_init(struct stop *s, const char *const *strings, size_t n, struct err *e)
{
    int rc = 0;
    *s = (struct stop){0};
    s->strings = mem_zalloc(n, sizeof *s->strings);
    if (!s->strings)
        return ERR(e, E_NOMEM, "out of memory for %zu stop strings", n);
    for (size_t i = 0; i < n && !rc; i++)
        rc = add_string(s, strings[i], e);
    if (rc)
        stop_free(s);
    return rc;
}

void stop_free(struct stop *s)
{
    for (size_t i = 0; i < s->n; i++) {
        mem_free(s->strings[i].text);
        mem_free(s->strings[i].border);
    }
    mem_free(s->strings);
    buf_free(&s->held);
    *s = (struct stop){0};
}

static bool advance(struct stop_string *t, char c)
{
    while (t->matched && t->text[t->matched] != c)
        t->matched = t->border[t->matched - 1];
    t->matched += t->text[t->matched] == c;
    return t->matched == t->len;
}

/* Releases all but the last `keep` of the text held and new. */
static void release(struct stop *s, const char *text, size_t len, size_t keep, struct buf *out)
{
    size_t n = s->held.len + len - keep, old = n < s->held.len ? n : s->held.len;
    buf_add(out, s->held.data, old);
    buf_add(out, text, n - old);
    s->held.len -= old;
    if (s->held.len)
        memmove(s->held.data, s->held.data + old, s->held.len);
    if (len > n - old)
        buf_add(&s->held, text + (n - old), len - (n - old));
}

bool stop_push(struct stop *s, const char *text, size_t len, struct buf *out)
{
    size_t keep = 0;
    for (size_t i = 0; i < len && !s->hit; i++) {
        size_t stop = 0;
        keep = 0;
        for (size_t k = 0; k < s->n; k++) {
            struct stop_string *t = &s->strings[k];
            if (advance(t, text[i]) && t->len > stop) {
                stop = t->len;
                s->which = k;
            }
            if (t->matched > keep)
                keep = t->matched;
        }
        if (stop) {
            release(s, text, i + 1, stop, out);
            buf_clear(&s->held);
            s->hit = true;
        }
    }
    if (len && !s->hit)
        release(s, text, len, keep, out);
    return s->hit;
}

/* Forgets what was held back. */
static void restart(struct stop *s)
{
    for (size_t i = 0; i < s->n; i++)
        s->strings[i].matched = 0;
    buf_clear(&s->held);
}

void stop_finish(struct stop *s, struct buf *out)
{
    buf_add(out, s->held.data, s->held.len);
    restart(s);
}

void stop_reset(struct stop *s)
{
    restart(s);
    s->hit = false;
}
