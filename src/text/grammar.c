/* Grammars: see grammar.h. Schemas and tools are written as GBNF first (text/schema.c). */
#include "text/grammar.h"

#include <string.h>

#include "base/mem.h"
#include "text/gbnf.h"
#include "text/reasoning.h"
#include "text/schema.h"

static int finish(struct grammar *g, enum grammar_start start, const char *where, struct err *e)
{
    struct buf text = BUF_INIT;
    const char *root = "root";
    int rc = 0;
    if (start == GRAMMAR_THINKING) {
        schema_until(&text, "think.", REASONING_CLOSE);
        buf_puts(&text, "start. ::= think.0 \"\\n\"{0,2} root\n");
        root = "start.";
        rc = buf_check(&text, e);
        if (!rc)
            rc = gbnf_add(&g->rules, text.data, text.len, true, where, e);
    }
    if (!rc)
        g->rules.root = rules_name(&g->rules, root, strlen(root), e);
    if (!rc && g->rules.root < 0)
        rc = -e->code;
    if (!rc)
        rc = rules_check(&g->rules, where, e);
    buf_free(&text);
    return rc;
}

static int make(const char *text, size_t len, bool own, enum grammar_start start,
                struct grammar **out, struct err *e)
{
    static const char *const names[] = {"grammar", "schema"};
    struct grammar *g = mem_zalloc(1, sizeof *g);
    *out = NULL;
    if (!g)
        return ERR(e, E_NOMEM, "no memory for a grammar");
    if (gbnf_add(&g->rules, text, len, own, names[own], e) || finish(g, start, names[own], e)) {
        grammar_free(g);
        return -e->code;
    }
    *out = g;
    return 0;
}

int grammar_of_gbnf(const char *text, size_t len, enum grammar_start start, struct grammar **out,
                    struct err *e)
{
    return make(text, len, false, start, out, e);
}

int grammar_of_object(enum grammar_start start, struct grammar **out, struct err *e)
{
    json_t *schema = json_pack("{s:s}", "type", "object");
    *out = NULL;
    int rc = schema ? grammar_of_schema(schema, start, out, e)
                    : ERR(e, E_NOMEM, "no memory for a grammar");
    json_decref(schema);
    return rc;
}

int grammar_of_schema(const json_t *schema, enum grammar_start start, struct grammar **out,
                      struct err *e)
{
    struct buf text = BUF_INIT;
    *out = NULL;
    int rc = schema_write(schema, &text, e);
    if (!rc)
        rc = make(text.data, text.len, true, start, out, e);
    buf_free(&text);
    return rc;
}

int grammar_of_tools(const struct toolset *t, const char *only, bool several,
                     enum grammar_start start, struct grammar **out, struct err *e)
{
    struct buf text = BUF_INIT;
    *out = NULL;
    int rc = schema_write_tools(t, only, several, &text, e);
    if (!rc)
        rc = make(text.data, text.len, true, start, out, e);
    buf_free(&text);
    return rc;
}

void grammar_free(struct grammar *g)
{
    if (!g)
        return;
    rules_free(&g->rules);
    mem_free(g);
}
