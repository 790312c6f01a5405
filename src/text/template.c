/* Compiling and rendering chat templates: see template.h.
 *
 *   source -> tokens -> tree -> names as slots        template_compile
 *   (template_lex.c, _parse.c and _expr.c, _resolve.c)
 *   tree + variables -> text                          template_render
 *   (template_exec.c statements, _eval.c expressions, _call.c calls; the rest are built-ins)
 *
 * A compiled template is never written to; each rendering has its own arena, freed at its end. */
#include "text/template.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/template_run.h"

/* One line for struct err: control characters, which template words may contain, become blanks. */
static void one_line(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 32 || *s == 127)
            *s = ' ';
}

static int fail_at(struct err *e, int code, const char *name, int line, const char *fmt, va_list ap)
{
    char msg[sizeof e->msg];
    vsnprintf(msg, sizeof msg, fmt, ap);
    one_line(msg);
    return ERR(e, code, "%s, line %d: %s", name, line, msg);
}

int compile_fail(struct compile *c, int code, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int rc = fail_at(c->e, code, c->name, line, fmt, ap);
    va_end(ap);
    return rc;
}

void *compile_alloc(struct compile *c, size_t n, size_t bytes)
{
    void *p = arena_alloc(c->arena, n, bytes);
    if (p)
        memset(p, 0, n * bytes);
    else
        ERR(c->e, E_NOMEM, "%s: out of memory for the template", c->name);
    return p;
}

static int compile(struct template *t, struct text source, struct err *e)
{
    struct compile c = {.arena = &t->arena, .name = t->name, .e = e};
    int rc = template_lex(&c, source);
    if (!rc)
        rc = template_parse(&c, &t->body);
    if (!rc)
        rc = template_resolve(&c, &t->body, &t->scope, &t->routine);
    mem_free(c.tokens);
    return rc;
}

int template_compile(const char *source, size_t len, const char *name, struct template **out,
                     struct err *e)
{
    *out = NULL;
    if (len > SOURCE_MAX)
        return ERR(e, E_LIMIT, "%s: a template of %zu bytes, want at most %d", name, len,
                   SOURCE_MAX);
    size_t good = utf8_valid_prefix(source, len);
    if (good < len)
        return ERR(e, E_FORMAT, "%s: not valid UTF-8 at byte %zu", name, good);
    struct template *t = mem_zalloc(1, sizeof *t);
    if (t)
        t->name = mem_strdup(name);
    int rc = t && t->name ? compile(t, (struct text){source, len}, e)
                          : ERR(e, E_NOMEM, "%s: out of memory for the template", name);
    if (rc)
        template_close(t);
    else
        *out = t;
    return rc;
}

void template_close(struct template *t)
{
    if (!t)
        return;
    arena_free(&t->arena);
    mem_free(t->name);
    mem_free(t);
}

int render_fail(struct render *r, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int rc = fail_at(r->e, code, r->t->name, r->line, fmt, ap);
    va_end(ap);
    return rc;
}

static int no_memory(struct render *r)
{
    if (r->arena.full)
        return render_fail(r, E_LIMIT, "the template needs more than %zu bytes of memory",
                           r->arena.limit);
    return render_fail(r, E_NOMEM, "out of memory");
}

void *render_alloc(struct render *r, size_t n, size_t bytes)
{
    void *p = arena_alloc(&r->arena, n, bytes);
    if (p)
        return memset(p, 0, n * bytes);
    no_memory(r);
    return NULL;
}

int render_steps(struct render *r, size_t n)
{
    if (n >= (size_t)LONG_MAX || (r->steps += (long)n) > r->lim.steps)
        return render_fail(r, E_LIMIT, "the template takes more than %ld steps", r->lim.steps);
    return 0;
}

int render_bytes(struct render *r, size_t n)
{
    return n < STEP_BYTES ? 0 : render_steps(r, n / STEP_BYTES);
}

int render_enter(struct render *r)
{
    if (++r->nest > NEST_MAX)
        return render_fail(r, E_LIMIT, "expressions or values are nested deeper than %d levels",
                           NEST_MAX);
    return 0;
}

void render_leave(struct render *r)
{
    r->nest--;
}

int render_grown(struct render *r, size_t n, size_t added)
{
    if (n > r->lim.bytes)
        return render_fail(r, E_LIMIT, "a text would grow longer than %zu bytes", r->lim.bytes);
    return render_bytes(r, added);
}

int render_take(struct render *r, struct buf *b, int rc, struct value *out)
{
    if (!rc && b->failed)
        rc = render_fail(r, E_NOMEM, "out of memory");
    if (!rc)
        rc = render_grown(r, b->len, b->len);
    if (!rc) {
        char *p = arena_copy(&r->arena, b->data, b->len);
        if (p)
            *out = V_STR(((struct text){p, b->len}));
        else
            rc = no_memory(r);
    }
    buf_free(b);
    return rc;
}

static struct template_limits limits_of(const struct template_limits *lim)
{
    struct template_limits l = lim ? *lim : (struct template_limits){0};
    if (l.steps <= 0)
        l.steps = 1000000;
    if (l.depth <= 0)
        l.depth = 64;
    if (l.bytes == 0)
        l.bytes = (size_t)64 << 20;
    return l;
}

static int run(struct render *r, const json_t *vars)
{
    struct value v;
    int rc = value_from_json(r, vars, &v);
    if (rc)
        return rc;
    r->vars = v.dict;
    r->act = activation_new(r, &r->t->routine, NULL);
    return r->act ? exec_template(r) : -r->e->code;
}

int template_render(const struct template *t, const json_t *vars, const struct template_limits *lim,
                    struct buf *out, struct err *e)
{
    struct buf text = BUF_INIT;
    struct render r = {.t = t, .lim = limits_of(lim), .e = e, .out = &text, .line = 1};
    if (!json_is_object(vars))
        return ERR(e, E_ARG, "%s: the variables must be a JSON object", t->name);
    r.arena.limit = r.lim.bytes > SIZE_MAX / ARENA_TIMES ? SIZE_MAX : r.lim.bytes * ARENA_TIMES;
    int rc = run(&r, vars);
    if (!rc && text.failed)
        rc = render_fail(&r, E_NOMEM, "out of memory");
    char *room = rc ? NULL : buf_reserve(out, text.len);
    if (room) {
        memcpy(room, buf_str(&text), text.len + 1);
        out->len += text.len;
    } else if (!rc) {
        rc = buf_check(out, e);
    }
    buf_free(&text);
    arena_free(&r.arena);
    return rc;
}
