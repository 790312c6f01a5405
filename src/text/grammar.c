/* Grammars: see grammar.h. Schemas and tools are written as GBNF first (text/schema.c). */
#include "text/grammar.h"

#include <string.h>

#include "base/mem.h"
#include "text/gbnf.h"
#include "text/reasoning.h"
#include "text/schema.h"

/* Behind the thinking, if there is any, what the spec asks for. */
static int write_rules(const struct grammar_spec *s, struct buf *text, struct err *e)
{
    if (schema_write(s, text, e))
        return -e->code;
    if (s->start == GRAMMAR_THINKING) {
        schema_until(text, "think.", REASONING_CLOSE);
        buf_puts(text, "start. ::= think.0 \"\\n\"{0,2} answer.\n");
    }
    return buf_check(text, e);
}

static int make(struct grammar *g, const struct grammar_spec *s, struct err *e)
{
    const char *where = s->gbnf ? "grammar" : "schema";
    const char *root = s->start == GRAMMAR_THINKING ? "start." : "answer.";
    struct buf text = BUF_INIT;
    int rc = s->gbnf ? gbnf_add(&g->rules, s->gbnf, s->gbnf_len, false, where, e) : 0;
    if (!rc)
        rc = write_rules(s, &text, e);
    if (!rc)
        rc = gbnf_add(&g->rules, text.data, text.len, true, where, e);
    if (!rc) {
        g->rules.root = rules_name(&g->rules, root, strlen(root), e);
        rc = g->rules.root < 0 ? -e->code : rules_check(&g->rules, where, e);
    }
    buf_free(&text);
    return rc;
}

int grammar_open(const struct grammar_spec *s, struct grammar **out, struct err *e)
{
    struct grammar *g = mem_zalloc(1, sizeof *g);
    *out = NULL;
    if (!g)
        return ERR(e, E_NOMEM, "no memory for a grammar");
    if (make(g, s, e)) {
        grammar_close(g);
        return -e->code;
    }
    *out = g;
    return 0;
}

void grammar_close(struct grammar *g)
{
    if (!g)
        return;
    rules_free(&g->rules);
    mem_free(g);
}
