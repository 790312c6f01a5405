/* An engine "reference" on a model: see aid_reference.h. */
#include "tests/aid_reference.h"

#include "base/mem.h"
#include "tests/aid_test.h"

const struct engine_options bench_defaults = {.mtp_norm = -1, .drafts = true};

const int32_t bench_text[BENCH_TEXT] = {79,  3,  410, 7,  7, 255, 486, 12, 300, 41, 5,
                                        6,   77, 500, 1,  0, 9,   9,   9,  31,  8,  64,
                                        450, 2,  19,  88, 4, 3,   2,   1,  7,   8};

void bench_open(struct bench *b, const char *dir, const struct engine_options *o)
{
    struct err e = {0};
    aid_weights_open(&b->m, dir);
    assert_ok(reference_engine.open(&b->m.w, o, &b->g, &e), e);
    assert_ok(b->g->ops->sequence_open(b->g, BENCH_CTX, &b->seq, &e), e);
    b->logits = mem_array((size_t)b->m.w.config.vocab, ENGINE_ROWS_MAX * sizeof(float));
    assert_non_null(b->logits);
}

void bench_close(struct bench *b)
{
    mem_free(b->logits);
    b->g->ops->sequence_close(b->seq);
    b->g->ops->close(b->g);
    aid_weights_close(&b->m);
}

int bench_step(struct bench *b, int n, struct err *e)
{
    struct row rows[ENGINE_ROWS_MAX];
    int at = b->g->ops->sequence_length(b->seq);
    for (int r = 0; r < n; r++)
        rows[r] = (struct row){b->seq, bench_text[(at + r) % BENCH_TEXT]};
    return b->g->ops->step(b->g, rows, n, NULL, b->logits, e);
}

void bench_feed(struct bench *b, int n)
{
    struct err e = {0};
    assert_ok(bench_step(b, n, &e), e);
    assert_ok(b->g->ops->commit(b->g, b->seq, n, &e), e);
}

void bench_save(struct bench *b, struct buf *out)
{
    struct err e = {0};
    buf_clear(out);
    assert_ok(b->g->ops->save(b->g, b->seq, out, &e), e);
}

void bench_same_save(struct bench *b, const struct buf *want)
{
    struct buf now = BUF_INIT;
    bench_save(b, &now);
    assert_int_equal(now.len, want->len);
    assert_memory_equal(now.data, want->data, now.len);
    buf_free(&now);
}
