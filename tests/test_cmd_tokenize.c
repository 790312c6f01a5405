/* cherenkov tokenize, as a user runs it. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"

struct example {
    const char *argv[8];
    const char *in;
    int status;
    const char *out;  /* all of it */
    const char *says; /* part of standard error */
};

static void check(const struct example *x)
{
    struct aid_output o;
    aid_run(x->argv, x->in, &o);
    if (o.status != x->status)
        fail_msg("%s: exit %d, stderr: %s", x->argv[2], o.status, buf_str(&o.err));
    if (x->out)
        assert_string_equal(buf_str(&o.out), x->out);
    if (x->says && !strstr(buf_str(&o.err), x->says))
        fail_msg("stderr lacks '%s': %s", x->says, buf_str(&o.err));
    aid_output_free(&o);
}

#define RUN(...) .argv = {"cherenkov", "tokenize", __VA_ARGS__, NULL}

static void test_examples(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {RUN(DEMO, "Once upon"), .out = "3745\tOnce\n654\t upon\n", .says = "2 tokens, 9 bytes"},
        {RUN(DEMO "/tokenizer.json", "a\té"), .out = "64\ta\n197\t\\t\n127\t\\xc3\n102\t\\xa9\n"},
        {RUN(DEMO, "--ids", "a<|im_end|>"), .out = "64,4072\n"},
        {RUN(DEMO, "--ids", "--plain", "<think>"), .out = "27,417,549,29\n"},
        {RUN(DEMO, "--json", "Hi\né"),
         .out = "{\"ids\":[39,72,198,127,102],\"pieces\":[\"H\",\"i\",\"\\n\",\"\uFFFD\","
                "\"\uFFFD\"]}\n"},
        {RUN(DEMO, "-", "--ids"), .in = "Once upon", .out = "3745,654\n"},
        {RUN(DEMO, "", "--ids"), .out = "\n", .says = "0 tokens, 0 bytes"},
        {RUN(DEMO, "--decode", "3745,654, 127 102,4072"), .out = "Once uponé<|im_end|>\n"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        check(&examples[i]);
}

static void test_mistakes(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {RUN(DEMO), .status = 2, .out = "", .says = "give a TEXT"},
        {RUN(DEMO, "x", "--decode", "1"), .status = 2, .says = "give a TEXT"},
        {RUN(DEMO, "--decode", "1", "--ids"), .status = 2, .says = "no other flag"},
        {RUN(DEMO, "--decode", "1,x"), .status = 3, .says = "1,x"},
        {RUN(DEMO, "--decode", "-1"), .status = 3, .says = "-1"},
        {RUN(DEMO, "--decode", "99999999999"), .status = 2, .says = "want a token id"},
        {RUN(DEMO, "--decode", ","), .status = 2, .says = "want a token id"},
        {RUN(DEMO, "--decode", "4096"), .status = 2, .says = "below 4096"},
        {RUN(DEMO, "x", "--id"), .status = 2, .says = "--ids"},
        {RUN(DEMO, "-"), .in = "ab\xFF", .status = 3, .out = "", .says = "byte 2 (0xff)"},
        {RUN("tests", "x"), .status = 3, .says = "tests/tokenizer.json"},
        {RUN(DEMO "/config.json", "x"), .status = 3, .says = "config.json.model: is required"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        check(&examples[i]);
}

/* A model folder whose tokenizer is only in the store that it holds. */
static void test_packed(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf b = BUF_INIT;
    char *dir = aid_tmpdir(), *packed = file_join(dir, "packed");
    char *path = file_join(packed, "tokenizer.json");
    assert_ok(file_make_dir(packed, &e), e);
    assert_ok(file_read_all(DEMO "/tokenizer.json", 1 << 24, &b, &e), e);
    aid_write(path, b.data, b.len);
    check(&(struct example){RUN(dir, "a", "--ids"), .out = "64\n"});
    check(&(struct example){RUN(packed, "a", "--ids"), .out = "64\n"});
    buf_free(&b);
    mem_free(path);
    mem_free(packed);
    aid_rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples),
                                       cmocka_unit_test(test_mistakes),
                                       cmocka_unit_test(test_packed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
