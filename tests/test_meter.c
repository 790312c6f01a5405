/* Rates of a server: between samples, and over a scheduler on the fake engine that counts what it
 * is told to. */
#include "tests/aid_test.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "server/meter.h"
#include "tests/aid_engine.h"

enum { V = 40, CTX = 200, PROMPT = 12, TOKENS = 9 };

static void test_rates_between_samples(void **state)
{
    const struct meter_sample a = {.ns = 1000000000, .made = 5, .fed = 10, .hits = 3, .misses = 1},
                              b = {.ns = 3000000000,
                                   .made = 25,
                                   .fed = 10,
                                   .hits = 12,
                                   .misses = 2,
                                   .read_bytes = 800,
                                   .wait_ns = 500000000};
    (void)state;
    const struct meter_rates r = meter_rates(&a, &b);
    assert_true(r.window_s == 2 && r.decode == 10 && r.prefill == 0);
    assert_true(fabs(r.hit_rate - 0.9) < 1e-12);
    assert_true(r.read_bytes == 400 && r.wait == 0.25);
}

static void test_nothing_is_known_too_early(void **state)
{
    const struct meter_sample a = {.ns = 1000000000}, soon = {.ns = 1050000000},
                              later = {.ns = 2000000000};
    (void)state;
    const struct meter_rates none = meter_rates(&a, &soon), back = meter_rates(&later, &a),
                             idle = meter_rates(&a, &later);
    assert_true(none.window_s == 0 && isnan(none.decode) && isnan(none.wait));
    assert_true(back.window_s == 0 && isnan(back.read_bytes));
    assert_true(idle.decode == 0 && isnan(idle.hit_rate)); /* no expert was asked for */
}

struct bench {
    struct aid_fake fake;
    struct model m;
    struct schedule *s;
    struct meter *meter;
};

static void bench_open(struct bench *b, bool counts)
{
    struct err e = {0};
    *b = (struct bench){0};
    b->fake.counts = counts;
    aid_model_open(&b->m, &b->fake, V, CTX);
    assert_ok(schedule_open(&b->m, &(struct schedule_options){0}, &b->s, &e), e);
    assert_ok(meter_open(b->s, &b->meter, &e), e);
}

static void bench_close(struct bench *b)
{
    meter_close(b->meter);
    schedule_close(b->s);
    aid_model_close(&b->m);
}

static void ask(struct bench *b, bool fails)
{
    int32_t ids[PROMPT];
    struct request r = {.prompt = ids, .n_prompt = PROMPT, .drafts = -1, .max_tokens = TOKENS};
    struct ticket *t;
    struct event v;
    struct err e = {0};
    for (int i = 0; i < PROMPT; i++)
        ids[i] = i;
    r.sample = SAMPLE_GREEDY;
    assert_ok(schedule_submit(b->s, &r, &t, &e), e);
    do
        assert_true(ticket_wait(t, 60, &v));
    while (v.kind != EVENT_END);
    if (fails)
        assert_int_equal(v.ending->err.code, E_IO);
    else
        assert_int_equal(v.ending->n_generated, TOKENS);
    ticket_close(t);
}

static void answer_one(struct bench *b)
{
    ask(b, false);
}

static struct meter_view look(struct bench *b)
{
    struct meter_view v;
    struct err e = {0};
    assert_ok(meter_look(b->meter, &v, &e), e);
    return v;
}

/* As the engine would. */
static void count(struct bench *b)
{
    struct counters *c = (struct counters *)engine_counters(b->m.engine);
    counters_add(&c->layer[1].hits, 3);
    counters_add(&c->layer[1].misses, 1);
    counters_add(&c->bytes[CAUSE_DEMAND], 4096);
}

/* Until the meter has a sample to compare with. */
static struct meter_view look_later(struct bench *b)
{
    struct meter_view v = look(b);
    for (int i = 0; i < 100 && v.rates.window_s == 0; i++) {
        meter_view_free(&v);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        v = look(b);
    }
    assert_true(v.rates.window_s > 0);
    return v;
}

static void test_tokens_and_experts_as_they_come(void **state)
{
    struct bench b;
    struct schedule_stats t;
    (void)state;
    bench_open(&b, true);
    struct meter_view v = look_later(&b);
    meter_view_free(&v);
    answer_one(&b);
    count(&b);
    v = look(&b);
    schedule_stats(b.s, &t);
    assert_int_equal(t.made_tokens, TOKENS);
    assert_int_equal(t.fed_tokens, PROMPT);
    assert_true(fabs(v.rates.decode * v.rates.window_s - TOKENS) < 1e-6);
    assert_true(fabs(v.rates.prefill * v.rates.window_s - PROMPT) < 1e-6);
    assert_true(fabs(v.rates.read_bytes * v.rates.window_s - 4096) < 1e-3);
    assert_true(v.rates.hit_rate == 0.75 && v.layer_hit_rate[1] == 0.75);
    assert_true(isnan(v.layer_hit_rate[0]));
    assert_int_equal(v.counters.layer[1].hits, 3);
    meter_view_free(&v);
    bench_close(&b);
}

/* An engine that was lost is another one when it is opened again, with counters from zero: the ones
 * that are gone are not looked at, and what they said is not taken off. */
static void test_an_engine_that_was_lost(void **state)
{
    struct bench b;
    (void)state;
    bench_open(&b, true);
    count(&b);
    count(&b);
    struct meter_view v = look_later(&b);
    meter_view_free(&v);
    b.fake.lost_step = b.fake.n_steps + 1;
    ask(&b, true);
    answer_one(&b);
    count(&b);
    v = look(&b);
    assert_int_equal(v.counters.layer[1].hits, 3);
    assert_true(v.rates.hit_rate == 0.75 && v.layer_hit_rate[1] == 0.75);
    assert_true(v.rates.read_bytes * v.rates.window_s < 4097);
    meter_view_free(&v);
    bench_close(&b);
}

static void test_an_engine_that_counts_nothing(void **state)
{
    struct bench b;
    (void)state;
    bench_open(&b, false);
    answer_one(&b);
    struct meter_view v = look_later(&b);
    assert_int_equal(v.counters.n_layers, 0);
    assert_true(isnan(v.rates.hit_rate) && v.rates.read_bytes == 0);
    meter_view_free(&v);
    bench_close(&b);
}

static void test_memory_that_runs_out(void **state)
{
    struct bench b;
    (void)state;
    bench_open(&b, true);
    for (int n = 1;; n++) {
        struct meter_view v;
        struct err e = {0};
        mem_fail_at(n);
        const int rc = meter_look(b.meter, &v, &e);
        mem_fail_at(0);
        meter_view_free(&v);
        if (!rc)
            break;
        assert_int_equal(rc, -E_NOMEM);
        assert_true(n < 10);
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_between_samples),
        cmocka_unit_test(test_nothing_is_known_too_early),
        cmocka_unit_test(test_tokens_and_experts_as_they_come),
        cmocka_unit_test(test_an_engine_that_was_lost),
        cmocka_unit_test(test_an_engine_that_counts_nothing),
        cmocka_unit_test(test_memory_that_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
