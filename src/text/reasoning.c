/* Thinking and answer: see reasoning.h. What cannot be placed yet stays in `held`; each turn of
 * the loop looks at its beginning alone. */
#include "text/reasoning.h"

#include <string.h>

static const char blanks[] = " \t\r\n";

enum outcome { NO, PARTIAL, MATCH };

void reasoning_init(struct reasoning *r, bool opened)
{
    *r = (struct reasoning){.state = opened ? REASONING_THINKING : REASONING_START};
}

void reasoning_free(struct reasoning *r)
{
    buf_free(&r->held);
    *r = (struct reasoning){0};
}

static enum outcome match(const char *s, size_t n, const char *mark)
{
    size_t len = strlen(mark), most = n < len ? n : len;
    if (most && memcmp(s, mark, most) != 0)
        return NO;
    return n < len ? PARTIAL : MATCH;
}

static size_t count_blanks(const char *s, size_t n)
{
    size_t k = 0;
    while (k < n && memchr(blanks, s[k], sizeof blanks - 1))
        k++;
    return k;
}

/* What may be the beginning of a tag, where nothing follows: of a text that was cut it was one. */
static bool is_remnant(const struct reasoning *r, enum outcome o, size_t n, bool end)
{
    return r->cut && end && o == PARTIAL && n > 0;
}

static size_t at_start(struct reasoning *r, const char *s, size_t n, bool end)
{
    size_t k = count_blanks(s, n);
    enum outcome o = match(s + k, n - k, REASONING_OPEN);
    if (o == PARTIAL && !end)
        return 0;
    if (is_remnant(r, o, n - k, end))
        return n;
    r->state = o == MATCH ? REASONING_THINKING : REASONING_ANSWER;
    return o == MATCH ? k + strlen(REASONING_OPEN) : 0;
}

/* One run of blanks, the rest of a text up to the next blank or <, or the mark that ends it. */
static size_t in_thinking(struct reasoning *r, const char *s, size_t n, bool end, struct buf *out)
{
    size_t k = count_blanks(s, n), run;
    enum outcome o = match(s + k, n - k, REASONING_CLOSE);
    if (o == PARTIAL && !end)
        return 0;
    if (o == MATCH) {
        r->state = REASONING_CLOSED;
        return k + strlen(REASONING_CLOSE);
    }
    if (k == n || is_remnant(r, o, n - k, end))
        return n; /* the end: blanks are dropped */
    run = k + 1;
    while (run < n && s[run] != '<' && !memchr(blanks, s[run], sizeof blanks - 1))
        run++;
    if (!r->said)
        buf_add(out, s + k, run - k);
    else
        buf_add(out, s, run);
    r->said = true;
    return run;
}

static size_t when_closed(struct reasoning *r, const char *s, size_t n)
{
    size_t k = count_blanks(s, n);
    if (k < n)
        r->state = REASONING_ANSWER;
    return k;
}

static void advance(struct reasoning *r, bool end, struct buf *thinking, struct buf *answer)
{
    size_t at = 0, used = 1;
    enum reasoning_state before = r->state;
    while (at < r->held.len && (used || r->state != before)) {
        const char *s = r->held.data + at;
        size_t n = r->held.len - at;
        before = r->state;
        if (r->state == REASONING_START)
            used = at_start(r, s, n, end);
        else if (r->state == REASONING_THINKING)
            used = in_thinking(r, s, n, end, thinking);
        else if (r->state == REASONING_CLOSED)
            used = when_closed(r, s, n);
        else
            buf_add(answer, s, used = n);
        at += used;
    }
    if (at) {
        r->held.len -= at;
        memmove(r->held.data, r->held.data + at, r->held.len);
    }
}

void reasoning_push(struct reasoning *r, const char *text, size_t len, struct buf *thinking,
                    struct buf *answer)
{
    buf_add(&r->held, text, len);
    if (r->held.failed)
        answer->failed = true;
    advance(r, false, thinking, answer);
}

void reasoning_cut(struct reasoning *r)
{
    r->cut = true;
}

void reasoning_finish(struct reasoning *r, struct buf *thinking, struct buf *answer)
{
    advance(r, true, thinking, answer);
    buf_clear(&r->held);
}
