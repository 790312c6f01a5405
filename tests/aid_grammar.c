/* Grammars, masks and guides of tests: see aid_grammar.h. */
#include "tests/aid_grammar.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "text/toolset.h"

const char *aid_grammar_folder = DEMO;
struct tokenizer *aid_tokenizer;
struct lexicon *aid_lexicon;

int aid_grammar_open(void **state)
{
    (void)state;
    struct err e = {0};
    assert_ok(tokenizer_open(aid_grammar_folder, &aid_tokenizer, &e), e);
    uint64_t t = clock_ns();
    assert_ok(lexicon_open(aid_tokenizer, &aid_lexicon, &e), e);
    printf("note: tree of %d tokens: %d nodes in %.1f ms\n", aid_lexicon->n_ids,
           aid_lexicon->n_nodes, (double)(clock_ns() - t) * 1e-6);
    return 0;
}

int aid_grammar_close(void **state)
{
    (void)state;
    lexicon_close(aid_lexicon);
    tokenizer_close(aid_tokenizer);
    return 0;
}

int aid_grammar_make(char kind, const char *text, const char *only, enum grammar_start start,
                     struct grammar **g, struct err *e)
{
    struct grammar_spec spec = {.start = start, .only = only, .several = !only};
    struct toolset t;
    json_t *v = NULL, *strict = NULL;
    *g = NULL;
    spec.object = kind == 'o';
    spec.gbnf = kind == 'g' ? text : NULL;
    spec.gbnf_len = strlen(text);
    if (kind != 'g' && kind != 'o' && json_parse(text, strlen(text), "test", &v, e))
        return -e->code;
    int rc = toolset_init(&t, kind == 't' || kind == 'f' ? v : NULL, e);
    if (!rc && json_object_size(t.tools)) {
        spec.tools = &t;
        spec.must_call = kind == 't';
        strict = json_pack("{s:b}", "f", kind == 'f');
        spec.strict = strict;
    } else {
        spec.schema = v;
    }
    if (!rc) {
        rc = grammar_open(&spec, g, e);
        toolset_free(&t);
    }
    json_decref(strict);
    json_decref(v);
    return rc;
}

void aid_masks_open(struct aid_masks *b, char kind, const char *text, const char *only,
                    enum grammar_start start)
{
    struct err e = {0};
    if (aid_grammar_make(kind, text, only, start, &b->g, &e))
        fail_msg("%s: %s", text, e.msg);
    assert_ok(mask_table_open(b->g, aid_lexicon, &b->t, &e), e);
}

void aid_masks_close(struct aid_masks *b)
{
    mask_table_close(b->t);
    grammar_close(b->g);
}

void aid_guide_open(struct mask_table *t, bool opened, int budget, struct guide **out)
{
    struct err e = {0};
    int32_t stop = tokenizer_id(aid_tokenizer, "<|im_end|>");
    const struct guide_options o = {.tokenizer = aid_tokenizer,
                                    .table = t,
                                    .opened = opened,
                                    .budget = budget,
                                    .stop_ids = &stop,
                                    .n_stop_ids = 1};
    assert_ok(guide_open(&o, out, &e), e);
}

void aid_guide_draw(struct guide *guide, uint64_t seed, int most, struct buf *out)
{
    const struct constraint *c = guide_constraint(guide);
    size_t words = ((size_t)aid_lexicon->n_tokens + 31) / 32;
    uint32_t *bits = mem_array(words, sizeof *bits);
    int32_t stop = tokenizer_id(aid_tokenizer, "<|im_end|>");
    struct err e = {0};
    for (int k = 0;; k++) {
        int n = 0, want = -1;
        memset(bits, 0, words * sizeof *bits);
        bool held = c->mask(c->ctx, bits, aid_lexicon->n_tokens);
        assert_true(held);
        for (int id = 0; id < aid_lexicon->n_tokens; id++)
            n += bits[id / 32] >> (id % 32) & 1;
        assert_true(n > 0);
        if (bits[stop / 32] >> (stop % 32) & 1) {
            if (n == 1 || k >= most)
                break;
            n--;
        }
        static const char ends[] = "\"}]>0";
        for (const char *p = ends; *p && k >= most / 2 && want < 0; p++) {
            char one[2] = {*p};
            int32_t id = tokenizer_id(aid_tokenizer, one);
            if (id >= 0 && (bits[id / 32] >> (id % 32) & 1))
                want = id;
        }
        int skip = (int)(rng_at(seed, (uint64_t)k) % (uint64_t)n);
        for (int id = 0; want < 0; id++)
            if (id != stop && (bits[id / 32] >> (id % 32) & 1) && !skip--)
                want = id;
        size_t len;
        const char *s = tokenizer_bytes(aid_tokenizer, want, &len);
        buf_add(out, s, len);
        assert_ok(c->accept(c->ctx, want, &e), e);
        if (k > 4000)
            fail_msg("no end: %.200s", buf_str(out));
    }
    mem_free(bits);
}
