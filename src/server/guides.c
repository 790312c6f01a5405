/* Grammars of requests: see guides.h. */
#include "server/guides.h"

#include <pthread.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

struct guides_loan {
    struct buf key; /* what was asked for, as text */
    struct grammar *grammar;
    struct mask_table *table;
    int users;
    struct guides_loan *next; /* those used lately come first */
};

struct guides {
    const struct model *m;
    pthread_mutex_t lock; /* guards what is below */
    struct lexicon *lexicon;
    struct guides_loan *first;
    uint64_t n_made, n_found;
};

int guides_open(const struct model *m, struct guides **out, struct err *e)
{
    struct guides *s = mem_zalloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return ERR(e, E_NOMEM, "no memory for grammars");
    s->m = m;
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return 0;
}

static void free_loan(struct guides_loan *l)
{
    if (!l)
        return;
    mask_table_close(l->table);
    grammar_close(l->grammar);
    buf_free(&l->key);
    mem_free(l);
}

void guides_close(struct guides *s)
{
    if (!s)
        return;
    while (s->first) {
        struct guides_loan *l = s->first;
        s->first = l->next;
        free_loan(l);
    }
    lexicon_close(s->lexicon);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

/* --- what is asked for --- */

/* Whether anything is asked for that a grammar must hold. */
static bool spec_of(const struct ask *a, const struct toolset *tools, bool thinking,
                    struct grammar_spec *out)
{
    *out = (struct grammar_spec){
        .start = thinking ? GRAMMAR_THINKING : GRAMMAR_ANSWER,
        .gbnf = a->format == ASK_GRAMMAR ? a->grammar : NULL,
        .gbnf_len = a->format == ASK_GRAMMAR ? strlen(a->grammar) : 0,
        .object = a->format == ASK_JSON,
        .schema = a->format == ASK_SCHEMA ? a->schema : NULL,
        .lenient = a->lenient,
        .tools = tools,
        .strict = a->strict,
        .only = a->tool_choice == ASK_TOOLS_NAMED ? a->tool_name : NULL,
        .several = a->parallel_tools,
        .must_call = ask_must_call(a),
    };
    return a->format != ASK_TEXT || (tools && (ask_must_call(a) || json_object_size(a->strict)));
}

/* All that the grammar is made of. */
static int key_of(const struct grammar_spec *s, struct buf *key, struct err *e)
{
    buf_printf(key, "%d%d%d%d%d ", s->start, s->object, s->lenient, s->several, s->must_call);
    if (s->gbnf)
        buf_printf(key, "g%zu %s", s->gbnf_len, s->gbnf);
    if (s->schema && json_print(s->schema, JSON_COMPACT | JSON_ENCODE_ANY, key, e))
        return -e->code;
    if (s->tools) {
        buf_printf(key, "\n%s\n", s->only ? s->only : "");
        if (json_print(s->tools->tools, JSON_COMPACT, key, e) ||
            (s->strict && json_print(s->strict, JSON_COMPACT, key, e)))
            return -e->code;
    }
    return buf_check(key, e);
}

/* --- what is kept; the lock is held --- */

static struct guides_loan *find(struct guides *s, const struct buf *key)
{
    for (struct guides_loan **at = &s->first; *at; at = &(*at)->next) {
        struct guides_loan *l = *at;
        if (l->key.len != key->len || memcmp(l->key.data, key->data, key->len) != 0)
            continue;
        *at = l->next;
        l->next = s->first;
        s->first = l;
        return l;
    }
    return NULL;
}

static int make(struct guides *s, const struct grammar_spec *spec, struct buf *key,
                struct guides_loan **out, struct err *e)
{
    struct guides_loan *l = mem_zalloc(1, sizeof *l);
    int rc = l ? 0 : ERR(e, E_NOMEM, "no memory for a grammar");
    if (!rc && !s->lexicon)
        rc = lexicon_open(s->m->tokenizer, &s->lexicon, e);
    if (!rc)
        rc = grammar_open(spec, &l->grammar, e);
    if (!rc)
        rc = mask_table_open(l->grammar, s->lexicon, &l->table, e);
    if (rc) {
        free_loan(l);
        return rc;
    }
    l->key = *key;
    *key = BUF_INIT;
    l->next = s->first;
    s->first = l;
    *out = l;
    return 0;
}

/* Those that nobody used for the longest time go first. */
static void forget(struct guides *s)
{
    size_t bytes = 0;
    int n = 0;
    for (struct guides_loan **at = &s->first; *at;) {
        struct guides_loan *l = *at;
        bytes += l->users ? 0 : mask_table_bytes(l->table);
        n += !l->users;
        if (!l->users && (n > GUIDES_KEPT_MAX || bytes > GUIDES_BYTES_MAX)) {
            *at = l->next;
            free_loan(l);
        } else {
            at = &l->next;
        }
    }
}

/* The field whose grammar cannot be made: where a format and strict tools are asked for, the format
 * if it fails alone. */
static const char *field_of(const struct ask *a, const struct grammar_spec *spec)
{
    struct grammar_spec alone = *spec;
    struct grammar *g = NULL;
    struct err ignored = {0};
    if (ask_must_call(a) || a->format == ASK_TEXT)
        return "tools";
    alone.tools = NULL;
    const bool tools = spec->tools && grammar_open(&alone, &g, &ignored) == 0;
    grammar_close(g);
    return tools ? "tools" : a->format_field;
}

int guides_lend(struct guides *s, const struct ask *a, const struct toolset *tools, bool thinking,
                struct guides_loan **out, struct wrong *w)
{
    struct grammar_spec spec;
    struct buf key = BUF_INIT;
    *out = NULL;
    if (!spec_of(a, tools, thinking, &spec))
        return 0;
    int rc = key_of(&spec, &key, &w->e);
    pthread_mutex_lock(&s->lock);
    struct guides_loan *l = rc ? NULL : find(s, &key);
    s->n_found += l != NULL;
    if (!rc && !l) {
        rc = make(s, &spec, &key, &l, &w->e);
        s->n_made += rc == 0;
    }
    if (l)
        l->users++;
    forget(s);
    pthread_mutex_unlock(&s->lock);
    buf_free(&key);
    if (rc)
        rc = wrong_field(w, field_of(a, &spec));
    *out = l;
    return rc;
}

void guides_return(struct guides *s, struct guides_loan *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&s->lock);
    l->users--;
    forget(s);
    pthread_mutex_unlock(&s->lock);
}

int guides_guide(const struct guides *s, const struct guides_loan *l, const struct ask *a,
                 bool thinking, struct guide **out, struct err *e)
{
    const struct guide_options o = {
        .tokenizer = s->m->tokenizer,
        .table = l ? l->table : NULL,
        .opened = thinking,
        .budget = (int)a->think_budget,
        .stop_ids = s->m->stop_ids,
        .n_stop_ids = s->m->n_stop_ids,
    };
    *out = NULL;
    return l || (thinking && a->think_budget >= 0) ? guide_open(&o, out, e) : 0;
}

void guides_stats(struct guides *s, struct guides_stats *out)
{
    *out = (struct guides_stats){0};
    pthread_mutex_lock(&s->lock);
    for (struct guides_loan *l = s->first; l; l = l->next) {
        out->grammars++;
        out->on_loan += l->users > 0;
        out->bytes += mask_table_bytes(l->table);
    }
    out->n_made = s->n_made;
    out->n_found = s->n_found;
    pthread_mutex_unlock(&s->lock);
}
