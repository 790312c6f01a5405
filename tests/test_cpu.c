/* Engine "cpu", or the one that argv names, against engine "reference", by what the next token may
 * be: on the texts of the demo model's goldens with what the reference says after them, and on
 * every golden model. */
#include "tests/aid_test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "reference/reference.h"
#include "runner/sample.h"
#include "tests/aid_cpu.h"
#include "tests/aid_demo.h"
#include "tests/aid_golden.h"

/* What the reference says behind `next`, n tokens drawn from all that it holds possible, into
 * both. */
static void converse(struct aid_run *ref, struct aid_run *cpu, int32_t next, int n, uint64_t seed,
                     struct aid_score *s)
{
    const struct sample_options o = {.temperature = 1, .top_p = 1, .repetition = 1, .seed = seed};
    struct err e = {0};
    struct sampler *sampler;
    size_t vocab = (size_t)ref->vocab;
    float *want = mem_array(vocab, sizeof *want), *got = mem_array(vocab, sizeof *got);
    assert_true(want && got);
    assert_ok(sampler_open(ref->vocab, ref->vocab, &o, &sampler, &e), e);
    for (int i = 0; i < n; i++) {
        aid_run_feed(ref, &next, 1, 1, want);
        aid_run_feed(cpu, &next, 1, 1, got);
        aid_score_add(s, want, got, ref->vocab);
        assert_ok(sampler_choose(sampler, want, (uint64_t)i, &next, &e), e);
    }
    sampler_close(sampler);
    mem_free(want);
    mem_free(got);
}

enum { TEXT_MAX = 2048 };

static int ids_of(const json_t *list, int32_t *out)
{
    size_t n = json_array_size(list);
    n = n < TEXT_MAX ? n : TEXT_MAX;
    for (size_t i = 0; i < n; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return (int)n;
}

/* Tokens of each text, and of what the reference samples behind it. `test_cpu cpu 2000 760` is
 * 4,000 tokens of the demo, in a minute. */
static int most = 400, more = 60;
static const struct engine_ops *engine;

static void test_demo(void **state)
{
    struct aid_packed p;
    struct aid_run ref, cpu;
    struct aid_score s = {0};
    int32_t text[TEXT_MAX];
    json_t *goldens = aid_demo_goldens(), *one;
    size_t i;
    (void)state;
    aid_packed_open(&p, DEMO);
    aid_run_open(&ref, &reference_engine, &p.w, &aid_run_defaults, TEXT_MAX);
    aid_run_open(&cpu, engine, &p.w, &aid_run_defaults, TEXT_MAX);
    json_array_foreach(json_object_get(goldens, "sequences"), i, one) {
        int n = ids_of(json_object_get(one, "tokens"), text);
        n = n < most ? n : most;
        ref.g->ops->sequence_reset(ref.seq);
        cpu.g->ops->sequence_reset(cpu.seq);
        if (n > 1)
            aid_run_compare(&ref, &cpu, text, n - 1, &s);
        converse(&ref, &cpu, text[n - 1], more, i + 1, &s);
    }
    print_message("worst: demo: %ld tokens: best token the same in %.2f %%, KL %.2e (largest "
                  "%.2e); want 99 %%, 1e-3\n",
                  s.n, 100.0 * (double)s.same / (double)s.n, s.kl / (double)s.n, s.kl_worst);
    assert_true(s.kl / (double)s.n <= 1e-3);
    assert_in_range(s.n - s.same, 0, (s.n + 99) / 100); /* of few tokens, one may differ */
    aid_run_close(&cpu);
    aid_run_close(&ref);
    aid_packed_close(&p);
    json_decref(goldens);
}

/* Random models of every shape: their routes change with the last bits, so single tokens may part;
 * on the whole the predictions are the same. */
static void check_golden(const char *name)
{
    enum { N = 64 };
    struct aid_packed p;
    struct aid_run ref, cpu;
    struct aid_score s = {0};
    int32_t text[N];
    aid_packed_open(&p, aid_golden(name));
    aid_run_open(&ref, &reference_engine, &p.w, &aid_run_defaults, 2 * N);
    aid_run_open(&cpu, engine, &p.w, &aid_run_defaults, 2 * N);
    aid_tokens(7, ref.vocab, N, text);
    aid_run_compare(&ref, &cpu, text, aid_slower() > 1 ? N / 4 : N, &s);
    print_message("worst: %s: best token the same in %ld of %ld, KL %.2e, largest %.2e\n", name,
                  s.same, s.n, s.kl / (double)s.n, s.kl_worst);
    assert_true(s.kl / (double)s.n <= 0.05);
    aid_run_close(&cpu);
    aid_run_close(&ref);
    aid_packed_close(&p);
}

static void test_goldens(void **state)
{
    static const char *const names[] = {"micro",    "v-hc2",   "v-head128", "v-mtpall",
                                        "v-nonorm", "v-nople", "v-ple2",    "v-rope",
                                        "v-silu",   "deep",    "wide"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        check_golden(names[i]);
}

enum { ROWS = 9 };

/* Rows that pass have no place in what comes back. */
static void check_passing(struct aid_run *r, const struct row *rows, const float *all, float *some)
{
    bool pass[ROWS];
    struct best best[ROWS];
    struct err e = {0};
    const size_t vocab = (size_t)r->vocab;
    for (int i = 0; i < ROWS; i++)
        pass[i] = i % 3 != 2;
    assert_ok(r->g->ops->commit(r->g, r->seq, 0, &e), e);
    const struct best_job job = {.limit = r->vocab, .logits = some, .best = best, .pass = pass};
    assert_ok(engine_step_best(r->g, rows, ROWS, &job, &e), e);
    for (int i = 0; i < ROWS / 3; i++) {
        const float *row = all + (size_t)(3 * i + 2) * vocab;
        assert_memory_equal(some + (size_t)i * vocab, row, vocab * sizeof *row);
        assert_int_equal(best[i].token, engine_argmax(row, r->vocab));
        assert_true(best[i].hash == engine_logits_hash(row, r->vocab));
    }
}

/* Steps that ask for the likeliest tokens give those of the logits, also when the best lie in the
 * share of one thread and the limit in another's. */
static void test_best(void **state)
{
    enum { LIMIT = 1500 };
    struct aid_packed p;
    struct aid_run r;
    struct err e = {0};
    struct row rows[ROWS];
    struct best best[ROWS];
    int32_t text[ROWS];
    (void)state;
    aid_packed_open(&p, DEMO);
    aid_run_open(&r, engine, &p.w, &aid_run_defaults, ROWS);
    const size_t vocab = (size_t)r.vocab;
    float *all = mem_array(vocab * ROWS, sizeof *all), *some = mem_array(vocab * ROWS, sizeof *all);
    assert_true(all && some && r.vocab > LIMIT);
    aid_tokens(11, r.vocab, ROWS, text);
    for (int i = 0; i < ROWS; i++)
        rows[i] = (struct row){r.seq, text[i]};
    assert_ok(r.g->ops->step(r.g, rows, ROWS, NULL, all, &e), e);
    for (int limit = LIMIT; limit > 0; limit = limit == 1 ? 0 : limit == LIMIT ? r.vocab : 1) {
        assert_ok(r.g->ops->commit(r.g, r.seq, 0, &e), e);
        const struct best_job job = {.limit = limit, .logits = some, .best = best};
        assert_ok(engine_step_best(r.g, rows, ROWS, &job, &e), e);
        for (int i = 0; i < ROWS; i++) {
            const float *row = all + (size_t)i * vocab;
            assert_int_equal(best[i].token, engine_argmax(row, limit));
            assert_true(best[i].hash == engine_logits_hash(row, r.vocab));
        }
    }
    if (r.g->prompt_rows)
        check_passing(&r, rows, all, some);
    mem_free(all);
    mem_free(some);
    aid_run_close(&r);
    aid_packed_close(&p);
}

int main(int argc, char **argv)
{
    if (aid_slower() > 1) {
        most = 40;
        more = 4;
    }
    if (argc > 3) {
        most = (int)strtol(argv[2], NULL, 10);
        more = (int)strtol(argv[3], NULL, 10);
    }
    engine = aid_engine_chosen(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_demo),
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
