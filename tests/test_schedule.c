/* The scheduler on the fake engine: requests at once say what they say alone, whoever is cancelled,
 * fails, reads slowly or comes too late beside them; and prompts that begin alike are fed once. */
#include "tests/aid_test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/schedule.h"
#include "tests/aid_engine.h"

enum { V = 40, CTX = 400, N = 24 };

struct bench {
    struct aid_fake fake;
    struct model m;
    struct schedule *s;
};

static int prompt_rows; /* of the engines that follow */

static void bench_open(struct bench *b, const struct schedule_options *o)
{
    struct err e = {0};
    *b = (struct bench){.fake.prompt_rows = prompt_rows};
    aid_model_open(&b->m, &b->fake, V, CTX);
    assert_ok(schedule_open(&b->m, o, &b->s, &e), e);
}

static void bench_close(struct bench *b)
{
    schedule_close(b->s);
    aid_model_close(&b->m);
}

/* Request i, its prompt in ids [CTX]. */
static struct request request_of(int i, int32_t *ids)
{
    struct request r = {.prompt = ids, .n_prompt = (size_t)(1 + i * 37 % 150), .drafts = -1};
    for (size_t t = 0; t < r.n_prompt; t++)
        ids[t] = (int32_t)((i % 3 + t * 7) % V);
    r.sample = SAMPLE_GREEDY;
    r.sample.temperature = i % 3;
    r.sample.presence = i % 2;
    r.sample.seed = (uint64_t)i;
    r.max_tokens = 1 + i * i % 61;
    r.drafts = i % 5 - 1;
    return r;
}

struct said {
    int32_t ids[CTX];
    int n;
    struct ending end;
};

/* Everything of a ticket, which is closed. */
static void hear(struct ticket *t, struct said *out)
{
    struct event v;
    out->n = 0;
    for (;;) {
        assert_true(ticket_wait(t, 60, &v));
        if (v.kind == EVENT_END)
            break;
        out->ids[out->n++] = v.id;
    }
    out->end = *v.ending;
    assert_false(ticket_take(t, &v));
    ticket_close(t);
}

static struct ticket *ask(struct bench *b, const struct request *r)
{
    struct err e = {0};
    struct ticket *t = NULL;
    assert_ok(schedule_submit(b->s, r, &t, &e), e);
    return t;
}

static void alone(const struct request *r, struct said *out)
{
    struct bench b;
    struct request plain = *r;
    const struct schedule_options o = {.prefix_entries = -1};
    plain.drafts = 0;
    bench_open(&b, &o);
    hear(ask(&b, &plain), out);
    bench_close(&b);
}

static void same(const struct said *a, const struct said *b)
{
    assert_int_equal(a->end.err.code, b->end.err.code);
    assert_int_equal(a->end.finish, b->end.finish);
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n * sizeof a->ids[0]);
}

static const struct draft_options drafting = {.most = 3, .always = true};

static void test_together_as_alone(void **state)
{
    (void)state;
    static struct said want[N], got;
    struct bench b;
    struct ticket *t[N];
    int32_t ids[CTX];
    for (int n_slots = 1; n_slots <= 16; n_slots *= 4) {
        const struct schedule_options o = {.sequences = n_slots, .draft = drafting};
        bench_open(&b, &o);
        for (int i = 0; i < N; i++) {
            const struct request r = request_of(i, ids);
            t[i] = ask(&b, &r);
            if (n_slots == 1)
                alone(&r, &want[i]);
        }
        for (int i = 0; i < N; i++) {
            hear(t[i], &got);
            same(&got, &want[i]);
            assert_int_equal(got.end.n_generated, got.n);
            assert_in_range(got.end.n_cached, 0, got.end.n_prompt - 1);
        }
        struct schedule_stats stats;
        schedule_stats(b.s, &stats);
        assert_int_equal(stats.n_done, N);
        assert_true(schedule_idle(b.s, 10));
        printf("note: %d at once: %d rows of %llu tokens, %llu hits\n", n_slots, b.fake.n_rows,
               (unsigned long long)(stats.prompt_tokens + stats.generated_tokens),
               (unsigned long long)stats.prefix_hits);
        bench_close(&b);
    }
}

/* The same prompt again, and prompts that go on from what was said: nothing is fed twice. */
static void test_reuse(void **state)
{
    (void)state;
    static struct said first, second, want;
    struct bench b;
    int32_t ids[CTX];
    const struct schedule_options o = {.sequences = 2, .draft = drafting};
    bench_open(&b, &o);
    struct request r = request_of(3, ids);
    r.n_prompt = 100;
    for (int t = 0; t < 100; t++)
        ids[t] = t * 11 % V;
    r.max_tokens = 20;
    r.borders = (const int[]){40, 90};
    r.n_borders = 2;
    hear(ask(&b, &r), &first);
    assert_int_equal(first.end.n_cached, 0);
    hear(ask(&b, &r), &second);
    same(&second, &first);
    assert_int_equal(second.end.n_cached, 90);
    memcpy(ids + 100, first.ids, 20 * sizeof ids[0]);
    r.n_prompt = 125;
    for (int t = 120; t < 125; t++)
        ids[t] = t % V;
    alone(&r, &want);
    hear(ask(&b, &r), &second);
    same(&second, &want);
    assert_int_equal(second.end.n_cached, 119); /* the last token was never fed */
    r.fresh = true;
    hear(ask(&b, &r), &second);
    same(&second, &want);
    assert_int_equal(second.end.n_cached, 0);
    bench_close(&b);
}

/* Two conversations that begin alike, the first the first of all: what both begin with is fed once
 * if it is long. */
static void test_openings(void **state)
{
    (void)state;
    static struct said first, second, want;
    static const int at[2] = {AID_FAKE_CHUNK - 1, AID_FAKE_CHUNK};
    int32_t ids[CTX];
    const struct schedule_options o = {.sequences = 1};
    for (int i = 0; i < 2; i++) {
        const int borders[2] = {at[i], at[i] + 40};
        struct bench b;
        bench_open(&b, &o);
        struct request r = request_of(4, ids);
        r.n_prompt = (size_t)at[i] + 50;
        for (int t = 0; t < at[i] + 50; t++)
            ids[t] = t * 7 % V;
        r.max_tokens = 5;
        r.borders = borders;
        r.n_borders = 2;
        hear(ask(&b, &r), &first);
        ids[at[i] + 1]++;
        alone(&r, &want);
        hear(ask(&b, &r), &second);
        same(&second, &want);
        assert_int_equal(second.end.n_cached, i ? at[i] : 0);
        bench_close(&b);
    }
}

/* Choices of one prompt feed it once. */
static void test_choices(void **state)
{
    (void)state;
    static struct said got, want;
    struct bench b;
    struct ticket *t[4];
    int32_t ids[CTX];
    const struct schedule_options o = {.sequences = 4};
    bench_open(&b, &o);
    struct request r = request_of(4, ids);
    r.n_prompt = 120;
    for (int i = 0; i < 120; i++)
        ids[i] = i * 3 % V;
    r.sample.temperature = 1;
    r.max_tokens = 30;
    r.shared = true;
    for (int i = 0; i < 4; i++) {
        r.sample.seed = (uint64_t)i;
        t[i] = ask(&b, &r);
    }
    int n_fed = 0;
    for (int i = 0; i < 4; i++) {
        r.sample.seed = (uint64_t)i;
        alone(&r, &want);
        hear(t[i], &got);
        same(&got, &want);
        n_fed += got.end.n_prompt - got.end.n_cached;
    }
    assert_int_equal(n_fed, 120 + 3);
    bench_close(&b);
}

static void test_cancel(void **state)
{
    (void)state;
    static struct said got, want;
    struct bench b;
    int32_t ids[CTX], other[CTX];
    const struct schedule_options o = {.sequences = 2, .draft = drafting};
    bench_open(&b, &o);
    b.fake.step_ns = 1000000;
    struct request r = request_of(5, ids), q = request_of(7, other);
    r.name = "long";
    r.max_tokens = 200;
    q.max_tokens = 40;
    alone(&q, &want);
    struct ticket *a = ask(&b, &r), *c = ask(&b, &q), *queued = ask(&b, &r);
    struct event v;
    assert_true(ticket_wait(a, 60, &v));
    assert_int_equal(schedule_cancel(b.s, "nobody"), 0);
    assert_int_equal(schedule_cancel(b.s, "long"), 2);
    hear(a, &got);
    assert_int_equal(got.end.finish, FINISH_INTERRUPTED);
    assert_true(got.n < 199);
    hear(queued, &got);
    assert_int_equal(got.end.finish, FINISH_INTERRUPTED);
    hear(c, &got);
    same(&got, &want);
    a = ask(&b, &r);
    ticket_close(a); /* the client is gone */
    assert_true(schedule_idle(b.s, 60));
    struct schedule_stats stats;
    schedule_stats(b.s, &stats);
    assert_int_equal(stats.n_cancelled, 3);
    bench_close(&b);
}

static void test_full_and_drain(void **state)
{
    (void)state;
    static struct said got;
    struct bench b;
    struct err e = {0};
    struct ticket *t[3], *no;
    int32_t ids[CTX];
    const struct schedule_options o = {.sequences = 1, .queue = 2};
    bench_open(&b, &o);
    b.fake.step_ns = 1000000;
    struct request r = request_of(5, ids);
    r.max_tokens = 30;
    for (int i = 0; i < 3; i++)
        t[i] = ask(&b, &r);
    assert_int_equal(schedule_submit(b.s, &r, &no, &e), -E_BUSY);
    struct request_view list[8];
    assert_int_equal(schedule_list(b.s, list, 8), 3);
    assert_int_equal(list[2].state, REQUEST_QUEUED);
    schedule_drain(b.s);
    assert_false(schedule_idle(b.s, 0));
    err_clear(&e);
    assert_int_equal(schedule_submit(b.s, &r, &no, &e), -E_BUSY);
    for (int i = 0; i < 3; i++) {
        hear(t[i], &got);
        assert_int_equal(got.end.finish, FINISH_LENGTH);
    }
    assert_true(schedule_idle(b.s, 10));
    bench_close(&b);
}

/* Closing the scheduler ends what runs and what waits; tickets outlive it. */
static void test_close_while_busy(void **state)
{
    (void)state;
    static struct said got;
    struct bench b;
    struct ticket *t[3];
    int32_t ids[CTX];
    const struct schedule_options o = {.sequences = 2};
    bench_open(&b, &o);
    b.fake.step_ns = 1000000;
    struct request r = request_of(5, ids);
    r.max_tokens = 200;
    for (int i = 0; i < 3; i++)
        t[i] = ask(&b, &r);
    bench_close(&b);
    for (int i = 0; i < 3; i++) {
        hear(t[i], &got);
        assert_int_equal(got.end.finish, FINISH_INTERRUPTED);
    }
}

static void test_slow_reader(void **state)
{
    (void)state;
    static struct said got;
    struct bench b;
    int32_t ids[CTX];
    const struct schedule_options o = {.backlog = 10};
    bench_open(&b, &o);
    struct request r = request_of(5, ids);
    r.max_tokens = 50;
    struct ticket *t = ask(&b, &r);
    assert_true(schedule_idle(b.s, 60));
    hear(t, &got);
    assert_int_equal(got.end.err.code, E_LIMIT);
    assert_int_equal(got.n, 10);
    bench_close(&b);
}

/* How often a ticket woke whoever follows it. */
struct woken {
    atomic_int n, at_once;
};

static void on_wake(void *ctx, bool at_once)
{
    struct woken *w = ctx;
    atomic_fetch_add(&w->n, 1);
    atomic_fetch_add(&w->at_once, at_once);
}

static void test_wakes(void **state)
{
    (void)state;
    static struct said got;
    struct woken woken = {0};
    struct bench b;
    int32_t ids[CTX];
    const struct schedule_options o = {.backlog = 100};
    bench_open(&b, &o);
    struct request r = request_of(5, ids);
    r.max_tokens = 50;
    r.wake = on_wake;
    r.wake_ctx = &woken;
    struct ticket *t = ask(&b, &r);
    assert_true(schedule_idle(b.s, 60)); /* nothing is taken before all tokens are there */
    hear(t, &got);
    assert_int_equal(got.n, 50);
    assert_int_equal(atomic_load(&woken.n), 2); /* the first token and the end */
    assert_int_equal(atomic_load(&woken.at_once), 2);
    woken = (struct woken){0};
    t = ask(&b, &r);
    hear(t, &got); /* what is taken as it comes wakes again, not all of it at once */
    assert_in_range(atomic_load(&woken.n), 2, 51);
    assert_int_equal(atomic_load(&woken.at_once), 2);
    bench_close(&b);
}

/* A request that comes to a bad token fails, and no other. */
static void test_failing_neighbour(void **state)
{
    (void)state;
    static struct said want[N], got;
    struct bench b;
    struct ticket *t[N];
    int32_t ids[CTX];
    int n_failed = 0;
    const struct schedule_options o = {.sequences = 8, .draft = drafting};
    bench_open(&b, &o);
    b.fake.bad_token = 23;
    for (int i = 0; i < N; i++) {
        struct request r = request_of(i, ids);
        r.max_tokens = 4 + i % 9;
        alone(&r, &want[i]);
        t[i] = ask(&b, &r);
    }
    for (int i = 0; i < N; i++) {
        bool fed = false;
        for (int k = 0; k + 1 < want[i].n; k++)
            fed |= want[i].ids[k] == 23;
        hear(t[i], &got);
        n_failed += fed;
        if (fed)
            assert_int_equal(got.end.err.code, E_NONFINITE);
        else
            same(&got, &want[i]);
    }
    printf("note: %d of %d failed\n", n_failed, N);
    assert_in_range(n_failed, 1, N - 1);
    bench_close(&b);
}

/* All that run when the engine is lost fail by that name; it is opened again, and what is asked
 * then, and what waited, is right. */
static void test_lost_engine(void **state)
{
    (void)state;
    static struct said want[N], got;
    struct bench b;
    struct ticket *t[N];
    int32_t ids[CTX];
    int n_failed = 0;
    const struct schedule_options o = {.sequences = 3, .draft = drafting};
    bench_open(&b, &o);
    b.fake.step_ns = 100000;
    b.fake.lost_step = 30;
    for (int i = 0; i < N; i++) {
        const struct request r = request_of(i, ids);
        alone(&r, &want[i]);
        t[i] = ask(&b, &r);
    }
    for (int i = 0; i < N; i++) {
        hear(t[i], &got);
        if (!got.end.err.code) {
            same(&got, &want[i]);
            continue;
        }
        n_failed++;
        assert_int_equal(got.end.err.code, E_IO);
        assert_non_null(strstr(got.end.err.msg, "lost"));
    }
    assert_in_range(n_failed, 1, 3);
    bench_close(&b);
}

/* While it cannot be opened each request fails, and is a try; then they are right again. */
static void test_engine_that_does_not_come_back(void **state)
{
    (void)state;
    static struct said want, got;
    struct bench b;
    int32_t ids[CTX];
    const struct schedule_options o = {0};
    const struct request r = request_of(3, ids);
    alone(&r, &want);
    bench_open(&b, &o);
    b.fake.lost_step = 1;
    b.fake.n_refused = 2;
    hear(ask(&b, &r), &got);
    assert_int_equal(got.end.err.code, E_IO);
    int n_failed = 0; /* a try may be told to two */
    for (hear(ask(&b, &r), &got); got.end.err.code; hear(ask(&b, &r), &got)) {
        assert_non_null(strstr(got.end.err.msg, "cannot be opened again"));
        assert_true(n_failed++ < 10);
    }
    same(&got, &want);
    b.fake.lost_step = b.fake.n_steps + 1;
    b.fake.n_refused = 100;
    hear(ask(&b, &r), &got);
    hear(ask(&b, &r), &got);
    assert_int_equal(got.end.err.code, E_IO);
    bench_close(&b); /* without an engine */
}

/* While a long prompt is fed in short chunks, an answer goes on. */
static void test_fair(void **state)
{
    (void)state;
    static struct said got;
    struct bench b;
    int32_t ids[CTX], other[CTX];
    const struct schedule_options o = {.sequences = 2};
    bench_open(&b, &o);
    b.fake.step_ns = 2000000;
    struct request r = request_of(0, ids), q = request_of(1, other);
    r.max_tokens = 390;
    struct ticket *a = ask(&b, &r);
    struct event v;
    assert_true(ticket_wait(a, 60, &v));
    q.n_prompt = 300;
    for (int i = 0; i < 300; i++)
        other[i] = i % V;
    q.max_tokens = 1;
    struct ticket *c = ask(&b, &q);
    hear(c, &got);
    struct request_view list[2];
    assert_int_equal(schedule_list(b.s, list, 2), 1);
    printf("note: %d tokens beside a prompt of 300\n", list[0].n_generated);
    assert_true(list[0].n_generated > 20);
    hear(a, &got);
    bench_close(&b);
}

static bool even_mask(void *ctx, uint32_t *bits, int n_tokens)
{
    (void)ctx;
    for (int i = 0; i < n_tokens; i += 2)
        bits[i / 32] |= (uint32_t)1 << (i % 32);
    return true;
}

static int even_accept(void *ctx, int32_t token, struct err *e)
{
    struct said *heard = ctx;
    (void)e;
    heard->ids[heard->n++] = token;
    return 0;
}

/* A mask holds under drafts, and what was drawn is accepted once, in order. */
static void test_constraint(void **state)
{
    (void)state;
    static struct said want, got, heard;
    struct bench b;
    int32_t ids[CTX];
    const struct constraint c = {&heard, even_mask, even_accept};
    for (int drafts = 0; drafts <= 3; drafts++) {
        const struct schedule_options o = {.draft = {.most = drafts, .always = true}};
        bench_open(&b, &o);
        struct request r = request_of(2, ids);
        r.drafts = -1;
        r.max_tokens = 60;
        r.constraint = &c;
        r.logprobs = true;
        r.top_logprobs = 2;
        heard.n = 0;
        hear(ask(&b, &r), &got);
        if (!drafts)
            want = got;
        same(&got, &want);
        assert_int_equal(heard.n, got.n);
        assert_memory_equal(heard.ids, got.ids, (size_t)got.n * sizeof got.ids[0]);
        for (int i = 0; i < got.n; i++)
            assert_int_equal(got.ids[i] % 2, 0);
        bench_close(&b);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    struct bench b;
    struct ticket *t;
    int32_t ids[CTX + 1] = {0};
    const struct schedule_options o = {0};
    bench_open(&b, &o);
    const struct request good = {.prompt = ids, .n_prompt = 3, .sample = SAMPLE_GREEDY};
    struct request bad[6] = {good, good, good, good, good, good};
    bad[0].n_prompt = 0;
    bad[1].n_prompt = CTX;
    bad[2].sample.top_p = 2;
    bad[3].top_logprobs = SAMPLE_TOP_MAX + 1;
    bad[4].stop = (const char *const[]){""};
    bad[4].n_stop = 1;
    bad[5].max_tokens = -1;
    for (int i = 0; i < 6; i++) {
        struct err e = {0};
        assert_int_equal(schedule_submit(b.s, &bad[i], &t, &e), i == 1 ? -E_LIMIT : -E_ARG);
    }
    bench_close(&b);
}

/* The same where prompts go into the steps of others. */
static void test_together_as_alone_sharing(void **state)
{
    prompt_rows = 64;
    test_together_as_alone(state);
    prompt_rows = 0;
}
static void test_failing_neighbour_sharing(void **state)
{
    prompt_rows = 64;
    test_failing_neighbour(state);
    prompt_rows = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together_as_alone),
        cmocka_unit_test(test_together_as_alone_sharing),
        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_openings),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_full_and_drain),
        cmocka_unit_test(test_close_while_busy),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_wakes),
        cmocka_unit_test(test_failing_neighbour),
        cmocka_unit_test(test_failing_neighbour_sharing),
        cmocka_unit_test(test_lost_engine),
        cmocka_unit_test(test_engine_that_does_not_come_back),
        cmocka_unit_test(test_fair),
        cmocka_unit_test(test_constraint),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
