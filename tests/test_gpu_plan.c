/* Engine "gpu": steps and drafts are recorded once for a shape, not for each of them; and rows that
 * nobody asks for cost no logits and change none.
 * Runs in release alone. */
#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "gpu/plan.h"
#include "tests/aid_cpu.h"
#include "tests/aid_test.h"

enum { CTX = 128, TEXT = 96, ROWS = 6 };

static const struct engine_ops *engine;
static struct aid_packed packed;
static int32_t text[TEXT];

static int set_up(void **state)
{
    (void)state;
    aid_packed_open(&packed, GOLDENS "micro/mlx4");
    aid_tokens(5, packed.w.config.vocab, TEXT, text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    aid_packed_close(&packed);
    return 0;
}

static uint64_t recorded(const struct aid_run *r)
{
    return plans_recorded((const struct gpu *)r->g);
}

/* Twice the same text, by steps of one row and of three, and with drafts. */
static void a_shape_is_recorded_once(void **state)
{
    struct err e = {0};
    struct aid_run r;
    int32_t guess[2];
    uint64_t first = 0;
    (void)state;
    aid_run_open(&r, engine, &packed.w, &aid_run_defaults, CTX);
    float *logits = mem_array((size_t)r.vocab * TEXT, sizeof *logits);
    float *again = mem_array((size_t)r.vocab * TEXT, sizeof *again);
    assert_true(logits && again);
    for (int round = 0; round < 2; round++) {
        float *to = round ? again : logits;
        r.g->ops->sequence_reset(r.seq);
        aid_run_feed(&r, text, 48, 1, to);
        aid_run_feed(&r, text + 48, 48, 3, to + (size_t)r.vocab * 48);
        assert_ok(r.g->ops->draft(r.seq, 3, 2, guess, NULL, &e), e);
        first = round ? first : recorded(&r);
    }
    aid_same_floats(again, logits, (size_t)r.vocab * TEXT, "a plan that was kept");
    printf("note: %llu plans for 64 steps and a draft\n", (unsigned long long)first);
    assert_in_range(first, 3, 12);
    assert_int_equal(recorded(&r), first);
    mem_free(logits);
    mem_free(again);
    aid_run_close(&r);
}

/* Each choice of rows, from one to another, of a step of R: the logits that all give. Each is a
 * shape of its own. */
static void check_windows(struct aid_run *r, int R, const float *all, float *some)
{
    struct err e = {0};
    struct row rows[ROWS];
    const size_t vocab = (size_t)r->vocab;
    for (int i = 0; i < R; i++)
        rows[i] = (struct row){r->seq, text[i]};
    for (int a = 0; a < R; a++)
        for (int b = a; b < R; b++) {
            bool want[ROWS] = {0};
            want[a] = want[b] = true;
            memset(some, 0, vocab * ROWS * sizeof *some);
            assert_ok(r->g->ops->step(r->g, rows, R, want, some, &e), e);
            assert_ok(r->g->ops->commit(r->g, r->seq, 0, &e), e);
            for (int i = 0; i < R; i++) {
                const float *row = some + (size_t)i * vocab;
                if (want[i])
                    aid_same_floats(row, all + (size_t)i * vocab, vocab, "a row of some");
                else
                    assert_true(row[0] == 0 && row[vocab - 1] == 0);
            }
        }
}

/* Rows that nobody asks for change no logits; and when there are more shapes than plans, the one
 * that was not run for longest goes, and comes again. */
static void shapes_come_and_go(void **state)
{
    struct aid_run r;
    (void)state;
    aid_run_open(&r, engine, &packed.w, &aid_run_defaults, CTX);
    size_t vocab = (size_t)r.vocab;
    float *all = mem_array(vocab * ROWS, sizeof *all), *some = mem_array(vocab * ROWS, sizeof *all);
    assert_true(all && some);
    aid_run_feed(&r, text, ROWS, ROWS, all);
    r.g->ops->sequence_reset(r.seq);
    for (int round = 0; round < 2; round++) {
        check_windows(&r, ROWS, all, some);
        check_windows(&r, ROWS - 1, all, some);
    }
    assert_int_equal(recorded(&r), 2 * (ROWS * (ROWS + 1) / 2 + ROWS * (ROWS - 1) / 2));
    mem_free(all);
    mem_free(some);
    aid_run_close(&r);
}

/* Steps that ask for the likeliest tokens give those of the logits, and the logits of the rows that
 * want them. */
static void best_is_that_of_the_logits(void **state)
{
    enum { LIMIT = 50 };
    struct aid_run r;
    struct err e = {0};
    struct row rows[ROWS];
    struct best best[ROWS];
    (void)state;
    aid_run_open(&r, engine, &packed.w, &aid_run_defaults, CTX);
    const size_t vocab = (size_t)r.vocab;
    float *all = mem_array(vocab * ROWS, sizeof *all), *some = mem_array(vocab * ROWS, sizeof *all);
    assert_true(all && some);
    for (int i = 0; i < ROWS; i++)
        rows[i] = (struct row){r.seq, text[i]};
    assert_ok(r.g->ops->step(r.g, rows, ROWS, NULL, all, &e), e);
    for (int wanted = -1; wanted < ROWS; wanted++) {
        bool want[ROWS] = {0};
        const int limit = wanted % 2 ? LIMIT : r.vocab;
        if (wanted >= 0)
            want[wanted] = true;
        memset(some, 0, vocab * ROWS * sizeof *some);
        assert_ok(r.g->ops->commit(r.g, r.seq, 0, &e), e);
        assert_ok(engine_step_best(r.g, rows, ROWS,
                                   &(struct best_job){.limit = limit,
                                                      .want = wanted < 0 ? NULL : want,
                                                      .logits = some,
                                                      .best = best},
                                   &e),
                  e);
        for (int i = 0; i < ROWS; i++) {
            const float *row = all + (size_t)i * vocab;
            assert_int_equal(best[i].token, engine_argmax(row, limit));
            assert_true(best[i].hash == engine_logits_hash(row, r.vocab));
            if (want[i])
                aid_same_floats(some + (size_t)i * vocab, row, vocab, "a row that was wanted");
        }
    }
    mem_free(all);
    mem_free(some);
    aid_run_close(&r);
}

/* Whatever comes behind a rehearsal finds its kernels made. */
static void a_rehearsal_makes_all_kernels(void **state)
{
    struct err e = {0};
    struct aid_run r;
    int32_t guess[2];
    (void)state;
    aid_run_open(&r, engine, &packed.w, &aid_run_defaults, CTX);
    struct gpu *g = (struct gpu *)r.g;
    interrupt_set(true);
    assert_int_equal(gpu_rehearse(g, &e), -E_INTERRUPTED);
    interrupt_set(false);
    assert_ok(gpu_rehearse(g, &e), e);
    const int made = device_kernels(g->device);
    printf("note: %d kernels\n", made);
    aid_run_prefill(&r, text, 64, 64, NULL);
    for (int R = 1; R < 5; R++)
        aid_run_feed(&r, text + 64, 12, R, NULL);
    struct row rows[] = {{r.seq, 1}, {r.seq, 2}};
    assert_ok(engine_step_best(r.g, rows, 2,
                               &(struct best_job){.limit = r.vocab, .best = (struct best[2]){{0}}},
                               &e),
              e);
    assert_ok(r.g->ops->commit(r.g, r.seq, 1, &e), e);
    assert_ok(r.g->ops->draft(r.seq, 3, 2, guess, NULL, &e), e);
    assert_int_equal(device_kernels(g->device), made);
    aid_run_close(&r);
}

/* Of batches that are kept, and of those that pass. */
static void time_goes_into_phases(void **state)
{
    struct engine_options o = aid_run_defaults;
    struct aid_run r;
    (void)state;
    o.phases = true;
    aid_run_open(&r, engine, &packed.w, &o, CTX);
    float *logits = mem_array((size_t)r.vocab * 3, sizeof *logits);
    assert_non_null(logits);
    aid_run_prefill(&r, text, 9, 9, logits);
    aid_run_feed(&r, text + 9, 3, 1, logits);
    const uint64_t *ns = engine->counters(r.g)->phase_ns;
    const bool clocked = device_about(((struct gpu *)r.g)->device)->tick_ns > 0;
    for (int i = PHASE_EMBED; i <= PHASE_DRAFT; i++)
        assert_true((ns[i] > 0) == clocked);
    assert_in_range(ns[PHASE_WAIT], 1, ns[PHASE_HOST]);
    mem_free(logits);
    aid_run_close(&r);
}

/* Ctrl-C while weights are copied to the device was heard when all were there. */
static void opening_can_be_stopped(void **state)
{
    struct err e = {0};
    struct engine *g = NULL;
    (void)state;
    interrupt_set(true);
    assert_int_equal(engine->open(&packed.w, &aid_run_defaults, &g, &e), -E_INTERRUPTED);
    interrupt_set(false);
    assert_null(g);
    assert_string_equal(e.msg, "stopped by request");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_can_be_stopped),
        cmocka_unit_test(a_shape_is_recorded_once),
        cmocka_unit_test(shapes_come_and_go),
        cmocka_unit_test(best_is_that_of_the_logits),
        cmocka_unit_test(a_rehearsal_makes_all_kernels),
        cmocka_unit_test(time_goes_into_phases),
    };
    char name[] = "test", gpu[] = "gpu";
    char *argv[] = {name, gpu};
    engine = aid_engine_chosen(2, argv);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
