/* Flags from a configuration file: every type, and what is refused with its line. What is printed
 * can be read again and says the same. */
#include "tests/aid_test.h"

#include <string.h>

#include "cli/flags_file.h"

static const struct command command = {"serve", "STORE", "", NULL};

struct values {
    bool on;
    const char *word;
    int64_t n;
    double real;
    uint64_t bytes;
    int choice;
    struct flag_list list;
};

static void init(struct values *v, struct flag rows[8], struct flags *f)
{
    const struct flag table[8] = {
        {"is-on", FLAG_BOOL, &v->on, NULL, "a switch", 0, 0},
        {"word", FLAG_STRING, &v->word, "W", "a word", 0, 0},
        {"n-things", FLAG_INT, &v->n, "N", "a number", 0, 1e12},
        {"real", FLAG_REAL, &v->real, "R", "a fraction", 0, 10},
        {"bytes", FLAG_SIZE, &v->bytes, "SIZE", "a size", 1, 1e18},
        {"choice", FLAG_WORD, &v->choice, "one|two", "a choice", 0, 0},
        {"list", FLAG_LIST, &v->list, "X", "words", 0, 0},
    };
    *v = (struct values){.n = -1, .real = -1};
    memcpy(rows, table, sizeof table);
    *f = (struct flags){.command = &command, .flag = rows, .max_args = 1};
}

static void test_every_type_comes_back_as_it_was(void **state)
{
    static const char text[] = "# all of it\n"
                               "is_on = true;\nword = \"a \\\"b\\\" c\\\\d\";\n"
                               "n_things = 70000000000L;\nreal = 2.5;\nbytes = \"1.5M\";\n"
                               "choice = \"two\";\nlist = [\"x\", \"y\"];\n";
    static const char *const none[] = {NULL};
    struct values v, w;
    struct flag rows[8], more[8];
    struct flags f, g;
    struct flags_file file = {0}, again = {0};
    struct buf out = BUF_INIT, twice = BUF_INIT;
    struct err e = {0};
    (void)state;
    init(&v, rows, &f);
    assert_ok(flags_file_parse(&f, text, "conf", &file, &e), e);
    assert_true(v.on);
    assert_string_equal(v.word, "a \"b\" c\\d");
    assert_true(v.n == 70000000000 && v.real == 2.5 && v.bytes == 1500000 && v.choice == 1);
    assert_int_equal(v.list.n, 2);
    assert_string_equal(v.list.at[1], "y");
    assert_int_equal(file.lines[0], 2);
    flags_file_print(&f, none, &out);
    init(&w, more, &g);
    assert_ok(flags_file_parse(&g, buf_str(&out), "again", &again, &e), e);
    flags_file_print(&g, none, &twice);
    assert_string_equal(buf_str(&out), buf_str(&twice));
    flags_file_free(&file);
    flags_file_free(&again);
    buf_free(&out);
    buf_free(&twice);
}

static void test_refusals_name_line_and_setting(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"\nword = ;", "conf: line 2: syntax error: want NAME = VALUE;"},
        {"\nword =\nreal = 1;", "conf: lines 2 to 3: syntax error: want NAME = VALUE;"},
        {"real = 1;\nword = \"a;\n\n", "conf: lines 2 to 4: syntax error: want NAME = VALUE;"},
        {"real = 1;\nreal = 2;", "conf: line 2: duplicate setting name"},
        {"# 99999999999\nn_things = 4294967297;", "conf: line 2: the number 4294967297 has more "
                                                  "than 32 bits: want up to 64, and an L behind "
                                                  "it"},
        {"n_things = 99999999999999999999L;",
         "conf: line 1: the number 99999999999999999999 has more than 32 bits: want up to 64, and "
         "an L behind it"},
        {"is_on = true;\nwrod = \"x\";", "conf: line 2: there is no setting 'wrod', did you mean "
                                         "'word'?"},
        {"is_on = 1;", "conf: line 1: --is-on wants true or false"},
        {"n_things = \"many\";", "conf: line 1: serve: --n-things wants a whole number from 0 to "
                                 "1000000000000, found 'many'"},
        {"\n\nreal = 11.5;", "conf: line 3: serve: --real wants a number from 0 to 10, found "
                             "'11.5'"},
        {"choice = \"three\";", "conf: line 1: serve: --choice wants one of one|two, found "
                                "'three'"},
        {"list = { a = 1; };", "conf: line 1: --list wants a string or an array of strings"},
        {"word = true;", "conf: line 1: --word wants a number or a string"},
        {"is_on = true;\n@include \"/etc/passwd\"", "conf: line 2: @include is not supported"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct values v;
        struct flag rows[8];
        struct flags f;
        struct flags_file file = {0};
        struct err e = {0};
        init(&v, rows, &f);
        assert_true(flags_file_parse(&f, cases[i].text, "conf", &file, &e) < 0);
        assert_string_equal(e.msg, cases[i].message);
        flags_file_free(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_comes_back_as_it_was),
        cmocka_unit_test(test_refusals_name_line_and_setting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
