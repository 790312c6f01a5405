/* The bench command: figures that are there and make sense, hashes that say what was computed, and
 * refusals of what cannot be measured. How fast anything is, no test asks. */
#include "tests/aid_test.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "runner/machine.h"
#include "tests/aid_pack.h"

static char *tmp, *store;

static int set_up(void **state)
{
    (void)state;
    tmp = aid_tmpdir();
    store = mem_strdup(aid_path(tmp, "store"));
    aid_pack_ok(GOLDENS "micro/mlx4", store, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mem_free(store);
    aid_rmdir(tmp);
    return 0;
}

/* Runs bench on the store with further flags (NULL at the end). */
static json_t *bench(const char *const *flags)
{
    const char *argv[24] = {"cherenkov", "bench",     store,           "--json", "--no-machine",
                            "--engine",  "reference", "--repetitions", "2",      NULL};
    struct aid_output o;
    size_t n = 9;
    for (; *flags; flags++)
        argv[n++] = *flags;
    argv[n] = NULL;
    aid_run(argv, NULL, &o);
    if (o.status)
        fail_msg("bench: %s", buf_str(&o.err));
    json_t *root = json_loads(buf_str(&o.out), 0, NULL);
    assert_non_null(root);
    aid_output_free(&o);
    return root;
}

static const char *hash_of(json_t *root)
{
    return json_string_value(json_object_get(root, "logits"));
}

static void check_part(json_t *root, const char *key)
{
    json_t *part = json_object_get(root, key), *rates = json_object_get(part, "rates");
    double best = json_real_value(json_object_get(part, "best"));
    double median = json_real_value(json_object_get(part, "median")), most = 0;
    assert_int_equal(json_array_size(rates), 2);
    for (size_t i = 0; i < 2; i++) {
        double rate = json_real_value(json_array_get(rates, i));
        assert_true(rate > 0);
        most = rate > most ? rate : most;
    }
    assert_true(best == most && median <= best && median > 0);
}

/* The logits are those of the tokens, however the work is cut. */
static void test_figures(void **state)
{
    (void)state;
    json_t *a = bench((const char *[]){"--prompt-tokens", "20", "--tokens", "6", NULL});
    json_t *b = bench(
        (const char *[]){"--prompt-tokens", "20", "--tokens", "6", "--prefill-chunk", "3", NULL});
    json_t *c =
        bench((const char *[]){"--prompt-tokens", "20", "--tokens", "6", "--seed", "7", NULL});
    json_t *d =
        bench((const char *[]){"--prompt-tokens", "20", "--tokens", "6", "--sequences", "3", NULL});
    check_part(a, "prefill");
    check_part(a, "decode");
    check_part(d, "decode");
    assert_string_equal(hash_of(a), hash_of(b));
    assert_string_not_equal(hash_of(a), hash_of(c));
    assert_string_not_equal(hash_of(a), hash_of(d)); /* of its last sequence */
    json_decref(a);
    json_decref(b);
    json_decref(c);
    json_decref(d);
}

static void test_drafts(void **state)
{
    (void)state;
    json_t *a =
        bench((const char *[]){"--prompt-tokens", "8", "--tokens", "12", "--drafts", "2", NULL});
    json_t *b = bench((const char *[]){"--prompt-tokens", "8", "--tokens", "12", "--drafts", "1",
                                       "--lookup", NULL});
    check_part(a, "decode");
    assert_string_equal(hash_of(a), hash_of(b)); /* drafts change no text */
    json_decref(a);
    json_decref(b);
}

static void fails(const char *const *argv, int status, const char *says)
{
    struct aid_output o;
    aid_run(argv, NULL, &o);
    if (o.status != status || !strstr(buf_str(&o.err), says))
        fail_msg("status %d, want %d and '%s': %s", o.status, status, says, buf_str(&o.err));
    aid_output_free(&o);
}

static void test_refusals(void **state)
{
    (void)state;
    fails((const char *[]){"cherenkov", "bench", store, "--tokens", "0", "--prompt-tokens", "0",
                           NULL},
          2, "nothing to measure");
    fails((const char *[]){"cherenkov", "bench", store, "--lookup", NULL}, 2, "--drafts");
    fails((const char *[]){"cherenkov", "bench", store, "--drafts", "1", "--prompt-tokens", "0",
                           NULL},
          2, "wants a prompt");
    fails((const char *[]){"cherenkov", "bench", store, "--phases", "--engine", "cpu", NULL}, 2,
          "--phases is for engine gpu, and engine cpu"); /* it printed zeros */
    fails((const char *[]){"cherenkov", "bench", store, "--experts", "2", NULL}, 3,
          "--experts 2` makes them");
    fails((const char *[]){"cherenkov", "bench", store, "--no-machine", "--prompt-tokens",
                           "1000000", NULL},
          1, "positions end at");
}

static void test_machine(void **state)
{
    struct err e = {0};
    double memory = 0;
    (void)state;
    assert_ok(machine_memory_rate(2, 64 << 20, &memory, &e), e);
    printf("note: memory %.1f GB/s\n", memory * 1e-9);
    assert_true(memory > 1e8 && memory < 1e13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_drafts),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_machine),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
