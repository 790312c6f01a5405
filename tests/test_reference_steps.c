/* Engine "reference": the same bits, however tokens are split into steps, whatever was rejected,
 * saved or restored on the way, and whoever shares the steps. Every comparison is of all bits of
 * all logits and drafts with a run that feeds one token at a time. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/mem.h"
#include "reference/reference.h"
#include "tests/aid_checkpoint.h"
#include "tests/aid_expect.h"

enum { CTX = 160, DEPTH = ENGINE_DRAFTS_MAX };

/* A model, a text, and what feeding the text token by token gave. */
struct plain {
    struct aid_weights m;
    struct engine *g;
    struct sequence *seq;
    int vocab, n;
    int32_t tokens[CTX];
    float *logits; /* [n][vocab], after token p */
    float *drafts; /* [n][DEPTH][vocab], after token p and the true next one; NULL without a head */
    float *room;   /* [ENGINE_ROWS_MAX][vocab] */
};

/* How many tokens of a text to use: fewer in a build that is slow, but past the QSA budget of
 * 16. */
static int positions(int n)
{
    return aid_slower() > 1 ? 30 : n;
}

static struct sequence *open_sequence(struct plain *t, int ctx)
{
    struct err e = {0};
    struct sequence *s;
    assert_ok(t->g->ops->sequence_open(t->g, ctx, &s, &e), e);
    return s;
}

static void feed(struct plain *t, struct sequence *s, const int32_t *tokens, int R, int keep)
{
    struct err e = {0};
    struct row rows[ENGINE_ROWS_MAX];
    for (int r = 0; r < R; r++)
        rows[r] = (struct row){s, tokens[r]};
    assert_ok(t->g->ops->step(t->g, rows, R, NULL, t->room, &e), e);
    assert_ok(t->g->ops->commit(t->g, s, keep, &e), e);
}

static size_t row_bytes(const struct plain *t)
{
    return (size_t)t->vocab * sizeof(float);
}

/* The token that follows position p; behind the end, any one. */
static int32_t next_token(const struct plain *t, int p)
{
    return p + 1 < t->n ? t->tokens[p + 1] : 1;
}

static void draft(struct plain *t, struct sequence *s, int p, float *out)
{
    struct err e = {0};
    int32_t tokens[DEPTH];
    assert_ok(t->g->ops->draft(s, next_token(t, p), DEPTH, tokens, out, &e), e);
    for (int d = 0; d < DEPTH; d++)
        assert_int_equal(tokens[d], engine_argmax(out + (size_t)d * t->vocab, t->vocab));
}

/* Row r of the last step must be what position p gave, bit for bit. */
static void same_logits(const struct plain *t, int r, int p)
{
    const float *want = t->logits + (size_t)p * t->vocab;
    if (memcmp(t->room + (size_t)r * t->vocab, want, row_bytes(t)) != 0)
        fail_msg("row %d at position %d has other logits", r, p);
}

/* Drafts behind position p, the last one committed. */
static void same_drafts(struct plain *t, struct sequence *s, int p)
{
    if (!t->drafts || p < 0)
        return;
    draft(t, s, p, t->room);
    if (memcmp(t->room, t->drafts + (size_t)p * DEPTH * t->vocab, DEPTH * row_bytes(t)) != 0)
        fail_msg("other drafts behind position %d", p);
}

static void plain_open(struct plain *t, const char *dir, int n, bool drafts)
{
    struct err e = {0};
    struct expect x;
    const struct engine_options o = {.mtp_norm = -1, .drafts = drafts};

    memset(t, 0, sizeof *t);
    aid_weights_open(&t->m, dir);
    assert_ok(reference_engine.open(&t->m.w, &o, &t->g, &e), e);
    t->vocab = t->m.w.config.vocab;
    expect_open(&x, dir);
    const json_t *all = expect_get(x.root, "sequences");
    const json_t *tokens = expect_get(json_array_get(all, json_array_size(all) - 1), "tokens");
    t->n = n;
    for (int p = 0; p < n; p++)
        t->tokens[p] = (int32_t)expect_int(tokens, (size_t)p);
    expect_close(&x);
    t->logits = mem_array((size_t)n, row_bytes(t));
    t->room = mem_array(ENGINE_ROWS_MAX, row_bytes(t));
    if (drafts && t->m.w.config.n_mtp)
        t->drafts = mem_array((size_t)n, DEPTH * row_bytes(t));
    t->seq = open_sequence(t, CTX);
    for (int p = 0; p < n; p++) {
        feed(t, t->seq, t->tokens + p, 1, 1);
        memcpy(t->logits + (size_t)p * t->vocab, t->room, row_bytes(t));
        if (t->drafts)
            draft(t, t->seq, p, t->drafts + (size_t)p * DEPTH * t->vocab);
    }
}

static void plain_close(struct plain *t)
{
    t->g->ops->sequence_close(t->seq);
    t->g->ops->close(t->g);
    aid_weights_close(&t->m);
    mem_free(t->logits);
    mem_free(t->drafts);
    mem_free(t->room);
}

static void check_split(struct plain *t, int rows)
{
    t->g->ops->sequence_reset(t->seq);
    for (int p = 0; p < t->n; p += rows) {
        int R = t->n - p < rows ? t->n - p : rows;
        feed(t, t->seq, t->tokens + p, R, R);
        for (int r = 0; r < R; r++)
            same_logits(t, r, p + r);
        same_drafts(t, t->seq, p + R - 1);
    }
    assert_int_equal(t->g->ops->sequence_length(t->seq), t->n);
}

/* Steps of `rows` rows whose tokens are right up to some row, and only those are kept: 0, 1, 2, ...
 * all in turn, or every 23rd number of many. Then the drafts are compared too, as a runner asks for
 * them. */
static void check_rejections(struct plain *t, int rows, bool with_drafts)
{
    int p = 0;
    t->g->ops->sequence_reset(t->seq);
    for (int i = 0; p < t->n; i++) {
        int32_t tokens[ENGINE_ROWS_MAX];
        int R = t->n - p < rows ? t->n - p : rows, keep = i * (rows > 8 ? 23 : 1) % (R + 1);
        for (int r = 0; r < R; r++)
            tokens[r] = r < keep ? t->tokens[p + r] : (t->tokens[p + r] + 1 + r) % t->vocab;
        feed(t, t->seq, tokens, R, keep);
        for (int r = 0; r < keep; r++)
            same_logits(t, r, p + r);
        p += keep;
        assert_int_equal(t->g->ops->sequence_length(t->seq), p);
        if (with_drafts)
            same_drafts(t, t->seq, p - 1);
    }
}

static void check_all(const char *dir, int n, const int *splits, int n_splits)
{
    struct plain t;
    plain_open(&t, dir, n, true);
    for (int i = 0; i < n_splits; i++) {
        check_split(&t, splits[i]);
        check_rejections(&t, splits[i], i % 2 == 0);
    }
    plain_close(&t);
}

static void test_splits_and_rejections(void **state)
{
    static const int many[] = {1, 2, 3, 4, 7, ENGINE_ROWS_MAX}, few[] = {5, ENGINE_ROWS_MAX};
    (void)state;
    check_all(GOLDENS "micro/mlx4", positions(90), many, 6);
    check_all(GOLDENS "v-ple2/mlx4", positions(40), few,
              2); /* two n-gram tables, four tokens long */
    check_all(GOLDENS "v-hc2/mlx4", positions(40), few, 2);     /* ends in a DeltaNet layer */
    check_all(GOLDENS "v-head128/mlx4", positions(40), few, 2); /* convolution of three taps */
    check_all(GOLDENS "v-nople/mlx4", positions(40), few, 2); /* neither n-grams nor a draft head */
}

/* The head's cache is extra work only: the trunk gives the same bits without it. */
static void test_without_drafts(void **state)
{
    struct plain with, without;
    (void)state;
    plain_open(&with, GOLDENS "micro/mlx4", 60, true);
    plain_open(&without, GOLDENS "micro/mlx4", 60, false);
    assert_memory_equal(with.logits, without.logits, 60 * row_bytes(&with));
    plain_close(&with);
    plain_close(&without);
}

static void save(struct plain *t, const struct sequence *s, struct buf *out)
{
    struct err e = {0};
    buf_clear(out);
    assert_ok(t->g->ops->save(t->g, s, out, &e), e);
}

static void restore(struct plain *t, struct sequence *s, const struct buf *from)
{
    struct err e = {0};
    assert_ok(t->g->ops->restore(t->g, s, from->data, from->len, &e), e);
}

/* At every position, past the QSA budget too: a restored sequence, which held another text before,
 * goes on as the saved one does, and saves the same bytes. */
static void test_save_and_restore(void **state)
{
    enum { ON = 5 };
    struct plain t;
    struct buf one = BUF_INIT, two = BUF_INIT;
    (void)state;
    plain_open(&t, GOLDENS "micro/mlx4", positions(100), true);
    struct sequence *other = open_sequence(&t, CTX);
    feed(&t, other, t.tokens + 10, t.n / 2, t.n / 2);
    t.g->ops->sequence_reset(t.seq);
    for (int p = 0; p < t.n; p++) {
        int on = p + ON < t.n && p % 10 == 0 ? ON : 1;
        save(&t, t.seq, &one);
        restore(&t, other, &one);
        assert_int_equal(t.g->ops->sequence_length(other), p);
        save(&t, other, &two);
        assert_int_equal(one.len, two.len);
        assert_memory_equal(one.data, two.data, one.len);
        same_drafts(&t, other, p - 1);
        for (int i = 0; i < on; i++) {
            feed(&t, other, t.tokens + p + i, 1, 1);
            same_logits(&t, 0, p + i);
        }
        same_drafts(&t, other, p + on - 1);
        feed(&t, t.seq, t.tokens + p, 1, 1);
        same_logits(&t, 0, p);
    }
    print_message("note: a save of %d tokens of micro has %zu bytes\n", t.n - 1, one.len);
    t.g->ops->sequence_close(other);
    buf_free(&one);
    buf_free(&two);
    plain_close(&t);
}

/* Pending rows are no part of a save, and a restore drops them. */
static void test_save_beside_pending_rows(void **state)
{
    struct plain t;
    struct err e = {0};
    struct buf one = BUF_INIT, two = BUF_INIT;
    (void)state;
    plain_open(&t, GOLDENS "micro/mlx4", 40, true);
    t.g->ops->sequence_reset(t.seq);
    feed(&t, t.seq, t.tokens, 30, 30);
    save(&t, t.seq, &one);
    const struct row rows[2] = {{t.seq, 7}, {t.seq, 8}};
    assert_ok(t.g->ops->step(t.g, rows, 2, NULL, t.room, &e), e);
    save(&t, t.seq, &two);
    assert_int_equal(one.len, two.len);
    assert_memory_equal(one.data, two.data, one.len);
    restore(&t, t.seq, &one);
    assert_ok(t.g->ops->commit(t.g, t.seq, 0, &e), e);
    feed(&t, t.seq, t.tokens + 30, 10, 10);
    for (int r = 0; r < 10; r++)
        same_logits(&t, r, 30 + r);
    buf_free(&one);
    buf_free(&two);
    plain_close(&t);
}

/* Two texts in shared steps: a runs through the text, b through the same text from an offset. */
static void test_two_sequences(void **state)
{
    enum { B_AT = 20, B_LEN = 40 };
    struct plain t;
    (void)state;
    plain_open(&t, GOLDENS "micro/mlx4", 70, true);
    struct sequence *b = open_sequence(&t, CTX);
    float *solo = mem_array(B_LEN, row_bytes(&t)), *draft_b = mem_array(DEPTH, row_bytes(&t));
    for (int p = 0; p < B_LEN; p++) {
        feed(&t, b, t.tokens + B_AT + p, 1, 1);
        memcpy(solo + (size_t)p * t.vocab, t.room, row_bytes(&t));
    }
    draft(&t, b, B_AT + B_LEN - 1, draft_b);
    t.g->ops->sequence_reset(b);
    t.g->ops->sequence_reset(t.seq);
    for (int pa = 0, pb = 0; pb < B_LEN; pa += 3, pb += 2) {
        struct err e = {0};
        struct row rows[5];
        for (int r = 0; r < 5; r++)
            rows[r] = r < 2 ? (struct row){b, t.tokens[B_AT + pb + r]}
                            : (struct row){t.seq, t.tokens[pa + r - 2]};
        assert_ok(t.g->ops->step(t.g, rows, 5, NULL, t.room, &e), e);
        assert_memory_equal(t.room, solo + (size_t)pb * t.vocab, 2 * row_bytes(&t));
        for (int r = 2; r < 5; r++)
            same_logits(&t, r, pa + r - 2);
        assert_ok(t.g->ops->commit(t.g, b, 2, &e), e);
        assert_ok(t.g->ops->commit(t.g, t.seq, 3, &e), e);
        same_drafts(&t, t.seq, pa + 2);
    }
    draft(&t, b, B_AT + B_LEN - 1, t.room);
    assert_memory_equal(t.room, draft_b, DEPTH * row_bytes(&t));
    t.g->ops->sequence_close(b);
    mem_free(solo);
    mem_free(draft_b);
    plain_close(&t);
}

/* A context that is exactly full, drafts beyond its end included, gives what a longer one gives. */
static void test_full_context(void **state)
{
    enum { N = 30 };
    struct plain t;
    struct err e = {0};
    (void)state;
    plain_open(&t, GOLDENS "micro/mlx4", N + 1, true);
    struct sequence *s = open_sequence(&t, N);
    feed(&t, s, t.tokens, N, N);
    for (int r = 0; r < N; r++)
        same_logits(&t, r, r);
    same_drafts(&t, s, N - 1);
    const struct row row = {s, 1};
    assert_int_equal(t.g->ops->step(t.g, &row, 1, NULL, t.room, &e), -E_LIMIT);
    same_drafts(&t, s, N - 1);
    t.g->ops->sequence_close(s);
    plain_close(&t);
}

/* Only the logits that are wanted are written. */
static void test_wanted_rows(void **state)
{
    struct plain t;
    struct err e = {0};
    static const bool want[4] = {false, true, false, true};
    struct row rows[4];
    (void)state;
    plain_open(&t, GOLDENS "micro/mlx4", 4, true);
    t.g->ops->sequence_reset(t.seq);
    for (int r = 0; r < 4; r++)
        rows[r] = (struct row){t.seq, t.tokens[r]};
    memset(t.room, 0x5A, 4 * row_bytes(&t));
    assert_ok(t.g->ops->step(t.g, rows, 4, want, t.room, &e), e);
    same_logits(&t, 1, 1);
    same_logits(&t, 3, 3);
    for (size_t i = 0; i < row_bytes(&t); i++) {
        assert_int_equal(((const unsigned char *)t.room)[i], 0x5A);
        assert_int_equal(((const unsigned char *)t.room)[2 * row_bytes(&t) + i], 0x5A);
    }
    plain_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits_and_rejections),
        cmocka_unit_test(test_without_drafts),
        cmocka_unit_test(test_save_and_restore),
        cmocka_unit_test(test_save_beside_pending_rows),
        cmocka_unit_test(test_two_sequences),
        cmocka_unit_test(test_full_context),
        cmocka_unit_test(test_wanted_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
