/* Calls of tools: see toolcall.h. Input waits in `held` until it is certain what it is; each state
 * looks at its beginning and says how much it took.
 *
 *       +--------------------- in_text <---------------------+
 *       | <tool_call> <function=NAME>                        | </tool_call>
 *       v                                                    |
 *    in_body --<parameter=P>--> in_value         after_body -+
 *       | ^                        |                ^
 *       | +-----</parameter>-------+                |
 *       +-----------------</function>---------------+
 *
 * What a missing tag implies goes the same ways, one state at a time. A strict reader goes from
 * in_text to KEPT, where input waits for the end; a second reader says then what it is. */
#include "text/toolcall.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "text/tooltag.h"
#include "text/toolvalue.h"

enum state { IN_TEXT, IN_BODY, IN_VALUE, AFTER_BODY, KEPT };

struct toolcall {
    struct toolcall_options o;
    enum state state;
    struct buf held;  /* input that is not understood yet */
    struct buf text;  /* of the answer, for the next event */
    struct buf piece; /* of arguments, for the next event */
    bool cut, only;   /* as toolcall_cut says */
    bool said;        /* text since the beginning, or since the last call */
    int n_calls, deviations;
    /* the open call */
    char name[TOOL_NAME_MAX + 1];
    json_t *given; /* object: its parameters so far */
    /* the open value */
    char parameter[TOOL_NAME_MAX + 1];
    unsigned types;
    bool plain, ignored, fresh; /* a string; given before; no byte of it yet */
    int depth, calls;           /* tags of parameters and calls open in it */
    struct buf value;           /* if not plain */
};

int toolcall_open(const struct toolcall_options *o, struct toolcall **out, struct err *e)
{
    struct toolcall *c = mem_zalloc(1, sizeof *c);
    *out = NULL;
    if (!c || !(c->given = json_object())) {
        mem_free(c);
        return ERR(e, E_NOMEM, "no memory to read calls");
    }
    c->o = *o;
    *out = c;
    return 0;
}

void toolcall_close(struct toolcall *c)
{
    if (!c)
        return;
    struct buf *const bufs[] = {&c->held, &c->text, &c->piece, &c->value};
    for (size_t i = 0; i < sizeof bufs / sizeof bufs[0]; i++)
        buf_free(bufs[i]);
    json_decref(c->given);
    mem_free(c);
}

static void emit(struct toolcall *c, enum toolcall_kind kind, const char *text, size_t len)
{
    const struct toolcall_event event = {
        .kind = kind,
        .index = kind == TOOLCALL_TEXT ? 0 : c->n_calls - 1,
        .text = text,
        .len = len,
        .cut = kind == TOOLCALL_END && c->state == IN_VALUE,
    };
    c->o.on_event(c->o.ctx, &event);
}

/* Gives on what has gathered. */
static void flush(struct toolcall *c)
{
    if (c->text.len)
        emit(c, TOOLCALL_TEXT, c->text.data, c->text.len);
    if (c->piece.len)
        emit(c, TOOLCALL_ARGUMENTS, c->piece.data, c->piece.len);
    c->text.len = c->piece.len = 0;
}

static void say(struct toolcall *c, const char *s, size_t n)
{
    if (c->piece.len)
        flush(c);
    buf_add(&c->text, s, n);
    c->said |= n > 0;
}

static void begin_call(struct toolcall *c, const struct tag *t)
{
    flush(c);
    memcpy(c->name, t->name, sizeof c->name);
    json_object_clear(c->given);
    c->n_calls++;
    c->deviations += t->open;
    c->said = false;
    c->state = IN_BODY;
    emit(c, TOOLCALL_BEGIN, c->name, strlen(c->name));
}

static void end_call(struct toolcall *c, enum state next)
{
    if (c->text.len)
        flush(c);
    buf_puts(&c->piece, json_object_size(c->given) ? "}" : "{}");
    flush(c);
    emit(c, TOOLCALL_END, NULL, 0);
    c->said = false;
    c->state = next;
}

/* The name of the open value, and what stands before it. */
static void put_key(struct toolcall *c)
{
    if (c->text.len)
        flush(c);
    buf_puts(&c->piece, json_object_size(c->given) ? ",\"" : "{\"");
    toolvalue_escape(c->parameter, strlen(c->parameter), &c->piece);
    buf_puts(&c->piece, "\":");
    if (json_object_set_new_nocheck(c->given, c->parameter, json_true()))
        c->piece.failed = true;
}

static void begin_value(struct toolcall *c, const struct tag *t)
{
    memcpy(c->parameter, t->name, sizeof c->parameter);
    c->types = toolset_types(c->o.tools, c->name, c->parameter);
    c->plain = c->types & TOOL_STRING;
    c->ignored = json_object_get(c->given, c->parameter) != NULL;
    c->fresh = true;
    c->depth = c->calls = 0;
    c->deviations += c->ignored;
    buf_clear(&c->value);
    c->state = IN_VALUE;
    if (c->plain && !c->ignored) {
        put_key(c);
        buf_putc(&c->piece, '"');
    }
}

static void add_value(struct toolcall *c, const char *s, size_t n)
{
    if (c->ignored)
        return;
    if (c->plain)
        toolvalue_escape(s, n, &c->piece);
    else
        buf_add(&c->value, s, n);
}

/* blanks [n]: what stands before the end, without the last newline part of the value. */
static void end_value(struct toolcall *c, const char *blanks, size_t n)
{
    add_value(c, blanks, n && blanks[n - 1] == '\n' ? n - 1 : n);
    c->state = IN_BODY;
    if (c->ignored)
        return;
    if (c->plain) {
        buf_putc(&c->piece, '"');
        return;
    }
    struct buf json = BUF_INIT;
    if (!toolvalue_json(c->types, buf_str(&c->value), c->value.len, &json))
        c->deviations++;
    if (json.len) {
        put_key(c);
        buf_add(&c->piece, json.data, json.len);
    }
    c->piece.failed |= json.failed;
    buf_free(&json);
}

/* --- where a call begins --- */

/* A call's head at s: <tool_call> <function=NAME>, or the second alone where a line begins. t is
 * its last tag, with the length of all. NONE: no declared call; PARTIAL: it may be one. */
static enum tag_kind read_head(const struct toolcall *c, const char *s, size_t n, bool line,
                               struct tag *t)
{
    size_t before = 0;
    tag_read(s, n, t);
    if (t->kind == TAG_CALL) {
        before = t->len + tag_blanks(s + t->len, n - t->len);
        if (before - t->len > TAG_BLANKS_MAX)
            return TAG_NONE;
        tag_read(s + before, n - before, t);
    } else if (!line && t->kind != TAG_PARTIAL) {
        return TAG_NONE;
    }
    t->len += before;
    if (t->kind == TAG_PARTIAL)
        return TAG_PARTIAL;
    return t->kind == TAG_FUNCTION && toolset_has(c->o.tools, t->name) ? TAG_FUNCTION : TAG_NONE;
}

/* The length of what cannot begin anything: s[0], and on to the next blank or <. */
static size_t plain_run(const char *s, size_t n, size_t from)
{
    size_t k = from;
    while (k < n && s[k] != '<' && tag_blanks(s + k, 1) == 0)
        k++;
    return k;
}

/* Whether a piece of a call's head at the end of a cut answer is no text. */
static bool is_cut_tag(const struct toolcall *c, const char *s, size_t n)
{
    static const char *const heads[] = {"<tool", "<function="};
    bool found = c->only;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        found = found || (n >= strlen(heads[i]) && memcmp(s, heads[i], strlen(heads[i])) == 0);
    return c->cut && n && found;
}

static size_t in_text(struct toolcall *c, const char *s, size_t n, bool end)
{
    struct tag t;
    size_t k = tag_blanks(s, n);
    bool line = !c->said || memchr(s, '\n', k);
    enum tag_kind head = read_head(c, s + k, n - k, line, &t);
    if (head == TAG_PARTIAL && !end)
        return 0;
    if (head == TAG_PARTIAL && is_cut_tag(c, s + k, n - k)) {
        c->deviations++;
        return n;
    }
    if (head == TAG_FUNCTION && c->o.strict) {
        c->state = KEPT;
        return 0;
    }
    if (head == TAG_FUNCTION) {
        c->deviations += c->said && c->n_calls;
        c->deviations += strncmp(s + k, "<t", 2) != 0;
        begin_call(c, &t);
        return k + t.len;
    }
    if (k == n) {
        if (c->said || !c->n_calls)
            say(c, s, k);
        return k;
    }
    tag_read(s + k, n - k, &t);
    c->deviations += t.kind == TAG_CALL;
    size_t run = plain_run(s, n, k + 1), from = c->n_calls && !c->said ? k : 0;
    say(c, s + from, run - from);
    return run;
}

/* --- inside a call --- */

static size_t in_body(struct toolcall *c, const char *s, size_t n, bool end)
{
    struct tag t;
    size_t k = tag_blanks(s, n);
    if (k)
        return k;
    tag_read(s, n, &t);
    if (t.kind == TAG_PARTIAL && (!end || c->cut))
        return end ? n : 0;
    if (t.kind == TAG_PARAMETER) {
        begin_value(c, &t);
        return t.len;
    }
    if (t.kind == TAG_FUNCTION_END) {
        end_call(c, AFTER_BODY);
        return t.len;
    }
    if (t.kind == TAG_CALL_END) {
        c->deviations++;
        end_call(c, IN_TEXT);
        return t.len;
    }
    enum tag_kind head = read_head(c, s, n, true, &t);
    if (head == TAG_PARTIAL && (!end || c->cut))
        return end ? n : 0;
    if (head == TAG_FUNCTION) {
        c->deviations++;
        end_call(c, IN_TEXT);
        return 0;
    }
    c->deviations += !c->said; /* once a call, however it comes */
    size_t run = plain_run(s, n, 1);
    say(c, s, run);
    return run;
}

static size_t after_body(struct toolcall *c, const char *s, size_t n, bool end)
{
    struct tag t;
    size_t k = tag_blanks(s, n);
    tag_read(s + k, n - k, &t);
    if (t.kind == TAG_PARTIAL && (!end || c->cut))
        return end ? n : 0;
    c->state = IN_TEXT;
    if (t.kind == TAG_CALL_END)
        return k + t.len;
    c->deviations++;
    return 0;
}

/* Whether the tag t, behind k blanks of s, ends a value that was not closed. PARTIAL: it may. */
static enum tag_kind implied_end(const struct toolcall *c, const char *s, size_t n, size_t k,
                                 const struct tag *t)
{
    struct tag next;
    bool line = memchr(s, '\n', k);
    if (c->calls)
        return TAG_NONE;
    if (t->kind == TAG_CALL_END)
        return line ? t->kind : TAG_NONE;
    if (t->kind == TAG_PARAMETER)
        return line && !c->depth && toolset_takes(c->o.tools, c->name, t->name) &&
                       !json_object_get(c->given, t->name)
                   ? t->kind
                   : TAG_NONE;
    if (t->kind != TAG_FUNCTION_END)
        return TAG_NONE;
    size_t blanks = tag_blanks(s + k + t->len, n - k - t->len), at = k + t->len + blanks;
    if (blanks > TAG_BLANKS_MAX)
        return TAG_NONE;
    tag_read(s + at, n - at, &next);
    return next.kind == TAG_CALL_END || next.kind == TAG_PARTIAL ? next.kind : TAG_NONE;
}

/* Text of the value up to `run`, in which t is a tag that only nests. */
static size_t nested(struct toolcall *c, const struct tag *t, const char *s, size_t run)
{
    c->depth += (t->kind == TAG_PARAMETER) - (t->kind == TAG_PARAMETER_END);
    c->calls += (t->kind == TAG_CALL) - (t->kind == TAG_CALL_END && c->calls);
    add_value(c, s, run);
    return run;
}

static size_t in_value(struct toolcall *c, const char *s, size_t n, bool end)
{
    struct tag t;
    size_t k = tag_blanks(s, n);
    if (c->fresh) {
        c->fresh = false;
        if (s[0] == '\n')
            return 1;
    }
    if (k > TAG_BLANKS_MAX) {
        add_value(c, s, k - TAG_BLANKS_MAX);
        return k - TAG_BLANKS_MAX;
    }
    tag_read(s + k, n - k, &t);
    if (t.kind == TAG_PARAMETER_END && !c->depth) {
        end_value(c, s, k);
        return k + t.len;
    }
    enum tag_kind implied = t.kind == TAG_PARTIAL ? TAG_PARTIAL : implied_end(c, s, n, k, &t);
    if (implied == TAG_PARTIAL && !end)
        return 0;
    if (implied != TAG_NONE && implied != TAG_PARTIAL) {
        c->deviations++;
        end_value(c, s, k);
        return k;
    }
    if (k == n || (t.kind == TAG_PARTIAL && memchr(s, '\n', k))) { /* the end, within a tag */
        add_value(c, s, k && s[k - 1] == '\n' ? k - 1 : k);
        return n;
    }
    return nested(c, &t, s,
                  t.kind == TAG_NONE || t.kind == TAG_PARTIAL ? plain_run(s, n, k + 1) : k + t.len);
}

/* --- the whole --- */

static void advance(struct toolcall *c, bool end)
{
    static size_t (*const states[])(struct toolcall *, const char *, size_t, bool) = {
        [IN_TEXT] = in_text,
        [IN_BODY] = in_body,
        [IN_VALUE] = in_value,
        [AFTER_BODY] = after_body,
    };
    size_t at = 0, used = 1;
    enum state before = c->state;
    while (at < c->held.len && c->state != KEPT && (used || c->state != before)) {
        before = c->state;
        used = states[c->state](c, c->held.data + at, c->held.len - at, end);
        at += used;
    }
    if (at) {
        c->held.len -= at;
        memmove(c->held.data, c->held.data + at, c->held.len);
    }
    flush(c);
}

static int check(const struct toolcall *c, struct err *e)
{
    if (c->held.failed || c->text.failed || c->piece.failed || c->value.failed)
        return ERR(e, E_NOMEM, "no memory to read calls");
    return 0;
}

int toolcall_push(struct toolcall *c, const char *text, size_t len, struct err *e)
{
    if (!c->o.tools) {
        if (len)
            emit(c, TOOLCALL_TEXT, text, len);
        return 0;
    }
    buf_add(&c->held, text, len);
    if (!c->held.failed)
        advance(c, false);
    return check(c, e);
}

static void ignore(void *ctx, const struct toolcall_event *event)
{
    (void)ctx;
    (void)event;
}

/* All of a text, through a reader of its own. */
static int read_whole(const struct toolcall_options *o, const struct buf *text, int *calls,
                      int *deviations, struct err *e)
{
    struct toolcall *c;
    if (toolcall_open(o, &c, e))
        return -e->code;
    assert(c);
    int rc = toolcall_push(c, text->data, text->len, e);
    if (!rc)
        rc = toolcall_finish(c, e);
    *calls = c->n_calls;
    *deviations = c->deviations;
    toolcall_close(c);
    return rc;
}

/* The end of a strict reading: what was kept is calls, or text. */
static int finish_kept(struct toolcall *c, struct err *e)
{
    struct toolcall_options o = c->o;
    int deviations = 0;
    o.strict = false;
    o.on_event = ignore;
    if (!c->deviations && read_whole(&o, &c->held, &c->n_calls, &deviations, e))
        return -e->code;
    c->deviations += deviations;
    o.on_event = c->o.on_event;
    if (!c->deviations)
        return read_whole(&o, &c->held, &c->n_calls, &deviations, e);
    c->n_calls = 0;
    emit(c, TOOLCALL_TEXT, c->held.data, c->held.len);
    return 0;
}

void toolcall_cut(struct toolcall *c, bool only)
{
    c->cut = true;
    c->only = only;
}

int toolcall_finish(struct toolcall *c, struct err *e)
{
    if (!c->o.tools)
        return 0;
    if (c->state == KEPT)
        return finish_kept(c, e);
    advance(c, true);
    if (c->state == KEPT)
        return finish_kept(c, e);
    if (c->state == AFTER_BODY)
        c->deviations++;
    if (c->state == IN_BODY || c->state == IN_VALUE) {
        bool cut = c->state == IN_VALUE;
        c->deviations++;
        if (cut)
            end_value(c, "", 0);
        c->state = cut ? IN_VALUE : IN_BODY;
        end_call(c, IN_TEXT);
    }
    return check(c, e);
}

int toolcall_count(const struct toolcall *c)
{
    return c->n_calls;
}

int toolcall_deviations(const struct toolcall *c)
{
    return c->deviations;
}
