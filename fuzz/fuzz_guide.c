/* Answers under a guide: thinking with a budget, then a grammar. The first byte says whether the
 * prompt has opened <think>, the budget, and which grammar; the others choose among the tokens that
 * the mask allows. Every one of these is accepted, thinking ends within its budget, and whoever
 * splits the text finds in the answer what the grammar allows. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/guide.h"
#include "text/reasoning.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { GRAMMARS = 3, TOKENS_MAX = 300 };

static struct {
    struct tokenizer *tokenizer;
    struct lexicon *lexicon;
    struct grammar *grammars[2][GRAMMARS];
    struct mask_table *tables[2][GRAMMARS];
    uint32_t *bits;
    int32_t stop;
} all; /* opened once, and kept */

static void must(int rc)
{
    if (rc)
        abort();
}

static void open_all(void)
{
    static const char gbnf[] = "root ::= \"yes\" | \"no\" [a-c]*";
    struct err e = {0};
    json_t *schema = json_pack("{s:s, s:{s:{s:s}}, s:[s]}", "type", "object", "properties", "a",
                               "type", "integer", "required", "a");
    must(tokenizer_open("models/demo", &all.tokenizer, &e));
    must(lexicon_open(all.tokenizer, &all.lexicon, &e));
    all.bits = mem_array((size_t)all.lexicon->n_tokens / 32 + 1, sizeof *all.bits);
    all.stop = tokenizer_id(all.tokenizer, "<|im_end|>");
    for (int start = 0; start < 2; start++)
        for (int i = 0; i < GRAMMARS; i++) {
            const struct grammar_spec spec = {.start = (enum grammar_start)start,
                                              .gbnf = i == 1 ? gbnf : NULL,
                                              .gbnf_len = strlen(gbnf),
                                              .object = i == 0,
                                              .schema = i == 2 ? schema : NULL};
            must(grammar_open(&spec, &all.grammars[start][i], &e));
            must(mask_table_open(all.grammars[start][i], all.lexicon, &all.tables[start][i], &e));
        }
    json_decref(schema);
}

/* The token that a byte chooses, all of them in reach; -1: none is allowed. */
static int32_t choose(uint8_t byte)
{
    const int n_tokens = all.lexicon->n_tokens, from = byte * n_tokens / 256;
    for (int i = 0; i < n_tokens; i++) {
        const int id = (from + i) % n_tokens;
        if (all.bits[id / 32] >> (id % 32) & 1)
            return id;
    }
    return -1;
}

/* Whether the answer is a beginning of what the grammar allows; or all of it. */
static void check_answer(int which, const struct buf *text, bool opened, bool whole)
{
    struct reasoning r;
    struct buf thinking = BUF_INIT, answer = BUF_INIT;
    struct err e = {0};
    struct mask *m;
    reasoning_init(&r, opened);
    reasoning_push(&r, buf_str(text), text->len, &thinking, &answer);
    reasoning_finish(&r, &thinking, &answer);
    must(mask_open(all.tables[0][which], &m, &e));
    must(mask_feed(m, buf_str(&answer), answer.len, &e));
    if (whole && !mask_done(m))
        abort();
    mask_close(m);
    reasoning_free(&r);
    buf_free(&thinking);
    buf_free(&answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct err e = {0};
    struct guide *g;
    struct buf text = BUF_INIT;
    bool ended = false;
    if (n == 0)
        return 0;
    if (!all.tokenizer)
        open_all();
    const bool opened = data[0] & 1;
    const int budget = (data[0] >> 1) % 8, which = (data[0] >> 4) % GRAMMARS;
    const struct guide_options o = {.tokenizer = all.tokenizer,
                                    .table = all.tables[opened][which],
                                    .opened = opened,
                                    .budget = budget ? budget : -1,
                                    .stop_ids = &all.stop,
                                    .n_stop_ids = 1};
    must(guide_open(&o, &g, &e));
    const struct constraint *c = guide_constraint(g);
    for (size_t i = 1; i < n && i < TOKENS_MAX && !ended; i++) {
        size_t len;
        memset(all.bits, 0, ((size_t)all.lexicon->n_tokens / 32 + 1) * sizeof *all.bits);
        if (!c->mask(c->ctx, all.bits, all.lexicon->n_tokens))
            abort();
        const int32_t id = choose(data[i]);
        must(id < 0 || c->accept(c->ctx, id, &e));
        ended = id == all.stop;
        const char *s = tokenizer_bytes(all.tokenizer, id, &len);
        if (!ended)
            buf_add(&text, s, len);
    }
    check_answer(which, &text, opened, ended);
    guide_close(g);
    buf_free(&text);
    return 0;
}
