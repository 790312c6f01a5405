/* --cut-weak: what is dropped, and that nothing else changes. An expert that was dropped adds
 * nothing, and so does one whose weights are all zero: an engine that dropped some gives the bits
 * of a plain one on a store in which just those are zero. */
#include "tests/aid_test.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "stream/reader.h"
#include "stream/stream.h"
#include "tests/aid_cpu.h"

enum { TEXT = 24, CTX = 64, K_MAX = 16, EXPERTS_FILE = 1 };

static struct aid_packed packed, zeroed; /* "micro"; the second one's experts are changed */
static int32_t text[TEXT];

static int set_up(void **state)
{
    (void)state;
    aid_packed_open(&packed, GOLDENS "micro/mlx4");
    aid_packed_open(&zeroed, GOLDENS "micro/mlx4");
    aid_tokens(41, packed.w.config.vocab, TEXT, text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    aid_packed_close(&zeroed);
    aid_packed_close(&packed);
    return 0;
}

/* Writes the record of an expert of `zeroed`: as it was, or zeros. */
static void set_record(int il, int ie, bool zero)
{
    const struct records *r = &packed.store->records[4];
    size_t i = (size_t)il * (size_t)packed.w.config.E + (size_t)ie;
    struct err e = {0};
    struct file f;
    uint8_t *none = mem_zalloc(1, (size_t)r->stride);
    assert_non_null(none);
    assert_ok(file_reopen(zeroed.store->records[4].path, &f, &e), e);
    assert_ok(
        file_write_at(&f, i * r->stride, zero ? none : records_at(r, i), (size_t)r->stride, &e), e);
    assert_ok(file_close(&f, &e), e);
    mem_free(none);
}

static void set_all(bool zero)
{
    const struct expert_layout *x = &packed.store->manifest.experts;
    for (int il = 0; il < x->n_layers; il++)
        for (int ie = 0; ie < x->E; ie++)
            set_record(il, ie, zero);
}

/* What the first layer's experts did for one token. */
struct seen_moe {
    int ids[K_MAX];
    float weight[K_MAX], out[4096];
    int K, h;
};

static void see_floats(void *ctx, enum seen what, int il, int pos, const float *x, size_t n)
{
    struct seen_moe *s = ctx;
    (void)pos;
    if (il != 0 || (what != SEEN_MOE && what != SEEN_ROUTE_WEIGHT))
        return;
    assert_true(n <= (what == SEEN_MOE ? sizeof s->out / sizeof *s->out : K_MAX));
    memcpy(what == SEEN_MOE ? s->out : s->weight, x, n * sizeof *x);
    *(what == SEEN_MOE ? &s->h : &s->K) = (int)n;
}

static void see_ints(void *ctx, enum seen what, int il, int pos, const int64_t *ids, size_t n)
{
    struct seen_moe *s = ctx;
    (void)pos;
    for (size_t i = 0; il == 0 && what == SEEN_ROUTE && i < n; i++)
        s->ids[i] = (int)ids[i];
}

/* An engine with a small pool that cuts below w; its reads are spoilt. */
static struct reader_faults *open_cutting(struct aid_run *r, double w, const struct observer *o,
                                          const struct reader_faults *f)
{
    struct engine_options options = aid_run_defaults;
    struct err e = {0};
    struct reader *inner, *outer;
    struct reader_faults *live;
    options.pool_slots = stream_slots_min(packed.store);
    options.cut_weak = w;
    options.observe = o;
    options.read_depth = 1;
    assert_ok(reader_open(ENGINE_READS_AUTO, READER_DEPTH_MAX, &inner, &e), e);
    assert_ok(reader_fault_open(inner, f, &outer, &live, &e), e);
    assert_ok(cpu_open_tampered(&packed.w, &options, outer, 0, &r->g, &e), e);
    assert_ok(r->g->ops->sequence_open(r->g, CTX, &r->seq, &e), e);
    r->vocab = packed.w.config.vocab;
    return live;
}

static uint64_t count_cut(const struct aid_run *r)
{
    const struct counters *c = r->g->ops->counters(r->g);
    uint64_t n = 0;
    for (int il = 0; il < c->n_layers; il++)
        n += c->layer[il].cut;
    return n;
}

static float *feed(struct aid_run *r)
{
    float *logits = mem_array((size_t)r->vocab * TEXT, sizeof *logits);
    assert_non_null(logits);
    aid_run_feed(r, text, TEXT, 1, logits);
    return logits;
}

static float *plain_logits(const struct aid_packed *p)
{
    struct aid_run r;
    aid_run_open(&r, &cpu_engine, &p->w, &aid_run_defaults, CTX);
    float *logits = feed(&r);
    aid_run_close(&r);
    return logits;
}

static void expect(const float *got, const float *want, const char *what)
{
    aid_same_floats(got, want, (size_t)packed.w.config.vocab * TEXT, what);
}

/* Nothing is lighter than nothing; and what is there is used, however light. */
static void test_nothing_to_cut(void **state)
{
    const struct reader_faults slow = {.seed = 1, .delay = 2, .reorder = true};
    struct engine_options all = aid_run_defaults;
    struct aid_run r;
    float *want = plain_logits(&packed), *got;
    (void)state;
    open_cutting(&r, 1e-30, NULL, &slow);
    got = feed(&r);
    expect(got, want, "below 1e-30");
    assert_int_equal(count_cut(&r), 0);
    mem_free(got);
    aid_run_close(&r);

    all.cut_weak = 1;
    aid_run_open(&r, &cpu_engine, &packed.w, &all, CTX);
    aid_run_prefill(&r, text, TEXT, TEXT, NULL); /* never cuts, and keeps what it read */
    r.g->ops->sequence_reset(r.seq);
    got = feed(&r);
    expect(got, want, "all are there");
    assert_int_equal(count_cut(&r), 0);
    mem_free(got);
    aid_run_close(&r);
    mem_free(want);
}

/* No record ever comes: every expert of every layer is dropped. */
static void test_all_are_cut(void **state)
{
    const struct reader_faults never = {.hold = EXPERTS_FILE};
    struct aid_run r;
    (void)state;
    set_all(true);
    float *want = plain_logits(&zeroed), *whole = plain_logits(&packed);
    set_all(false);
    struct reader_faults *live = open_cutting(&r, 1, NULL, &never);
    float *got = feed(&r);
    expect(got, want, "all are cut");
    assert_memory_not_equal(want, whole, (size_t)r.vocab * TEXT * sizeof *want);
    assert_int_equal(count_cut(&r), TEXT * packed.w.config.n_layers * packed.w.config.K);
    live->hold = 0;
    aid_run_close(&r);
    mem_free(want);
    mem_free(whole);
    mem_free(got);
}

/* The first layer's output for one token, of a plain engine on `zeroed`. */
static void plain_moe(int32_t token, struct seen_moe *s)
{
    const struct observer o = {s, see_floats, see_ints};
    struct engine_options options = aid_run_defaults;
    struct aid_run r;
    options.observe = &o;
    aid_run_open(&r, &cpu_engine, &zeroed.w, &options, CTX);
    aid_run_feed(&r, &token, 1, 1, NULL);
    aid_run_close(&r);
}

/* Cuts below the second largest weight: one read at a time, the heavy ones first, so that what is
 * late is the lightest. Returns how many were. */
static int cut_one(int32_t token, uint64_t seed)
{
    const struct reader_faults slow = {.seed = seed, .delay = 1};
    static struct seen_moe whole, cut, want;
    const struct observer o = {&cut, see_floats, see_ints};
    struct aid_run r;
    plain_moe(token, &whole);
    open_cutting(&r, (double)whole.weight[1], &o, &slow);
    aid_run_feed(&r, &token, 1, 1, NULL);
    int n = (int)r.g->ops->counters(r.g)->layer[0].cut;
    aid_run_close(&r);
    assert_memory_equal(cut.ids, whole.ids, sizeof *cut.ids * (size_t)cut.K);
    assert_in_range(n, 0, cut.K - 2);
    for (int k = 0; k < n; k++)
        set_record(0, cut.ids[cut.K - 1 - k], true);
    plain_moe(token, &want);
    aid_same_floats(cut.out, want.out, (size_t)want.h, "what was late is left out");
    for (int k = 0; k < n; k++)
        set_record(0, cut.ids[cut.K - 1 - k], false);
    assert_int_equal(memcmp(cut.out, whole.out, sizeof *cut.out * (size_t)cut.h) == 0, n == 0);
    return n;
}

static void test_the_lightest_are_cut(void **state)
{
    int n = 0;
    (void)state;
    for (int i = 0; i < TEXT; i++)
        n += cut_one(text[i], (uint64_t)i + 1);
    print_message("note: %d experts of %d tokens were late and light\n", n, TEXT);
    assert_true(n > 0);
}

static void test_wrong_weights(void **state)
{
    static const double wrong[] = {-0.1, 1.5, NAN};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct engine_options o = aid_run_defaults;
        struct engine *g = NULL;
        struct err e = {0};
        o.cut_weak = wrong[i];
        assert_int_equal(cpu_engine.open(&packed.w, &o, &g, &e), -E_ARG);
        assert_non_null(strstr(e.msg, "--cut-weak"));
        assert_null(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_to_cut),
        cmocka_unit_test(test_all_are_cut),
        cmocka_unit_test(test_the_lightest_are_cut),
        cmocka_unit_test(test_wrong_weights),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
