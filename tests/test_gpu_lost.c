/* Engine "gpu" on a device that refuses memory or a kernel, is lost, or does not answer, at any
 * point of an engine's life: an error that says so, a close that ends, and the process opens the
 * next engine, which computes what it should. By CHERENKOV_DEVICE_FAULT. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "stream/stream.h"
#include "tests/aid_cpu.h"
#include "tests/aid_test.h"

enum { CTX = 64, TEXT = 24, PROMPT = 16 };

static const struct engine_ops *engine;
static struct engine_options options;
static struct aid_packed packed;
static int32_t text[TEXT];
static float *want, *got; /* [vocab] logits of the last token */

static int set_up(void **state)
{
    (void)state;
    aid_packed_open(&packed, GOLDENS "micro/mlx4");
    options = aid_run_defaults;
    aid_tokens(3, packed.w.config.vocab, TEXT, text);
    want = mem_array((size_t)packed.w.config.vocab, sizeof *want);
    got = mem_array((size_t)packed.w.config.vocab, sizeof *got);
    assert_true(want && got);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mem_free(want);
    mem_free(got);
    aid_packed_close(&packed);
    return 0;
}

static int use(struct engine *g, struct sequence *s, float *logits, struct err *e)
{
    int32_t guess[2];
    int rc = g->ops->prefill(g, s, text, PROMPT, logits, e);
    for (int i = PROMPT; !rc && i < TEXT; i++) {
        const struct row row = {s, text[i]};
        rc = g->ops->step(g, &row, 1, NULL, logits, e);
        rc = rc ? rc : g->ops->commit(g, s, 1, e);
        rc = rc ? rc : g->ops->draft(s, text[0], 2, guess, NULL, e);
    }
    return rc;
}

/* An engine's life, with a fault or "". */
static int live(const char *fault, float *logits, struct err *e)
{
    struct engine *g;
    struct sequence *s = NULL;
    setenv("CHERENKOV_DEVICE_FAULT", fault, 1);
    int rc = engine->open(&packed.w, &options, &g, e);
    unsetenv("CHERENKOV_DEVICE_FAULT");
    if (rc)
        return rc;
    rc = g->ops->sequence_open(g, CTX, &s, e);
    rc = rc ? rc : use(g, s, logits, e);
    if (rc) { /* and stays so */
        struct err again = {0};
        const struct row row = {s, text[0]};
        if (s)
            g->ops->sequence_reset(s);
        if (s && rc == -E_IO && g->ops->step(g, &row, 1, NULL, got, &again) != -E_IO)
            fail_msg("%s: after '%s' a step says '%s'", fault, e->msg, again.msg);
    }
    g->ops->sequence_close(s);
    g->ops->close(g);
    return rc;
}

/* The faults of one kind, then an engine without. */
static void check(const char *name, const int *nth, int n, enum err_code code)
{
    for (int i = 0; i < n; i++) {
        struct err e = {0};
        char fault[32];
        snprintf(fault, sizeof fault, "%s:%d", name, nth[i]);
        int rc = live(fault, got, &e);
        if (rc)
            printf("note: %s: %s\n", fault, e.msg);
        assert_int_equal(rc, -(int)code);
    }
    struct err e = {0};
    assert_ok(live("", got, &e), e);
    aid_same_floats(got, want, (size_t)packed.w.config.vocab, "after the failures");
}

static void nothing_fails(void **state)
{
    struct err e = {0};
    (void)state;
    assert_ok(live("", want, &e), e);
}

static void no_memory(void **state)
{
    static const int nth[] = {1, 2, 3, 6};
    (void)state;
    check("memory", nth, 4, E_NOMEM);
}

static void no_kernel(void **state)
{
    static const int nth[] = {1, 4, 20};
    (void)state;
    check("kernel", nth, 3, E_NOMEM);
}

static void lost(void **state)
{
    static const int nth[] = {1, 4, 16};
    (void)state;
    check("lost", nth, 3, E_IO);
}

static void late(void **state)
{
    static const int nth[] = {1, 3};
    (void)state;
    check("late", nth, 2, E_IO);
}

/* The same with experts on the device, in the pool and on the disk, and copies between all of them
 * under way: which start is a copy's depends on how fast the disk is, so starts are lost one after
 * another until there was one of each kind. */
static void lost_between_tiers(void **state)
{
    const struct expert_layout *x = &packed.store->manifest.experts;
    struct err e = {0};
    struct engine *g;
    int copies = 0, others = 0;
    (void)state;
    assert_ok(engine->open(&packed.w, &options, &g, &e), e);
    options.device_memory =
        engine->counters(g)->device_fixed_bytes + 20 * stream_slot_bytes(packed.store, 4, 0);
    options.pool_slots = x->n_layers * x->E - 30;
    engine->close(g);
    for (int nth = 92; nth < 132 && !(copies && others); nth++) {
        char fault[32];
        snprintf(fault, sizeof fault, "lost:%d", nth);
        err_clear(&e);
        int rc = live(fault, got, &e);
        if (rc != -E_IO)
            print_message("%s: %d, %s\n", fault, rc, e.msg);
        assert_int_equal(rc, -E_IO);
        copies += strstr(e.msg, "starting a copy") != NULL;
        others += strstr(e.msg, "starting a copy") == NULL;
    }
    assert_true(copies && others);
    err_clear(&e);
    assert_ok(live("", got, &e), e);
    aid_same_floats(got, want, (size_t)packed.w.config.vocab, "in three tiers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_fails), cmocka_unit_test(no_memory),
        cmocka_unit_test(no_kernel),     cmocka_unit_test(lost),
        cmocka_unit_test(late),          cmocka_unit_test(lost_between_tiers),
    };
    char name[] = "test", gpu[] = "gpu";
    char *argv[] = {name, gpu};
    engine = aid_engine_chosen(2, argv);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
