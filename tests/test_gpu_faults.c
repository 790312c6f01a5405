/* A device that refuses, is lost, or does not answer: errors that say so, every later call says the
 * same, closing ends, and the process opens another. By CHERENKOV_DEVICE_FAULT, and once by a wait
 * that really takes too long. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gpu/device.h"
#include "gpu/params.h"
#include "tests/aid_gpu.h"
#include "tests/aid_test.h"

static struct device *open_with(const char *fault)
{
    struct err e = {0};
    struct device *d;
    setenv("CHERENKOV_DEVICE_FAULT", fault, 1);
    assert_ok(device_open(NULL, &d, &e), e);
    unsetenv("CHERENKOV_DEVICE_FAULT");
    return d;
}

/* What an engine does: memory, a kernel, a tape, a run. */
struct work {
    struct device *d;
    struct device_buffer buffer[3];
    struct tape *tape;
};

static int work_open(struct work *w, struct err *e)
{
    const struct kernel *k;
    int rc = 0;
    for (int i = 0; !rc && i < 3; i++)
        rc = device_take(w->d, (enum device_memory)i, 4096, &w->buffer[i], e);
    if (!rc)
        rc = device_kernel(w->d, "copy", NULL, 0, &k, e);
    if (!rc)
        rc = tape_open(w->d, 1, &w->tape, e);
    if (rc)
        return rc;
    struct copy_params p = {
        .from = w->buffer[1].address, .to = w->buffer[2].address, .words = 1024};
    tape_begin(w->tape);
    tape_dispatch(w->tape, k, &p, sizeof p, (struct grid){1, 1, 1});
    tape_stamp(w->tape);
    return tape_end(w->tape, e);
}

static int work_run(struct work *w, struct err *e)
{
    uint64_t value;
    int rc = device_submit(w->d, w->tape, &value, e);
    return rc ? rc : device_wait(w->d, value, e);
}

static void work_close(struct work *w)
{
    tape_close(w->tape);
    for (int i = 0; i < 3; i++)
        device_free(w->d, &w->buffer[i]);
    device_close(w->d);
}

/* The Nth of its allocations and kernels fails, for each N, until nothing does. */
static void every_refusal_is_an_error(void **state)
{
    (void)state;
    static const char *const kinds[] = {"memory", "kernel"};
    static const int calls[] = {3, 1};
    for (int kind = 0; kind < 2; kind++)
        for (int n = 1;; n++) {
            char fault[32];
            snprintf(fault, sizeof fault, "%s:%d", kinds[kind], n);
            struct err e = {0};
            struct work w = {.d = open_with(fault)};
            int rc = work_open(&w, &e);
            if (rc) {
                assert_int_equal(rc, -E_NOMEM);
                assert_non_null(strstr(e.msg, kind ? "copy" : "no room for"));
            } else {
                assert_ok(work_run(&w, &e), e);
            }
            work_close(&w);
            assert_int_equal(rc == 0, n > calls[kind]);
            if (!rc)
                break;
        }
}

/* Whatever is asked for, the answer is the first failure. */
static void check_all_fail(struct work *w, const char *words)
{
    struct err e = {0};
    struct device_buffer b;
    struct tape *t;
    const struct kernel *k;
    uint64_t value;
    char byte = 0;
    const struct device_copy copy = {&w->buffer[1], &w->buffer[2], 0, 0, 4096};
    tape_begin(w->tape);
    tape_barrier(w->tape);
    const int rc[] = {
        device_take(w->d, DEVICE_LOCAL, 16, &b, &e),
        device_upload(w->d, &w->buffer[0], 0, &byte, 1, &e),
        device_download(w->d, &w->buffer[0], 0, &byte, 1, &e),
        device_kernel(w->d, "copy", NULL, 0, &k, &e),
        tape_open(w->d, 0, &t, &e),
        tape_end(w->tape, &e),
        device_submit(w->d, w->tape, &value, &e),
        device_wait(w->d, 1, &e),
        device_release(w->d, 9, &e),
        device_copy(w->d, &copy, 1, 0, &value, &e),
        device_wait_copied(w->d, 0, &e),
    };
    for (size_t i = 0; i < sizeof rc / sizeof rc[0]; i++)
        assert_int_equal(rc[i], -E_IO);
    assert_non_null(strstr(e.msg, words));
    assert_true(device_done(w->d, 1) && device_copied(w->d, 1)); /* nothing to wait for */
}

static void a_lost_device_stays_lost(void **state)
{
    (void)state;
    struct err e = {0};
    struct work w = {.d = open_with("lost:2")};
    assert_ok(work_open(&w, &e), e);
    assert_ok(work_run(&w, &e), e);
    assert_int_equal(work_run(&w, &e), -E_IO);
    assert_non_null(strstr(e.msg, "the device is lost"));
    printf("note: %s\n", e.msg);
    check_all_fail(&w, "the device is lost");
    work_close(&w);
    w = (struct work){.d = open_with("")};
    err_clear(&e);
    assert_ok(work_open(&w, &e), e);
    assert_ok(work_run(&w, &e), e);
    work_close(&w);
}

static void a_wait_ends_in_an_error(void **state)
{
    (void)state;
    struct err e = {0};
    struct work w = {.d = open_with("late:1")};
    assert_ok(work_open(&w, &e), e);
    assert_int_equal(work_run(&w, &e), -E_IO);
    check_all_fail(&w, "no answer in time");
    work_close(&w);
}

/* A submission whose release never comes: the wait really runs into its limit, what was submitted
 * is let go, and closing finds nothing running. */
static void a_hung_device_is_given_up(void **state)
{
    (void)state;
    struct err e = {0};
    setenv("CHERENKOV_DEVICE_SECONDS", "1", 1);
    struct work w = {.d = open_with("")};
    unsetenv("CHERENKOV_DEVICE_SECONDS");
    uint64_t value, go = 1, start;
    assert_ok(work_open(&w, &e), e);
    assert_ok(device_submit_ahead(w.d, &w.tape, 1, &go, &value, &e), e);
    start = clock_ns();
    assert_int_equal(device_wait(w.d, value, &e), -E_IO);
    double took = clock_seconds_since(start);
    assert_true(took > 0.9 && took < 30);
    assert_non_null(strstr(e.msg, "no answer in time"));
    check_all_fail(&w, "no answer in time");
    work_close(&w);
}

/* A copy is a start like others; one behind a tape that waits for the host is let go with it. */
static void a_copy_can_fail(void **state)
{
    (void)state;
    struct err e = {0};
    struct work w = {.d = open_with("lost:3")};
    uint64_t value, copied, go = 1;
    assert_ok(work_open(&w, &e), e);
    const struct device_copy copy = {&w.buffer[1], &w.buffer[2], 0, 0, 4096};
    memset(w.buffer[1].host, 7, 4096);
    memset(w.buffer[2].host, 0, 4096);
    assert_ok(device_submit_ahead(w.d, &w.tape, 1, &go, &value, &e), e);
    assert_ok(device_copy(w.d, &copy, 1, value, &copied, &e), e);
    assert_false(device_copied(w.d, copied));
    assert_int_equal(device_copy(w.d, &copy, 1, 0, &copied, &e), -E_IO);
    assert_non_null(strstr(e.msg, "starting a copy"));
    check_all_fail(&w, "the device is lost");
    assert_memory_equal(w.buffer[1].host, w.buffer[2].host, 4096); /* it ran */
    work_close(&w);
}

/* Lost while a tape waits for the host's release: it is let go, so that nothing runs when its
 * memory is freed. */
static void what_waits_is_let_go(void **state)
{
    (void)state;
    struct err e = {0};
    struct work w = {.d = open_with("lost:2")};
    struct tape *other;
    uint64_t value, go = 5;
    assert_ok(work_open(&w, &e), e);
    assert_ok(tape_open(w.d, 0, &other, &e), e);
    tape_begin(other);
    assert_ok(tape_end(other, &e), e);
    memset(w.buffer[1].host, 7, 4096);
    memset(w.buffer[2].host, 0, 4096);
    assert_ok(device_submit_ahead(w.d, &w.tape, 1, &go, &value, &e), e);
    assert_false(device_done(w.d, value));
    assert_int_equal(device_submit(w.d, other, &value, &e), -E_IO);
    assert_memory_equal(w.buffer[1].host, w.buffer[2].host, 4096); /* it ran */
    tape_close(other);
    work_close(&w);
}

static void switches_are_checked(void **state)
{
    (void)state;
    static const char *const bad[] = {"memory", "memory:0", "memory:x", "heat:1", "lost:1;late:1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = {0};
        struct device *d;
        setenv("CHERENKOV_DEVICE_FAULT", bad[i], 1);
        assert_int_equal(device_open(NULL, &d, &e), -E_ARG);
        assert_null(d);
    }
    unsetenv("CHERENKOV_DEVICE_FAULT");
    device_close(open_with("memory:100,lost:100"));
}

/* One after another, as a server does that loses its device now and then. */
static void the_fortieth_opens_too(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++)
        device_close(open_with("lost:1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fortieth_opens_too),    cmocka_unit_test(every_refusal_is_an_error),
        cmocka_unit_test(a_lost_device_stays_lost),  cmocka_unit_test(a_wait_ends_in_an_error),
        cmocka_unit_test(a_hung_device_is_given_up), cmocka_unit_test(what_waits_is_let_go),
        cmocka_unit_test(a_copy_can_fail),           cmocka_unit_test(switches_are_checked),
    };
    struct aid_gpu g;
    aid_gpu_open(&g); /* skips where there is no device */
    aid_gpu_close(&g);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
