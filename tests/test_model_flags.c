/* Flags of every command that runs a model: what they become for the engine, which contradict one
 * another, and, with the program, that those that change answers reach it. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/model_flags.h"
#include "tests/aid_demo.h"

enum { WORDS = 6 };

static int parse(const char *const *words, struct model_options *out, struct err *e)
{
    static const struct command sample = {"sample", "", "a command of this test", NULL};
    struct flag rows[MODEL_FLAGS + 1] = {0};
    struct model_flags mine;
    struct flags f = {.command = &sample, .flag = rows};
    int n = 0;
    while (n < WORDS && words[n])
        n++;
    model_flags_init(&mine, rows);
    *e = (struct err){0};
    int rc = flags_parse(&f, n, (char **)(uintptr_t)words, e);
    return rc ? rc : model_flags_options(&mine, "sample", out, e);
}

static struct engine_options options(const char *const *words)
{
    struct model_options o;
    struct err e;
    assert_ok(parse(words, &o, &e), e);
    return o.engine_options;
}

#define OPTIONS(...) options((const char *const[WORDS]){"sample", __VA_ARGS__})

static void test_defaults(void **state)
{
    (void)state;
    const struct engine_options o = OPTIONS(NULL);
    assert_int_equal(o.expert_bits, 0);
    assert_int_equal(o.miss_bits, 0);
    assert_true(o.cut_weak == 0);
    assert_int_equal(o.mtp_norm, -1);
    assert_int_equal(o.pool, ENGINE_POOL_COPY);
    assert_int_equal(o.reads, ENGINE_READS_AUTO);
    assert_int_equal(o.pool_slots + o.threads + o.chunk, 0);
    assert_true(o.memory == 0 && o.pool_bytes == 0);
}

static void test_values(void **state)
{
    (void)state;
    for (int bits = 4; bits >= 2; bits--) {
        const char word[] = {(char)('0' + bits), 0};
        assert_int_equal(OPTIONS("--experts", word).expert_bits, bits);
        if (bits < 4)
            assert_int_equal(OPTIONS("--miss-experts", word).miss_bits, bits);
    }
    assert_int_equal(OPTIONS("--experts", "auto").expert_bits, 0);
    assert_int_equal(OPTIONS("--experts", "3", "--miss-experts", "2").miss_bits, 2);
    assert_true(OPTIONS("--cut-weak", "0.25").cut_weak == 0.25);
    assert_int_equal(OPTIONS("--threads", "3").threads, 3);
    assert_int_equal(OPTIONS("--prefill-chunk", "77").chunk, 77);
    assert_int_equal(OPTIONS("--pool-slots", "50").pool_slots, 50);
    assert_int_equal(OPTIONS("--host-experts", "off").host_experts, ENGINE_HOST_OFF);
    assert_int_equal(OPTIONS("--pool-gb", "1.5").pool_bytes, 1500000000);
    assert_int_equal(OPTIONS("--pool", "map").pool, ENGINE_POOL_MAP);
    assert_int_equal(OPTIONS("--reads", "uring").reads, ENGINE_READS_URING);
    assert_int_equal(OPTIONS("--reads", "pread").reads, ENGINE_READS_PREAD);
}

/* Flags that are refused, and what the message says. */
static const struct {
    const char *words[WORDS], *says;
} wrong[] = {
    {{"sample", "--experts", "5"}, "--experts wants one of auto|4|3|2, found '5'"},
    {{"sample", "--miss-experts", "4"}, "--miss-experts wants one of 3|2, found '4'"},
    {{"sample", "--cut-weak", "1.5"}, "--cut-weak wants a number from 0 to 1, found '1.5'"},
    {{"sample", "--cut-weak", "-1"}, "--cut-weak wants a number from 0 to 1, found '-1'"},
    {{"sample", "--cut-weak", "nan"}, "--cut-weak wants a number"},
    {{"sample", "--experts", "3", "--miss-experts", "3"}, "want fewer bits than --experts 3"},
    {{"sample", "--experts", "2", "--miss-experts", "3"}, "want fewer bits than --experts 2"},
    {{"sample", "--pool", "map", "--experts", "3"}, "leave --experts out"},
    {{"sample", "--pool", "map", "--miss-experts", "2"}, "leave --miss-experts out"},
    {{"sample", "--pool", "map", "--pool-slots", "40"}, "leave --pool-slots out"},
    {{"sample", "--pool", "map", "--pool-gb", "1"}, "leave --pool-gb out"},
    {{"sample", "--pool-gb", "1", "--pool-slots", "40"}, "say the same thing"},
};

static void test_what_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct model_options o;
        struct err e;
        assert_int_equal(parse(wrong[i].words, &o, &e), -E_ARG);
        if (!strstr(e.msg, wrong[i].says))
            fail_msg("'%s', want '%s'", e.msg, wrong[i].says);
    }
}

static void logits(const char *store, const char *flag, const char *value, struct aid_output *o)
{
    const char *const argv[] = {"cherenkov", "logits", store, "--ids",
                                "5,6,7,8,9", flag,     value, NULL};
    aid_run(argv, NULL, o);
    if (o->status)
        fail_msg("%s %s: %s", flag, value, buf_str(&o->err));
}

static void warns(const struct aid_output *o, const char *flag)
{
    char text[64];
    snprintf(text, sizeof text, "with %s answers depend on what is cached", flag);
    if (!strstr(buf_str(&o->err), text))
        fail_msg("no warning of %s: %s", flag, buf_str(&o->err));
}

/* Logits tell which experts were used: all bits that the store has, fewer of all, and (every expert
 * is missed once, and kept) fewer of what is missed. */
static void test_flags_reach_the_engine(void **state)
{
    struct aid_output best, bits_out[3], miss, cut;
    char *dir = aid_tmpdir(), *store = file_join(dir, "packed");
    (void)state;
    aid_run((const char *const[]){"cherenkov", "pack", DEMO, "--output", store, "--experts",
                                  "4,3,2", NULL},
            NULL, &best);
    assert_int_equal(best.status, 0);
    aid_output_free(&best);
    logits(store, "--experts", "auto", &best);
    for (int bits = 4; bits >= 2; bits--) {
        const char word[] = {(char)('0' + bits), 0};
        logits(store, "--experts", word, &bits_out[4 - bits]);
        assert_int_equal(strcmp(buf_str(&bits_out[4 - bits].out), buf_str(&best.out)) == 0,
                         bits == 4);
    }
    assert_string_not_equal(buf_str(&bits_out[1].out), buf_str(&bits_out[2].out));
    logits(store, "--miss-experts", "2", &miss);
    assert_string_equal(buf_str(&miss.out), buf_str(&bits_out[2].out));
    warns(&miss, "--miss-experts");
    logits(store, "--cut-weak", "1e-30", &cut);
    assert_string_equal(buf_str(&cut.out), buf_str(&best.out));
    warns(&cut, "--cut-weak");
    for (int i = 0; i < 3; i++)
        aid_output_free(&bits_out[i]);
    aid_output_free(&best);
    aid_output_free(&miss);
    aid_output_free(&cut);
    mem_free(store);
    aid_rmdir(dir);
}

/* Numbers that another model could do with: a limit of this one, and status 1. */
static void test_what_this_model_cannot_do(void **state)
{
    static const struct {
        const char *argv[8], *says;
    } cases[] = {
        {{"run", "--max-ctx", "1000000"},
         "1000000 tokens is asked for, and the model's positions end"},
        {{"run", "--max-ctx", "1"}, "the context holds 1, answer included"},
        {{"run", "--pool-slots", "1"}, "a pool of 1 experts is too small, want at least"},
        {{"run", "--memory", "2000000"}, "the limit is 2.00 MB (--memory), but"},
        {{"logits", "--memory", "2000000", "--ids", "1"}, "the limit is 2.00 MB (--memory), but"},
        {{"perplexity", "--window", "1000000"}, "1000000 tokens is asked for"},
        {{"bench", "--prompt-tokens", "1000000", "--no-machine"}, "tokens is asked for"},
        {{"serve", "--max-ctx", "1000000", "--listen", "127.0.0.1:0", "--control", "none"},
         "1000000 tokens is asked for"},
    };
    char *dir = aid_demo_pack(), *store = file_join(dir, "packed");
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *argv[16] = {"cherenkov"};
        const char *const command = cases[i].argv[0];
        struct aid_output o;
        int n = 1;
        for (int k = 0; cases[i].argv[k]; k++)
            argv[n++] = cases[i].argv[k];
        argv[n++] = store;
        if (strcmp(command, "run") == 0 || strcmp(command, "perplexity") == 0)
            argv[n++] = "Once upon a time";
        aid_run(argv, NULL, &o);
        if (o.status != 1 || !strstr(buf_str(&o.err), cases[i].says))
            fail_msg("%s %s: status %d, %s", command, cases[i].argv[1], o.status, buf_str(&o.err));
        aid_output_free(&o);
    }
    mem_free(store);
    aid_rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_flags_reach_the_engine),
        cmocka_unit_test(test_what_this_model_cannot_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
