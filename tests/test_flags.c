/* flags: every type and every way to be wrong; the program's own part: unknown commands, help. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>

#include "cli/flags.h"

struct values {
    bool loud;
    const char *name, *from;
    int64_t count;
    double share;
    struct flag_list list;
    uint64_t size;
    int word;
};

static const struct command sample = {"sample", "FILE [FILE2]", "a command of this test", NULL};

/* Parses words (NULL at the end) as `sample` would. */
static int parse(const char *const *words, struct values *v, struct flags *f, struct err *e)
{
    static struct flag flag[9];
    int n = 0;
    while (words[n])
        n++;
    *v = (struct values){.name = "none", .count = -1, .share = -1};
    flag[0] = (struct flag){"loud", FLAG_BOOL, &v->loud, NULL, "say more", 0, 0};
    flag[1] = (struct flag){"name", FLAG_STRING, &v->name, "NAME", "a name", 0, 0};
    flag[2] = (struct flag){"count", FLAG_INT, &v->count, "N", "how many", 0, 100};
    flag[3] = (struct flag){"share", FLAG_REAL, &v->share, "X", "how much", 0, 1};
    flag[4] = (struct flag){"list", FLAG_LIST, &v->list, "X", "many times", 0, 0};
    flag[5] = (struct flag){"size", FLAG_SIZE, &v->size, "SIZE", "how big", 1000, 1e13};
    flag[6] = (struct flag){"word", FLAG_WORD, &v->word, "one|two|three", "which", 0, 0};
    flag[7] = (struct flag){"from", FLAG_STRING, &v->from, "FILE", "where", 0, 0};
    *f = (struct flags){.command = &sample, .flag = flag, .min_args = 1, .max_args = 2};
    *e = (struct err){0};
    return flags_parse(f, n, (char **)(uintptr_t)words, e);
}

static void test_values(void **state)
{
    (void)state;
    struct values v;
    struct flags f;
    struct err e;
    const char *words[] = {"sample", "a",       "--loud", "--name",   "n", "--count=100", "--list",
                           "1",      "--share", "0.25",   "--list=2", "-", NULL};
    assert_ok(parse(words, &v, &f, &e), e);
    assert_true(v.loud && v.count == 100 && v.share == 0.25 && v.list.n == 2);
    assert_string_equal(v.name, "n");
    assert_string_equal(v.list.at[1], "2");
    assert_int_equal(f.n_args, 2);
    assert_string_equal(f.args[0], "a");
    assert_string_equal(f.args[1], "-");
    const char *dashes[] = {"sample", "--name=", "--", "--loud", "-x", NULL};
    assert_ok(parse(dashes, &v, &f, &e), e);
    assert_false(v.loud);
    assert_string_equal(v.name, "");
    assert_string_equal(f.args[0], "--loud");
    assert_string_equal(f.args[1], "-x");
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *words[6], *say;
    } cases[] = {
        {{"sample", "a", "--lowd"}, "no flag --lowd, did you mean --loud?"},
        {{"sample", "a", "--hlep"}, "did you mean --help?"},
        {{"sample", ""}, "the first argument is empty"},
        {{"sample", "a", "--cout=3"}, "did you mean --count?"},
        {{"sample", "a", "--zzzzzz"}, "no flag --zzzzzz; `cherenkov sample --help` lists them"},
        {{"sample", "a", "-l"}, "flags have two dashes"},
        {{"sample", "a", "--loud=1"}, "--loud takes no value"},
        {{"sample", "a", "--name"}, "--name wants a value (NAME)"},
        {{"sample", "a", "--from", ""}, "sample: --from is empty, want FILE"},
        {{"sample", "a", "--from="}, "sample: --from is empty, want FILE"},
        {{"sample", "a", "--count", "101"}, "whole number from 0 to 100, found '101'"},
        {{"sample", "a", "--count", "7x"}, "found '7x'"},
        {{"sample", "a", "--count="}, "found ''"},
        {{"sample", "a", "--count", "99999999999999999999"}, "found '99999999999999999999'"},
        {{"sample", "a", "--share", "1.01"}, "a number from 0 to 1, found '1.01'"},
        {{"sample", "a", "--share", "nan"}, "found 'nan'"},
        {{"sample", "a", "--share", "0x0p0"}, "found '0x0p0'"},
        {{"sample", "a", "--count", " 7"}, "found ' 7'"},
        {{"sample"}, "wants 1 argument, found 0; usage: cherenkov sample FILE [FILE2]"},
        {{"sample", "a", "b", "c"}, "'c' is one argument too many"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct values v;
        struct flags f;
        struct err e;
        assert_int_equal(parse(cases[i].words, &v, &f, &e), -E_ARG);
        if (!strstr(e.msg, cases[i].say))
            fail_msg("want '%s', found '%s'", cases[i].say, e.msg);
        assert_int_equal(v.count, -1); /* a value that is refused is not stored */
    }
}

static void test_sizes_and_words(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes; /* 0: refused */
    } sizes[] = {
        {"1000", 1000},
        {"8G", 8000000000},
        {"1.5GB", 1500000000},
        {"2Gi", 2147483648},
        {"512MiB", 536870912},
        {"64K", 64000},
        {"3T", 3000000000000},
        {"4096B", 4096},
        {"999", 0},
        {"11T", 0},
        {"", 0},
        {"G", 0},
        {"8g", 0},
        {"8 G", 0},
        {"8Gx", 0},
        {"8GG", 0},
        {"-8G", 0},
        {"1.2.3G", 0},
        {"0x10G", 0},
        {"8Bi", 0},
        {"1111111111111111111111111111111111", 0},
    };
    static const char *const words[] = {"one", "two", "three", "", "on", "threes", "one|two"};
    struct values v;
    struct flags f;
    struct err e;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const char *argv[] = {"sample", "a", "--size", sizes[i].text, NULL};
        assert_int_equal(parse(argv, &v, &f, &e), sizes[i].bytes ? 0 : -E_ARG);
        assert_true(v.size == sizes[i].bytes);
        if (!sizes[i].bytes && !strstr(e.msg, "a size like 8G"))
            fail_msg("%s", e.msg);
    }
    for (int i = 0; i < 7; i++) {
        const char *argv[] = {"sample", "a", "--word", words[i], NULL};
        assert_int_equal(parse(argv, &v, &f, &e), i < 3 ? 0 : -E_ARG);
        assert_int_equal(v.word, i < 3 ? i : 0);
        if (i >= 3 && !strstr(e.msg, "wants one of one|two|three"))
            fail_msg("%s", e.msg);
    }
}

static void test_lists_are_bounded(void **state)
{
    (void)state;
    const char *words[FLAG_LIST_MAX + 4] = {"sample", "a"};
    struct values v;
    struct flags f;
    struct err e;
    for (int i = 0; i < FLAG_LIST_MAX; i++)
        words[2 + i] = "--list=x";
    assert_ok(parse(words, &v, &f, &e), e);
    words[2 + FLAG_LIST_MAX] = "--list=x";
    assert_int_equal(parse(words, &v, &f, &e), -E_ARG);
}

static void test_nearest(void **state)
{
    (void)state;
    static const char *const words[] = {"run", "chat", "pack", "tokenize"};
    char big[200];
    memset(big, 'a', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    assert_string_equal(flags_nearest("tokenise", words, 4), "tokenize");
    assert_string_equal(flags_nearest("rnu", words, 4), "run");
    assert_null(flags_nearest("perplexity", words, 4));
    assert_null(flags_nearest(big, words, 4));
}

/* The program: argument words, and what must appear on stdout or stderr with which status. */
static void test_program(void **state)
{
    (void)state;
    static const struct {
        const char *argv[5];
        int status;
        const char *out, *err;
    } cases[] = {
        {{"cherenkov"}, 2, "", "usage: cherenkov COMMAND"},
        {{"cherenkov", "--help"}, 0, "usage: cherenkov COMMAND", ""},
        {{"cherenkov", "help", "env"}, 0, "usage: cherenkov env", ""},
        {{"cherenkov", "env", "-h"}, 0, "--markdown", ""},
        {{"cherenkov", "--version"}, 0, "cherenkov ", ""},
        {{"cherenkov", "versoin"}, 2, "", "did you mean 'version'?"},
        {{"cherenkov", "help", "xyzzy"}, 2, "", "there is no command 'xyzzy'"},
        {{"cherenkov", "env", "--markdwn"}, 2, "", "did you mean --markdown?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aid_output o;
        aid_run(cases[i].argv, NULL, &o);
        if (o.status != cases[i].status || !strstr(buf_str(&o.out), cases[i].out) ||
            !strstr(buf_str(&o.err), cases[i].err))
            fail_msg("case %zu: status %d, out '%s', err '%s'", i, o.status, buf_str(&o.out),
                     buf_str(&o.err));
        aid_output_free(&o);
    }
}

static const struct command *const commands[] = {
    &cmd_pack,       &cmd_inspect, &cmd_verify, &cmd_run,    &cmd_chat,     &cmd_serve,
    &cmd_status,     &cmd_stats,   &cmd_dash,   &cmd_prompt, &cmd_tokenize, &cmd_logits,
    &cmd_perplexity, &cmd_check,   &cmd_synth,  &cmd_bench,  &cmd_devices,
};

/* What the help calls numbers, and values that none of them has. */
static const struct {
    const char *meta, *refused[8];
} numbers[] = {
    {"N",
     {"-9007199254740993", "9007199254740994", "99999999999999999999", "1.5", "0x10", "nan", ""}},
    {"SIZE", {"-1", "2000000T", "1e9", "8X", "0x10", "nan", ""}},
    {"A|G|K|P|T|W|X|SECONDS",
     {"-9007199254740993", "9007199254740994", "1e999", "0x10", "nan", "inf", ""}},
};

static bool is_one_of(const char *word, size_t len, const char *list)
{
    for (size_t n; *list; list += n + (list[n] == '|')) {
        n = strcspn(list, "|");
        if (n == len && memcmp(word, list, n) == 0)
            return true;
    }
    return false;
}

/* What one flag of a command says to a value. */
static void expect_refused(const struct command *c, const char *flag, const char *value)
{
    const char *const argv[] = {c->name, flag, value, "a", "b", NULL};
    struct err e = {0};
    char says[96];
    const int rc = c->run(5, (char **)(uintptr_t)argv, &e);
    snprintf(says, sizeof says, "%s: %s wants a", c->name, flag);
    if (err_exit_status(rc) != 2 || !strstr(e.msg, says))
        fail_msg("%s %s '%s': status %d, %s", c->name, flag, value, err_exit_status(rc), e.msg);
}

/* All number flags of a command, as its help lists them: how many there are. */
static int refuse_numbers(const struct command *c)
{
    struct aid_output o;
    int n = 0;
    aid_run((const char *const[]){"cherenkov", "help", c->name, NULL}, NULL, &o);
    for (const char *at = buf_str(&o.out); (at = strstr(at, "\n  --"));) {
        char flag[64];
        at += 3;
        snprintf(flag, sizeof flag, "%.*s", (int)strcspn(at, " \n"), at);
        const char *meta = at + strlen(flag) + 1;
        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
            if (!is_one_of(meta, strcspn(meta, " "), numbers[k].meta))
                continue;
            for (size_t i = 0; numbers[k].refused[i]; i++)
                expect_refused(c, flag, numbers[k].refused[i]);
            n++;
        }
    }
    aid_output_free(&o);
    return n;
}

/* A number that no model could do with is a wrong command line, whichever flag and command it is.
 * What only this model cannot do is another matter: tests/test_model_flags.c. */
static void test_numbers_out_of_range(void **state)
{
    static const struct {
        const struct command *command;
        const char *flag, *value;
    } edges[] = {
        {&cmd_run, "--max-ctx", "0"},        {&cmd_run, "--max-tokens", "0"},
        {&cmd_run, "--threads", "0"},        {&cmd_run, "--threads", "257"},
        {&cmd_run, "--pool-slots", "0"},     {&cmd_run, "--pool-gb", "0"},
        {&cmd_run, "--memory", "1M"},        {&cmd_run, "--device-memory", "0"},
        {&cmd_run, "--prefill-chunk", "0"},  {&cmd_run, "--prefill-chunk", "8193"},
        {&cmd_run, "--drafts", "4"},         {&cmd_run, "--temperature", "101"},
        {&cmd_run, "--top-p", "1.01"},       {&cmd_chat, "--max-ctx", "2147483648"},
        {&cmd_logits, "--greedy", "-1"},     {&cmd_perplexity, "--window", "1"},
        {&cmd_perplexity, "--stride", "0"},  {&cmd_check, "--tolerance", "-1"},
        {&cmd_bench, "--sequences", "17"},   {&cmd_bench, "--repetitions", "0"},
        {&cmd_serve, "--max-ctx", "0"},      {&cmd_serve, "--sequences", "17"},
        {&cmd_serve, "--queue", "100001"},   {&cmd_serve, "--connections", "0"},
        {&cmd_serve, "--request-size", "1"}, {&cmd_serve, "--drain-time", "-1"},
        {&cmd_stats, "--limit", "0"},        {&cmd_pack, "--threads", "0"},
        {&cmd_verify, "--threads", "0"},     {&cmd_synth, "--layers", "0"},
    };
    int n = 0;
    (void)state;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        n += refuse_numbers(commands[i]);
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
        expect_refused(edges[i].command, edges[i].flag, edges[i].value);
    printf("note: %d number flags\n", n);
    assert_true(n > 80);
}

/* A result that could not be written is a failure, also when nothing else went wrong. */
static void test_full_output(void **state)
{
    (void)state;
    struct aid_output o;
    char line[4096];
    snprintf(line, sizeof line, "%s version >/dev/full", aid_program());
    aid_run((const char *[]){"sh", "-c", line, NULL}, NULL, &o);
    assert_int_equal(o.status, 1);
    assert_non_null(strstr(buf_str(&o.err), "writing to standard output failed"));
    aid_output_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),          cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_sizes_and_words), cmocka_unit_test(test_lists_are_bounded),
        cmocka_unit_test(test_nearest),         cmocka_unit_test(test_program),
        cmocka_unit_test(test_full_output),     cmocka_unit_test(test_numbers_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
