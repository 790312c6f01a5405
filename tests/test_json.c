/* json: what is refused, and messages that name place, wish and finding. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

static json_t *parse(const char *text)
{
    struct err e = {0};
    json_t *v;
    assert_ok(json_parse(text, strlen(text), "t.json", &v, &e), e);
    return v;
}

static void test_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *say;
    } cases[] = {{"", "not valid JSON"},
                 {"{\"a\":1,\"a\":2}", "duplicate"},
                 {"{} x", "end of file expected"},
                 {"{\"a\":}", "line 1, column 6"},
                 {"[1,\n2,,]", "line 2"},
                 {"\"\xff\"", "not valid JSON"},
                 {"{\"a\":1e999}", "overflow"},
                 {"[99999999999999999999]", "not valid JSON: too big"},
                 {"{\"a\\\"\" : \"b\", \"seed\" :99999999999999999999}",
                  "column 42: \"seed\": not valid JSON: too big"},
                 {"\"overflow\\\"\\", "column 12: not valid JSON: "}, /* ends within an escape */
                 {"\"a\\u0000b\"", "not valid JSON: \\u0000 is not allowed in a string"},
                 {"NaN", "not valid JSON"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        json_t *v = (json_t *)&e;
        const size_t n = strlen(cases[i].text);
        char *text = mem_array(n, 1); /* without its NUL: what is read behind the end is seen */
        assert_true(text || !n);
        memcpy(text, cases[i].text, n);
        assert_int_equal(json_parse(text, n, "t.json", &v, &e), -E_FORMAT);
        mem_free(text);
        assert_null(v);
        if (!strstr(e.msg, cases[i].say) || strncmp(e.msg, "t.json: ", 8) != 0)
            fail_msg("for %s: %s", cases[i].text, e.msg);
    }
}

static void test_refuses_deep_nesting(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf b = BUF_INIT;
    json_t *v;
    for (int i = 0; i < 1000000; i++)
        buf_putc(&b, '[');
    assert_int_equal(json_parse(buf_str(&b), b.len, "deep.json", &v, &e), -E_FORMAT);
    buf_free(&b);
}

static void test_integers(void **state)
{
    (void)state;
    struct err e = {0};
    json_t *o = parse("{\"i\":7,\"w\":1e7,\"f\":1.5,\"s\":\"7\",\"big\":1e300,\"n\":null}");
    int64_t n = -1;
    assert_ok(json_field_int(o, "c", "i", true, 0, 9, &n, &e), e);
    assert_int_equal(n, 7);
    assert_ok(json_field_int(o, "c", "w", true, 0, INT64_MAX, &n, &e), e);
    assert_int_equal(n, 10000000);
    assert_ok(json_field_int(o, "c", "absent", false, 0, 9, &n, &e), e);
    assert_ok(json_field_int(o, "c", "n", false, 0, 9, &n, &e), e);
    assert_int_equal(n, 10000000); /* left as it was */
    static const struct {
        const char *key, *say;
    } bad[] = {{"i", "c.i: want an integer from 8 to 9, found the integer 7"},
               {"f", "c.f: want an integer from 8 to 9, found the number 1.5"},
               {"s", "c.s: want an integer from 8 to 9, found the string \"7\""},
               {"big", "c.big: want an integer from 8 to 9, found the number 1e+300"},
               {"n", "c.n: is required, found null"},
               {"absent", "c.absent: is required, found nothing"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err_clear(&e);
        assert_int_equal(json_field_int(o, "c", bad[i].key, true, 8, 9, &n, &e), -E_FORMAT);
        assert_string_equal(e.msg, bad[i].say);
        assert_int_equal(n, 10000000);
    }
    json_decref(o);
}

static void test_other_types(void **state)
{
    (void)state;
    struct err e = {0};
    json_t *o = parse("{\"r\":0.5,\"i\":2,\"b\":true,\"s\":\"x\",\"o\":{},\"a\":[]}"), *v = NULL;
    double r = 0;
    bool b = false;
    const char *s = "";
    assert_ok(json_field_real(o, "c", "r", true, 0, 1, &r, &e), e);
    assert_true(r == 0.5);
    assert_ok(json_field_real(o, "c", "i", true, 0, 3, &r, &e), e);
    assert_true(r == 2);
    assert_ok(json_field_bool(o, "c", "b", true, &b, &e), e);
    assert_true(b);
    assert_ok(json_field_str(o, "c", "s", true, &s, &e), e);
    assert_string_equal(s, "x");
    assert_ok(json_field_obj(o, "c", "o", true, &v, &e), e);
    assert_true(json_is_object(v));
    assert_ok(json_field_arr(o, "c", "a", true, &v, &e), e);
    assert_true(json_is_array(v));
    assert_int_equal(json_field_real(o, "c", "i", true, 0, 1, &r, &e), -E_FORMAT);
    assert_string_equal(e.msg, "c.i: want a number from 0 to 1, found the integer 2");
    err_clear(&e);
    assert_int_equal(json_field_bool(o, "c", "i", true, &b, &e), -E_FORMAT);
    err_clear(&e);
    assert_int_equal(json_field_str(o, "c", "b", true, &s, &e), -E_FORMAT);
    assert_string_equal(e.msg, "c.b: want a string, found true");
    err_clear(&e);
    assert_int_equal(json_field_obj(o, "c", "a", true, &v, &e), -E_FORMAT);
    assert_string_equal(e.msg, "c.a: want an object, found an empty array");
    err_clear(&e);
    assert_int_equal(json_field_arr(o, "c", "o", true, &v, &e), -E_FORMAT);
    err_clear(&e);
    assert_int_equal(json_field_arr(json_object_get(o, "s"), "c", "o", true, &v, &e), -E_FORMAT);
    assert_string_equal(e.msg, "c: want an object, found the string \"x\"");
    json_decref(o);
}

/* What was found is quoted, but a long one is cut, and never inside a character. */
static void test_long_strings_are_cut_whole(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 2; shift++) { /* characters begin at even, then at odd places */
        struct buf b = BUF_INIT;
        char room[96];
        buf_puts(&b, shift ? "\"x" : "\"");
        for (int i = 0; i < 40; i++)
            buf_puts(&b, "\xC3\xA9");
        buf_putc(&b, '"');
        json_t *v = parse(buf_str(&b));
        assert_int_equal(strlen(json_describe(v, room, sizeof room)),
                         strlen("the string \"...\"") + 60 - shift);
        json_decref(v);
        buf_free(&b);
    }
}

static void test_out_of_memory(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\": [1, 2.5, \"three\", {\"four\": null}], \"b\": {\"c\": true}}";
    struct err e = {0};
    json_t *v = NULL;
    int nth = 1, rc = -1;
    for (; rc; nth++) {
        err_clear(&e);
        mem_fail_at(nth);
        rc = json_parse(text, sizeof text - 1, "t.json", &v, &e);
        mem_fail_at(0);
        if (rc)
            assert_int_equal(rc, -E_NOMEM);
    }
    assert_true(nth > 10);
    json_decref(v);
}

/* The lexer passed over bytes that it had no memory for, and read on behind a string without a
 * quote: a server under a limit of memory crashed. Strings of any length, each allocation fails. */
static void test_no_memory_for_a_long_string(void **state)
{
    (void)state;
    for (int len = 0; len < 600; len += len < 70 ? 1 : 53) {
        struct buf b = BUF_INIT;
        int rc = -1;
        buf_puts(&b, "{\"");
        for (int i = 0; i < len; i++)
            buf_puts(&b, i % 7 ? "x" : "\xC3\xA9");
        buf_puts(&b, "\": [\"\\\"");
        for (int i = 0; i < len; i++)
            buf_putc(&b, 'y');
        buf_puts(&b, "\\\\\", 1234567890123456, 0.25]}");
        for (int nth = 1; rc; nth++) {
            struct err e = {0};
            json_t *v = NULL;
            mem_fail_at(nth);
            rc = json_parse(buf_str(&b), b.len, "t.json", &v, &e);
            mem_fail_at(0);
            if (rc && (rc != -E_NOMEM || v))
                fail_msg("%d bytes, allocation %d: %d, %s", len, nth, rc, e.msg);
            json_decref(v);
        }
        assert_false(json_starved());
        buf_free(&b);
    }
}

/* `{},{},...` takes a hundred times its size; what its thread may take is shared by its parses. */
static void test_memory_is_bounded(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf many = BUF_INIT, text = BUF_INIT;
    static const char small[] = "{\"a\": [1, 2.5, \"text\", {\"b\": null}]}";
    json_t *v;
    buf_puts(&many, "[{}");
    for (int i = 1; i < 20000; i++)
        buf_puts(&many, ",{}");
    buf_putc(&many, ']');
    json_allow(1 << 20);
    assert_int_equal(json_parse(buf_str(&many), many.len, "t.json", &v, &e), -E_LIMIT);
    assert_null(v);
    assert_non_null(strstr(e.msg, "t.json: its JSON takes more memory than it may"));
    assert_false(json_starved());
    err_clear(&e);
    json_allow(8 << 20);
    assert_ok(json_parse(buf_str(&many), many.len, "t.json", &v, &e), e);
    json_decref(v);
    assert_int_equal(json_parse(buf_str(&many), many.len, "t.json", &v, &e), -E_LIMIT);
    err_clear(&e);
    json_allow(8 << 20); /* text, by far the most of a request, takes a few times its size */
    buf_putc(&text, '"');
    for (int i = 0; i < 1 << 20; i++)
        buf_putc(&text, 'a');
    buf_putc(&text, '"');
    assert_ok(json_parse(buf_str(&text), text.len, "t.json", &v, &e), e);
    json_decref(v);
    for (size_t bytes = 0; bytes < 4000; bytes += 7) { /* wherever it ends, there is no value */
        json_allow(bytes);
        err_clear(&e);
        const int rc = json_parse(small, strlen(small), "t.json", &v, &e);
        assert_true(rc == 0 ? v && bytes > 500 : rc == -E_LIMIT && !v && bytes < 3000);
        json_decref(v);
    }
    json_allow(SIZE_MAX);
    assert_ok(json_parse(buf_str(&many), many.len, "t.json", &v, &e), e);
    json_decref(v);
    buf_free(&many);
    buf_free(&text);
}

/* Values made by hand lack what there was no memory for, without a word. */
static void test_values_that_lack_something(void **state)
{
    (void)state;
    json_t *v = parse("{}");
    assert_false(json_starved());
    mem_fail_at(1);
    json_object_set_new(v, "a", json_integer(1));
    mem_fail_at(0);
    assert_true(json_starved());
    assert_false(json_starved());
    json_decref(v);
}

/* jansson prints 0.1 with 17 digits; strings are left as they are, whatever is in them. */
static void test_reals_are_short(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"0.1", "0.1"},
        {"[0.1,-0.3,1.0,5.0e-324]", "[0.1,-0.3,1.0,4.94065645841247e-324]"},
        {"[3,-7,9007199254740993,123456789012345678]",
         "[3,-7,9007199254740993,123456789012345678]"},
        {"[0.30000000000000004,1e300,1e-7,123456789.123]",
         "[0.30000000000000004,1e+300,1e-07,123456789.123]"},
        {"{\"0.10000000000000001\":\"a\\\"0.10000000000000001\\\\\",\"b\":[0.7,{\"c\":2.5}]}",
         "{\"0.10000000000000001\":\"a\\\"0.10000000000000001\\\\\",\"b\":[0.7,{\"c\":2.5}]}"},
        {"\"0.10000000000000001\"", "\"0.10000000000000001\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        struct buf out = BUF_INIT;
        json_t *v = parse(cases[i].text);
        buf_puts(&out, "0.10000000000000001 "); /* what was there stays */
        assert_ok(json_print(v, JSON_COMPACT | JSON_ENCODE_ANY, &out, &e), e);
        assert_string_equal(buf_str(&out) + 20, cases[i].want);
        assert_int_equal(out.len, strlen(buf_str(&out)));
        assert_memory_equal(out.data, "0.10000000000000001 ", 20);
        json_decref(v);
        buf_free(&out);
    }
}

/* Any number reads back as it was. */
static void test_reals_read_back(void **state)
{
    (void)state;
    uint64_t bits = 0x9E3779B97F4A7C15u;
    for (int i = 0; i < 20000; i++) {
        double x, y;
        struct err e = {0};
        struct buf out = BUF_INIT;
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        memcpy(&x, &bits, sizeof x);
        x = i % 2 ? (double)(float)x : x;
        json_t *v = json_real(x), *back; /* NULL: not finite */
        if (!v)
            continue;
        assert_ok(json_print(v, JSON_ENCODE_ANY, &out, &e), e);
        back = parse(buf_str(&out));
        assert_true(json_is_real(back));
        y = json_real_value(back);
        assert_memory_equal(&x, &y, sizeof x);
        json_decref(v);
        json_decref(back);
        buf_free(&out);
    }
}

static void test_files(void **state)
{
    (void)state;
    struct err e = {0};
    char *dir = aid_tmpdir(), *path = file_join(dir, "c.json");
    json_t *v;
    assert_int_equal(json_read_file(path, 100, &v, &e), -E_NOTFOUND);
    err_clear(&e);
    aid_write(path, "[1]", 3);
    assert_ok(json_read_file(path, 3, &v, &e), e);
    json_decref(v);
    assert_int_equal(json_read_file(path, 2, &v, &e), -E_LIMIT);
    assert_null(v);
    err_clear(&e);
    aid_write(path, "[1", 2);
    assert_int_equal(json_read_file(path, 100, &v, &e), -E_FORMAT);
    assert_non_null(strstr(e.msg, "c.json: line 1"));
    mem_free(path);
    aid_rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_refuses_deep_nesting),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_other_types),
        cmocka_unit_test(test_long_strings_are_cut_whole),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_no_memory_for_a_long_string),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_values_that_lack_something),
        cmocka_unit_test(test_reals_are_short),
        cmocka_unit_test(test_reals_read_back),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
