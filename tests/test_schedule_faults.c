/* The scheduler over the cpu engine and a disk that fails now and then: a request whose reads fail
 * ends with the file's name and the reason; those beside it, and all that follow, are right. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>

#include "server/schedule.h"
#include "stream/reader.h"
#include "stream/stream.h"
#include "tests/aid_cpu.h"

enum { CTX = 96, PROMPT = 20, SAID = 12, REQUESTS = 4, ROUNDS = 8 };

struct bench {
    struct aid_packed packed;
    struct model m;
    struct reader_faults *live; /* changed only while nothing runs */
    struct schedule *s;
};

static int set_up(void **state)
{
    static struct bench b;
    const struct reader_faults none = {.seed = 3};
    const struct schedule_options so = {.sequences = 2, .prefix_entries = -1};
    struct err e = {0};
    struct reader *inner, *outer;
    struct aid_run r;
    struct engine_options o = aid_run_defaults;
    aid_packed_open(&b.packed, GOLDENS "micro/mlx4");
    o.n_sequences = 2;
    o.ctx = CTX;
    o.pool_slots = stream_slots_min(b.packed.store); /* so that every step reads */
    assert_ok(reader_pread_open(4, &inner, &e), e);
    assert_ok(reader_fault_open(inner, &none, &outer, &b.live, &e), e);
    aid_open_tampered(&cpu_engine, &b.packed.w, &o, outer, 0, &r);
    b.m = (struct model){.ctx = CTX, .sample = SAMPLE_GREEDY, .weights = b.packed.w, .engine = r.g};
    pace_init(&b.m.pace);
    assert_ok(schedule_open(&b.m, &so, &b.s, &e), e);
    *state = &b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    schedule_close(b->s);
    cpu_engine.close(b->m.engine);
    aid_packed_close(&b->packed);
    return 0;
}

static struct ticket *ask(struct bench *b, int i)
{
    int32_t ids[PROMPT];
    struct err e = {0};
    struct ticket *t = NULL;
    struct request r = {.prompt = ids, .n_prompt = (size_t)(PROMPT - i), .max_tokens = SAID};
    r.sample = SAMPLE_GREEDY;
    r.sample.temperature = 1;
    r.sample.seed = (uint64_t)i;
    aid_tokens((uint64_t)i, b->m.weights.config.vocab, PROMPT, ids);
    assert_ok(schedule_submit(b->s, &r, &t, &e), e);
    return t;
}

struct said {
    int32_t ids[SAID];
    int n;
    struct err err;
};

static void hear(struct ticket *t, struct said *out)
{
    struct event v = {0};
    *out = (struct said){0};
    while (ticket_wait(t, 60, &v) && v.kind == EVENT_TOKEN)
        out->ids[out->n++] = v.id;
    assert_int_equal(v.kind, EVENT_END);
    out->err = v.ending->err;
    ticket_close(t);
}

static void same(const struct said *got, const struct said *want)
{
    assert_int_equal(got->n, want->n);
    assert_memory_equal(got->ids, want->ids, sizeof got->ids);
}

/* All requests at once; how many failed. */
static int ask_all(struct bench *b, const struct said *want)
{
    struct ticket *t[REQUESTS];
    struct said got;
    int n_failed = 0;
    for (int i = 0; i < REQUESTS; i++)
        t[i] = ask(b, i);
    for (int i = 0; i < REQUESTS; i++) {
        hear(t[i], &got);
        if (!got.err.code) {
            same(&got, &want[i]);
            continue;
        }
        assert_int_equal(got.err.code, E_IO);
        assert_true(strstr(got.err.msg, "experts.bin") || strstr(got.err.msg, "ngram.bin"));
        n_failed++;
    }
    assert_true(schedule_idle(b->s, 10));
    return n_failed;
}

static void test_a_failing_disk(void **state)
{
    struct bench *b = *state;
    struct said want[REQUESTS];
    int n_failed = 0;
    for (int i = 0; i < REQUESTS; i++)
        hear(ask(b, i), &want[i]);
    for (int round = 0; round < ROUNDS; round++) {
        assert_true(schedule_idle(b->s, 10));
        b->live->fail = 20 << round; /* one read in so many */
        n_failed += ask_all(b, want);
        b->live->fail = 0;
        assert_int_equal(ask_all(b, want), 0);
    }
    print_message("note: %d of %d requests failed\n", n_failed, REQUESTS * ROUNDS);
    assert_in_range(n_failed, 1, REQUESTS * ROUNDS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failing_disk),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
