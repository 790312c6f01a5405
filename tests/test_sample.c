/* The sampler against a plain one that sorts everything, its distribution by chi-square, ties,
 * padding, bad logits, and that a draw is a function of seed and position alone. */
#include "tests/aid_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "runner/sample.h"

enum { V = 500, USED = 480 };

static struct sampler *open_sampler(struct sample_options o)
{
    struct err e = {0};
    struct sampler *s = NULL;
    assert_ok(sampler_open(V, USED, &o, &s, &e), e);
    return s;
}

static int32_t choose(struct sampler *s, const float *logits, uint64_t position)
{
    struct err e = {0};
    int32_t id = -1;
    assert_ok(sampler_choose(s, logits, position, &id, &e), e);
    assert_in_range(id, 0, USED - 1);
    return id;
}

/* Coarse values, so that ties are common. The padding is made tempting. */
static void random_logits(float *logits, uint64_t seed)
{
    for (int i = 0; i < V; i++)
        logits[i] = i < USED ? (float)(floor(rng_unit_at(seed, (uint64_t)i) * 40) / 4 - 5) : 99;
}

/* The rules once more, with a full sort and no heap. */
struct ranked {
    double l;
    int id;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->l != y->l ? (x->l < y->l ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

static int plain_choose(const struct sample_options *o, const float *logits, const int *count,
                        double u)
{
    struct ranked r[USED];
    double w[USED], total = 0, mass = 0, at = 0;
    int n = o->top_k && o->top_k < USED ? o->top_k : USED, kept = 0;
    for (int i = 0; i < USED; i++) {
        double l = logits[i];
        if (count[i])
            l = (l > 0 ? l / o->repetition : l * o->repetition) - o->presence -
                o->frequency * count[i];
        r[i] = (struct ranked){l, i};
    }
    qsort(r, USED, sizeof r[0], by_rank);
    if (o->temperature == 0)
        return r[0].id;
    for (int i = 0; i < n; i++)
        total += w[i] = exp((r[i].l - r[0].l) / o->temperature);
    while (kept < n && (kept == 0 || (mass < o->top_p * total && w[kept] >= o->min_p)))
        mass += w[kept++];
    for (int i = 0; i < kept; i++)
        if ((at += w[i]) > u * mass)
            return r[i].id;
    return r[kept - 1].id;
}

static void test_against_plain(void **state)
{
    (void)state;
    static const double temperatures[] = {0, 0.3, 0.7, 1, 2.5};
    static const int top_ks[] = {0, 1, 5, 20, 10000};
    static const double top_ps[] = {1, 0.95, 0.5, 0};
    static const double min_ps[] = {0, 0.05, 1};
    static const double penalties[][3] = {{1, 0, 0}, {1.3, 0, 0}, {1, 1.5, 0.25}};
    float logits[V];
    int n = 0;
    for (int mix = 0; mix < 5 * 5 * 4 * 3 * 3; mix++) {
        const double *p = penalties[mix / 300];
        struct sample_options o = {temperatures[mix % 5], top_ks[mix / 5 % 5], top_ps[mix / 25 % 4],
                                   min_ps[mix / 100 % 3], .repetition = p[0],  .presence = p[1],
                                   .frequency = p[2],     .seed = 77};
        struct sampler *s = open_sampler(o);
        int count[V] = {0};
        for (uint64_t pos = 0; pos < 20; pos++, n++) {
            random_logits(logits, pos + 1000 * (uint64_t)mix);
            int want = plain_choose(&o, logits, count, rng_unit_at(77, pos));
            int32_t got = choose(s, logits, pos);
            if (got != want)
                fail_msg("mix %d position %d: chose %d, want %d", mix, (int)pos, got, want);
            sampler_accept(s, got);
            count[got]++;
        }
        sampler_close(s);
    }
    printf("note: %d choices equal to the plain sampler's\n", n);
}

/* The last of a flat tail far below the best, which hardly any draw comes to: those that do. */
static void test_far_tail(void **state)
{
    (void)state;
    const struct sample_options o = {.temperature = 0.5, .top_p = 1, .repetition = 1, .seed = 77};
    struct sampler *s = open_sampler(o);
    float logits[V];
    int count[V] = {0}, n_far = 0;
    for (int i = 0; i < V; i++)
        logits[i] = i == 333 ? 4 : -4.5f + 0.0001f * (float)(i * 37 % 101);
    for (uint64_t pos = 0; pos < 300000; pos++) {
        const double u = rng_unit_at(77, pos);
        if (u < 0.99999)
            continue;
        int want = plain_choose(&o, logits, count, u);
        assert_int_equal(choose(s, logits, pos), want);
        n_far += want != 333;
    }
    printf("note: %d draws from the tail\n", n_far);
    assert_true(n_far > 0);
    sampler_close(s);
}

/* 200,000 draws over eight kept tokens: chi-square with 7 degrees of freedom stays under its 99.9 %
 * point. The draws are fixed by the seeds, so this either always passes or never. */
static void test_distribution(void **state)
{
    (void)state;
    enum { KEPT = 8, DRAWS = 200000 };
    float logits[V];
    double want[KEPT], total = 0, worst = 0;
    for (int i = 0; i < V; i++)
        logits[i] = i < KEPT ? (float)(0.3 * i) : -50;
    for (int i = 0; i < KEPT; i++)
        total += want[i] = exp(logits[i] / 1.25);
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct sampler *s = open_sampler((struct sample_options){
            .temperature = 1.25, .top_k = KEPT, .top_p = 1, .repetition = 1, .seed = seed});
        int seen[V] = {0};
        double chi = 0;
        for (uint64_t i = 0; i < DRAWS / 4; i++)
            seen[choose(s, logits, i)]++;
        for (int i = 0; i < KEPT; i++) {
            double expected = want[i] / total * (DRAWS / 4.0);
            chi += (seen[i] - expected) * (seen[i] - expected) / expected;
        }
        worst = chi > worst ? chi : worst;
        sampler_close(s);
    }
    printf("worst: chi-square %.2f of four seeds, bound 24.32\n", worst);
    assert_true(worst < 24.32);
}

static void test_function_of_seed_and_position(void **state)
{
    (void)state;
    struct sample_options o = {.temperature = 1, .top_p = 1, .repetition = 1, .seed = 5};
    struct sampler *a = open_sampler(o), *b = open_sampler(o);
    o.seed = 6;
    struct sampler *c = open_sampler(o);
    float logits[V];
    int other = 0;
    random_logits(logits, 3);
    for (uint64_t pos = 0; pos < 100; pos++)
        choose(b, logits, pos); /* what was drawn before does not matter */
    for (uint64_t pos = 100; pos-- > 0;) {
        assert_int_equal(choose(a, logits, pos), choose(b, logits, pos));
        other += choose(a, logits, pos) != choose(c, logits, pos);
    }
    assert_in_range(other, 50, 100);
    sampler_close(a);
    sampler_close(b);
    sampler_close(c);
}

static void test_ties_and_padding(void **state)
{
    (void)state;
    float logits[V];
    struct sampler *greedy = open_sampler(SAMPLE_GREEDY);
    struct sampler *first = open_sampler(
        (struct sample_options){.temperature = 1, .top_k = 1, .top_p = 1, .repetition = 1});
    for (int i = 0; i < V; i++)
        logits[i] = i < USED ? 1 : 1e30f;
    logits[7] = logits[400] = 2;
    assert_int_equal(choose(greedy, logits, 0), 7);
    assert_int_equal(choose(first, logits, 0), 7);
    sampler_accept(first, -1); /* not tokens: ignored */
    sampler_accept(first, V);
    sampler_close(greedy);
    sampler_close(first);
}

/* Logits far apart at a temperature near zero: no overflow, no token of weight zero. */
static void test_extremes(void **state)
{
    (void)state;
    float logits[V];
    struct sampler *s =
        open_sampler((struct sample_options){.temperature = 1e-300, .top_p = 1, .repetition = 1});
    for (int i = 0; i < V; i++)
        logits[i] = i % 2 ? 3e38f : -3e38f;
    for (uint64_t pos = 0; pos < 50; pos++)
        assert_int_equal(choose(s, logits, pos) % 2, 1);
    sampler_close(s);
}

static void test_not_finite(void **state)
{
    (void)state;
    float logits[V] = {0};
    struct sampler *s = open_sampler(SAMPLE_GREEDY);
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        struct err e = {0};
        int32_t id = -7;
        logits[USED - 1] = bad[i];
        assert_int_equal(sampler_choose(s, logits, 12, &id, &e), -E_NONFINITE);
        assert_non_null(strstr(e.msg, "token 479 at position 12"));
        assert_int_equal(id, -7);
        logits[USED - 1] = 0;
    }
    logits[USED] = NAN; /* padding is not looked at */
    assert_int_equal(choose(s, logits, 0), 0);
    sampler_close(s);
}

/* Greedy with nothing else is the model's likeliest token; anything else looks at logits. */
static void test_who_takes_the_best(void **state)
{
    (void)state;
    const struct sample_bias bias = {3, 1};
    struct sample_options o[] = {SAMPLE_GREEDY, SAMPLE_GREEDY, SAMPLE_GREEDY,
                                 SAMPLE_GREEDY, SAMPLE_GREEDY, SAMPLE_GREEDY};
    o[1].temperature = 0.1;
    o[2].repetition = 1.1;
    o[3].frequency = -1;
    o[4].presence = 1;
    o[5].bias = &bias;
    o[5].n_bias = 1;
    for (size_t i = 0; i < sizeof o / sizeof o[0]; i++) {
        struct sampler *s = open_sampler(o[i]);
        assert_int_equal(sampler_takes_best(s), i == 0);
        sampler_close(s);
    }
}

static void test_bad_options(void **state)
{
    (void)state;
    struct sample_options good = SAMPLE_GREEDY;
    const struct {
        const char *name;
        double *at;
        double bad[3];
    } cases[] = {{"temperature", &good.temperature, {-1, NAN, 101}},
                 {"top-p", &good.top_p, {-0.1, 1.1, NAN}},
                 {"min-p", &good.min_p, {-0.1, 1.1, NAN}},
                 {"presence", &good.presence, {-101, 101, NAN}},
                 {"frequency", &good.frequency, {-101, 101, NAN}},
                 {"repetition", &good.repetition, {0, -1, NAN}}};
    struct err e = {0};
    assert_ok(sample_options_check(&good, &e), e);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double kept = *cases[i].at;
        for (int j = 0; j < 3; j++) {
            err_clear(&e);
            *cases[i].at = cases[i].bad[j];
            assert_int_equal(sample_options_check(&good, &e), -E_ARG);
            assert_non_null(strstr(e.msg, cases[i].name));
        }
        *cases[i].at = kept;
    }
    good.top_k = -1;
    err_clear(&e);
    assert_int_equal(sample_options_check(&good, &e), -E_ARG);
    struct sampler *s = NULL;
    err_clear(&e);
    assert_int_equal(sampler_open(10, 11, &SAMPLE_GREEDY, &s, &e), -E_ARG);
}

static void test_memory(void **state)
{
    (void)state;
    float logits[V];
    struct sampler *s = NULL;
    long n = 1;
    for (;; n++) {
        struct err e = {0};
        mem_fail_at(n);
        int rc = sampler_open(V, USED, &SAMPLE_GREEDY, &s, &e);
        mem_fail_at(0);
        if (!rc)
            break;
        assert_int_equal(rc, -E_NOMEM);
    }
    assert_int_equal(n, 4);
    sampler_close(s);
    s = open_sampler((struct sample_options){.temperature = 1, .top_p = 0.9, .repetition = 1});
    random_logits(logits, 1);
    long before = mem_count();
    for (uint64_t pos = 0; pos < 10; pos++)
        sampler_accept(s, choose(s, logits, pos));
    assert_int_equal(mem_count(), before);
    sampler_close(s);
}

/* A mask of every other hundred tokens, when it is on. */
struct stripes {
    bool on, empty;
    int n_asked;
};

static bool stripes_mask(void *ctx, uint32_t *bits, int n_tokens)
{
    struct stripes *x = ctx;
    x->n_asked++;
    for (int i = 0; i < n_tokens; i++)
        if (!x->empty && i / 100 % 2)
            bits[i / 32] |= (uint32_t)1 << (i % 32);
    return x->on;
}

/* Tokens that a mask leaves out are drawn as if their logits were the lowest of all. */
static void test_mask(void **state)
{
    (void)state;
    float logits[V], masked[V];
    struct stripes x = {0};
    const struct constraint c = {.ctx = &x, .mask = stripes_mask};
    for (int round = 0; round < 300; round++) {
        struct err e = {0};
        struct sample_options o = {.temperature = round % 3, .top_p = 0.9, .repetition = 1};
        o.top_k = round % 4 * 5;
        struct sampler *s = open_sampler(o), *plain = open_sampler(o);
        assert_ok(sampler_constrain(s, &c, &e), e);
        random_logits(logits, (uint64_t)round);
        for (int i = 0; i < V; i++)
            masked[i] = i / 100 % 2 ? logits[i] : -1e30f;
        x.on = round % 5;
        assert_int_equal(choose(s, logits, (uint64_t)round),
                         choose(plain, x.on ? masked : logits, (uint64_t)round));
        sampler_close(s);
        sampler_close(plain);
    }
    assert_int_equal(x.n_asked, 300);
}

static void test_mask_of_nothing(void **state)
{
    (void)state;
    float logits[V];
    int32_t id;
    struct err e = {0};
    struct stripes x = {.on = true, .empty = true};
    const struct constraint c = {.ctx = &x, .mask = stripes_mask};
    struct sampler *s = open_sampler(SAMPLE_GREEDY);
    assert_ok(sampler_constrain(s, &c, &e), e);
    random_logits(logits, 1);
    assert_int_equal(sampler_choose(s, logits, 1, &id, &e), -E_UNSUPPORTED);
    sampler_close(s);
}

/* A bias is as good as another logit; it comes behind the penalties. */
static void test_bias(void **state)
{
    (void)state;
    const struct sample_bias bias[] = {{7, 3.5}, {479, -100}, {0, 100}, {30, -1}};
    float logits[V], shifted[V];
    for (int round = 0; round < 200; round++) {
        struct sample_options o = {
            .temperature = round % 2, .top_p = 1, .repetition = 1, .top_k = 9};
        struct sampler *plain = open_sampler(o);
        o.bias = bias;
        o.n_bias = round % 5;
        struct sampler *s = open_sampler(o);
        random_logits(logits, (uint64_t)round);
        memcpy(shifted, logits, sizeof shifted);
        for (int i = 0; i < o.n_bias; i++)
            shifted[bias[i].id] += (float)bias[i].add;
        assert_int_equal(choose(s, logits, (uint64_t)round),
                         choose(plain, shifted, (uint64_t)round));
        sampler_close(s);
        sampler_close(plain);
    }
}

static void test_logprobs(void **state)
{
    (void)state;
    struct sampler *s = open_sampler(SAMPLE_GREEDY);
    struct sample_logprobs p;
    struct ranked r[USED];
    float logits[V];
    double sum = 0;
    random_logits(logits, 5);
    for (int i = 0; i < USED; i++) {
        r[i] = (struct ranked){logits[i], i};
        sum += exp((double)logits[i]);
    }
    qsort(r, USED, sizeof r[0], by_rank);
    for (int n_top = 0; n_top <= SAMPLE_TOP_MAX; n_top++) {
        sampler_logprobs(s, logits, 33, n_top, &p);
        assert_int_equal(p.n_top, n_top);
        assert_int_equal(p.chosen.id, 33);
        assert_true(fabs(p.chosen.logprob - (logits[33] - log(sum))) < 1e-12);
        for (int i = 0; i < n_top; i++) {
            assert_int_equal(p.top[i].id, r[i].id);
            assert_true(fabs(p.top[i].logprob - (r[i].l - log(sum))) < 1e-12);
        }
    }
    sampler_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_plain),
        cmocka_unit_test(test_far_tail),
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_function_of_seed_and_position),
        cmocka_unit_test(test_ties_and_padding),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_mask),
        cmocka_unit_test(test_mask_of_nothing),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_who_takes_the_best),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
