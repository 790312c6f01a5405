/* Engine "reference" on packed stores: the bits that the checkpoints give, for every golden model,
 * and the golden values themselves for the one whose original is unquantised. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "reference/reference.h"
#include "tests/aid_checkpoint.h"
#include "tests/aid_golden.h"
#include "tests/aid_oracle.h"

enum { N = 24, DEPTH = 2 };

static char *tmp; /* of the group */

static int set_up(void **state)
{
    (void)state;
    tmp = aid_tmpdir();
    return tmp == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    aid_rmdir(tmp);
    return 0;
}

struct packed {
    struct store *store;
    struct weights w;
};

static void packed_open(struct packed *p, const char *checkpoint, const char *name)
{
    struct err e = {0};
    struct weight_source source;
    char *dir = file_join(tmp, name);
    struct aid_output o;
    const char *const argv[] = {"cherenkov", "pack", checkpoint, "--output", dir, NULL};
    assert_non_null(dir);
    aid_run(argv, NULL, &o);
    if (o.status)
        fail_msg("pack %s: %s", checkpoint, buf_str(&o.err));
    aid_output_free(&o);
    assert_ok(store_open(dir, &p->store, &e), e);
    mem_free(dir);
    weights_source_store(p->store, &source);
    assert_ok(weights_init(&p->store->config, &source, &p->w, &e), e);
}

static void packed_close(struct packed *p)
{
    weights_free(&p->w);
    store_close(p->store);
}

/* Logits of N tokens, then drafts, appended to out. */
static void run(const struct weights *w, int bits, struct buf *out)
{
    struct err e = {0};
    const struct engine_options o = {.expert_bits = bits, .mtp_norm = -1, .drafts = true};
    struct engine *g;
    struct sequence *s;
    size_t vocab = (size_t)w->config.vocab;
    float *logits = mem_array(N * vocab, sizeof *logits);
    struct row rows[N];
    int32_t tokens[DEPTH];
    assert_non_null(logits);
    assert_ok(reference_engine.open(w, &o, &g, &e), e);
    assert_ok(g->ops->sequence_open(g, N, &s, &e), e);
    for (int r = 0; r < N; r++)
        rows[r] = (struct row){s, (int32_t)((size_t)(r * 37 + 5) % vocab)};
    assert_ok(g->ops->step(g, rows, N, NULL, logits, &e), e);
    assert_ok(g->ops->commit(g, s, N, &e), e);
    buf_add(out, logits, N * vocab * sizeof *logits);
    if (w->config.n_mtp) {
        assert_ok(g->ops->draft(s, 3, DEPTH, tokens, logits, &e), e);
        buf_add(out, logits, DEPTH * vocab * sizeof *logits);
    }
    g->ops->sequence_close(s);
    g->ops->close(g);
    mem_free(logits);
    assert_ok(buf_check(out, &e), e);
}

static void check_same_bits(const char *checkpoint, const char *name)
{
    struct aid_weights m;
    struct packed p;
    aid_weights_open(&m, checkpoint);
    packed_open(&p, checkpoint, name);
    int least = aid_slower() > 1 ? 4 : 2; /* a slow build: as they are, and no cut experts */
    for (int bits = 4; bits >= least; bits--) {
        struct buf one = BUF_INIT, two = BUF_INIT;
        run(&m.w, bits, &one);
        run(&p.w, bits, &two);
        assert_int_equal(one.len, two.len);
        if (memcmp(one.data, two.data, one.len) != 0)
            fail_msg("%s: the store gives other bits than the checkpoint", name);
        buf_free(&one);
        buf_free(&two);
    }
    packed_close(&p);
    aid_weights_close(&m);
}

static void test_same_bits(void **state)
{
    static const char *const names[] = {"micro",    "v-hc2",   "v-head128", "v-mtpall",
                                        "v-nonorm", "v-nople", "v-ple2",    "v-rope",
                                        "v-silu",   "deep",    "wide"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        check_same_bits(aid_golden(names[i]), names[i]);
    check_same_bits(DEMO, "demo");
}

/* Packing quantises the unquantised original: then it has the values of the 4-bit conversion. */
static void test_unquantised_original(void **state)
{
    struct packed p;
    (void)state;
    packed_open(&p, GOLDENS "micro/bf16", "bf16");
    oracle_check(&p.w, GOLDENS "micro/mlx4");
    packed_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_unquantised_original),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
