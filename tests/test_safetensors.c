/* Safetensors headers: what is right is read whole, what is wrong is named, and no allocation that
 * fails leaks or crashes (the sanitisers watch). */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "checkpoint/safetensors.h"

static int parse(const char *header, uint64_t data_bytes, struct safetensors *s, struct err *e)
{
    size_t n = strlen(header);
    return safetensors_parse(header, n, 8 + n + data_bytes, "f.safetensors", s, e);
}

#define T(dtype, shape, from, to)                                                                  \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

/* Out of order, empty, scalar, at odd offsets, with metadata and padding: all of it is legal. */
static const char good[] =
    "{\"b\":" T("BF16", "[2,3]", 3, 15) ",\"__metadata__\":{\"format\":\"pt\",\"}\\\"\":{}},"
                                        ""
                                        "\"\\u0061\" : " T("U8", "[3]", 0, 3) ",\"none\":" T(
                                            "F32", "[4,0,2]", 3,
                                            3) ","
                                               "\"one\":" T("I64", "[]", 15, 23) ",\"x\":" T(
                                                   "F8_E4M3", "[1]", 23, 24) "}   ";

static void test_good(void **state)
{
    (void)state;
    static const char *const order[] = {"a", "none", "b", "one", "x"};
    static const uint64_t bytes[] = {3, 0, 12, 8, 1};
    struct safetensors s;
    struct err e = {0};
    assert_ok(parse(good, 24, &s, &e), e);
    assert_int_equal(s.n_tensors, 5);
    uint64_t at = 8 + strlen(good);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(s.tensors[i].name, order[i]);
        assert_int_equal(s.tensors[i].offset, at);
        assert_int_equal(s.tensors[i].nbytes, bytes[i]);
        at += bytes[i];
    }
    assert_int_equal(s.tensors[2].n_dims, 2);
    assert_int_equal(s.tensors[2].shape[1], 3);
    assert_int_equal(s.tensors[2].dtype, DTYPE_BF16);
    assert_int_equal(s.tensors[3].n_dims, 0);
    assert_string_equal(s.metadata, "{\"format\":\"pt\",\"}\\\"\":{}}");
    safetensors_free(&s);
    assert_ok(parse("{}", 0, &s, &e), e);
    assert_int_equal(s.n_tensors, 0);
    assert_null(s.metadata);
    safetensors_free(&s);
}

static const struct {
    const char *header;
    uint64_t data_bytes;
    int code;
    const char *says;
} bad[] = {
    {"", 0, E_FORMAT, "byte 0 of the header: want an object, found the end"},
    {"{", 0, E_FORMAT, "want a string, found the end"},
    {"{\"a\":", 0, E_FORMAT, "byte 5 of the header: want an object, found the end"},
    {"[]", 0, E_FORMAT, "want an object, found '['"},
    {"{} x", 0, E_FORMAT, "byte 3 of the header: want the end, found 'x'"},
    {"{}", 1, E_FORMAT, "1 bytes behind its last tensor"},
    {"{\"a\":" T("U8", "[1]", 0, 1) ",\"a\":" T("U8", "[1]", 1, 2) "}", 2, E_FORMAT,
     "describes a twice"},
    {"{\"a\":" T("U8", "[1]", 0, 1) ",\"\\u0061\":" T("U8", "[1]", 1, 2) "}", 2, E_FORMAT,
     "describes a twice"},
    {"{\"a\":" T("U8", "[1]", 0, 1) ",}", 1, E_FORMAT, "want a string, found '}'"},
    {"{\"a\":" T("U8", "[1]", 0, 1) " \"b\"}", 1, E_FORMAT, "want ',' or '}', found '\"'"},
    {"{\"a\" 7}", 0, E_FORMAT, "want ':', found '7'"},
    {"{\"a\":7}", 0, E_FORMAT, "want an object, found '7'"},
    {"{\"a\":{}}", 0, E_FORMAT, "a: has no dtype"},
    {"{\"a\":{\"dtype\":\"U8\"}}", 0, E_FORMAT, "a: has no shape"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", 0, E_FORMAT, "a: has no data_offsets"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, E_FORMAT, "a: has two fields dtype"},
    {"{\"a\":{\"dtype\":\"U8\",\"order\":\"F\"}}", 0, E_UNSUPPORTED, "a field \"order\""},
    {"{\"a\":{\"dtype\":8,\"shape\":[],\"data_offsets\":[0,1]}}", 1, E_FORMAT, "want a string"},
    {"{\"a\":" T("F4", "[2]", 0, 1) "}", 1, E_UNSUPPORTED, "a: has dtype \"F4\""},
    {"{\"a\":" T("U8", "[-1]", 0, 1) "}", 1, E_FORMAT, "not negative and fits 64 bits, found '-'"},
    {"{\"a\":" T("U8", "[1.0]", 0, 1) "}", 1, E_FORMAT, "a whole number"},
    {"{\"a\":" T("U8", "[1e0]", 0, 1) "}", 1, E_FORMAT, "a whole number"},
    {"{\"a\":" T("U8", "[01]", 0, 1) "}", 1, E_FORMAT, "a whole number"},
    {"{\"a\":" T("U8", "[\"1\"]", 0, 1) "}", 1, E_FORMAT, "a whole number"},
    {"{\"a\":" T("U8", "[1 1]", 0, 1) "}", 1, E_FORMAT, "want ',' or ']', found '1'"},
    {"{\"a\":" T("U8", "7", 0, 1) "}", 1, E_FORMAT, "want an array, found '7'"},
    {"{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1, E_FORMAT, "want at most 8 numbers"},
    {"{\"a\":" T("F64", "[4294967296,536870912]", 0, 1) "}", 1, E_FORMAT, "than 64 bits can count"},
    {"{\"a\":" T("U8", "[4294967296,4294967296]", 0, 0) "}", 0, E_FORMAT, "than 64 bits can count"},
    {"{\"a\":" T("U8", "[18446744073709551616]", 0, 1) "}", 1, E_FORMAT, "fits 64 bits"},
    {"{\"a\":" T("U8", "[18446744073709551615]", 0, 1) "}", 1, E_FORMAT,
     "take 18446744073709551615 bytes, data_offsets span 1"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, E_FORMAT,
     "want two offsets"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", 1, E_FORMAT, "at most 2"},
    {"{\"a\":" T("U8", "[1]", 1, 0) "}", 1, E_FORMAT, "the first not behind the second"},
    {"{\"a\":" T("BF16", "[4]", 0, 8) "}", 7, E_FORMAT, "cut short"},
    {"{\"a\":" T("BF16", "[4]", 0, 18446744073709551615) "}", 8, E_FORMAT, "cut short"},
    {"{\"a\":" T("BF16", "[4]", 0, 7) "}", 7, E_FORMAT, "take 8 bytes, data_offsets span 7"},
    {"{\"a\":" T("U8", "[4]", 0, 4) ",\"b\":" T("U8", "[4]", 3, 7) "}", 7, E_FORMAT,
     "inside another"},
    {"{\"a\":" T("U8", "[4]", 0, 4) ",\"b\":" T("U8", "[4]", 0, 4) "}", 4, E_FORMAT,
     "inside another"},
    {"{\"a\":" T("U8", "[4]", 0, 4) ",\"b\":" T("U8", "[2]", 5, 7) "}", 7, E_FORMAT,
     "a hole after"},
    {"{\"a\":" T("U8", "[4]", 1, 5) "}", 5, E_FORMAT, "where the header ends"},
    {"{\"a\":" T("U8", "[4]", 0, 4) ",\"z\":" T("U8", "[0]", 2, 2) "}", 4, E_FORMAT,
     "inside another"},
    {"{\"a\\u001b[2J\":" T("U8", "[1]", 0, 1) "}", 1, E_FORMAT, "control characters"},
    {"{\"a\n\":" T("U8", "[1]", 0, 1) "}", 1, E_FORMAT, "control characters"},
    {"{\"a\\u0000b\":" T("U8", "[1]", 0, 1) "}", 1, E_FORMAT, "not valid JSON"},
    {"{\"a\\q\":" T("U8", "[1]", 0, 1) "}", 1, E_FORMAT, "not valid JSON"},
    {"{\"\xff\":" T("U8", "[1]", 0, 1) "}", 1, E_FORMAT, "not UTF-8"},
    {"{\"a", 1, E_FORMAT, "want the end of a string"},
    {"{\"a\\", 1, E_FORMAT, "want the end of a string"},
    {"{\"__metadata__\":7}", 0, E_FORMAT, "want an object of metadata, found '7'"},
    {"{\"__metadata__\":{\"a\":}}", 0, E_FORMAT, "__metadata__: line 1, column 6: not valid JSON"},
    {"{\"__metadata__\":{\"}\":{}", 0, E_FORMAT, "want '}', found the end"},
    {"{\"__metadata__\":{\"a", 0, E_FORMAT, "want the end of a string"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, E_FORMAT, "has two __metadata__"},
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct safetensors s;
        struct err e = {0};
        int rc = parse(bad[i].header, bad[i].data_bytes, &s, &e);
        if (rc != -bad[i].code || !strstr(e.msg, bad[i].says) || !strstr(e.msg, "f.safetensors"))
            fail_msg("%s: gave %d, \"%s\"; want %d, \"%s\"", bad[i].header, rc, e.msg, -bad[i].code,
                     bad[i].says);
        assert_null(s.tensors);
        assert_null(s.metadata);
    }
}

/* Every prefix of a good header, and every byte of it replaced, is refused or read; never worse. */
static void test_damage(void **state)
{
    (void)state;
    static const char with[] = " \"{}[],:09x\\\xff"; /* and the NUL behind them */
    size_t n = strlen(good);
    for (size_t i = 0; i < n; i++) {
        struct safetensors s;
        struct err e = {0};
        char copy[sizeof good];
        memcpy(copy, good, sizeof good);
        if (i < n - 3)
            assert_int_equal(safetensors_parse(good, i, 8 + i + 24, "f", &s, &e), -E_FORMAT);
        for (size_t k = 0; k < sizeof with; k++) {
            struct err refused = {0};
            copy[i] = with[k];
            if (safetensors_parse(copy, n, 8 + n + 24, "f", &s, &refused) == 0)
                safetensors_free(&s);
            else
                assert_string_not_equal(refused.msg, "");
        }
    }
}

/* A file of these bytes; `length` is what it says of its header. */
static int read_file(const char *dir, uint64_t length, const char *rest, size_t n, struct err *e)
{
    struct buf b = BUF_INIT;
    struct safetensors s;
    struct file f;
    char *path = file_join(dir, "f.safetensors");
    for (int i = 0; i < 8; i++)
        buf_putc(&b, (char)(length >> 8 * i));
    buf_add(&b, rest, n);
    aid_write(path, b.data, b.len);
    assert_ok(file_open(path, &f, e), *e);
    int rc = safetensors_read(&f, &s, e);
    if (!rc)
        safetensors_free(&s);
    file_drop(&f);
    buf_free(&b);
    mem_free(path);
    return rc;
}

static void test_files(void **state)
{
    (void)state;
    char *dir = aid_tmpdir(), whole[sizeof good + 24] = {0};
    static const struct {
        uint64_t length;
        size_t bytes;
        const char *says; /* NULL: opens */
    } cases[] = {
        {sizeof good - 1, sizeof good - 1 + 24, NULL},
        {sizeof good - 1, sizeof good - 1 + 23, "cut short"},
        {sizeof good - 1, sizeof good - 2, "too short for its header"},
        {sizeof good + 200, sizeof good - 1, "too short for its header"},
        {0, 0, "want an object, found the end"},
        {100u << 20, 0, "too short for its header of 104857600"},
        {(100u << 20) + 1, 0, "want at most 104857600: not a safetensors file"},
        {UINT64_MAX, 0, "header length of 18446744073709551615"},
    };
    memcpy(whole, good, sizeof good - 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        int rc = read_file(dir, cases[i].length, whole, cases[i].bytes, &e);
        assert_int_equal(rc, cases[i].says ? -E_FORMAT : 0);
        if (cases[i].says && !strstr(e.msg, cases[i].says))
            fail_msg("case %zu says: %s", i, e.msg);
    }
    struct err e = {0};
    struct file f;
    struct safetensors s;
    char *path = file_join(dir, "short");
    aid_write(path, "1234567", 7);
    assert_ok(file_open(path, &f, &e), e);
    assert_int_equal(safetensors_read(&f, &s, &e), -E_FORMAT);
    assert_non_null(strstr(e.msg, "is 7 bytes, want at least 8"));
    file_drop(&f);
    mem_free(path);
    aid_rmdir(dir);
}

static void test_no_memory(void **state)
{
    (void)state;
    int rc = -1;
    long nth = 0;
    while (rc) {
        struct safetensors s;
        struct err e = {0};
        mem_fail_at(++nth);
        rc = parse(good, 24, &s, &e);
        mem_fail_at(0);
        if (rc)
            assert_int_equal(rc, -E_NOMEM);
        else
            safetensors_free(&s);
        assert_true(nth < 1000);
    }
    printf("note: %ld allocations of a header of 5 tensors failed in turn\n", nth - 1);
}

/* Time grows as the header does: ten times the tensors, about ten times the time. */
static void test_large(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    struct err e = {0};
    struct safetensors s;
    enum { N = 40000 };
    buf_putc(&b, '{');
    for (int i = 0; i < N; i++)
        buf_printf(&b,
                   "%s\"language_model.model.layers.0.mlp.experts.%d.gate_proj.weight_scale_inv\":"
                   "{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[%d,%d]}",
                   i ? "," : "", i, (N - 1 - i) * 8, (N - i) * 8);
    buf_putc(&b, '}');
    uint64_t t = clock_ns();
    assert_ok(safetensors_parse(b.data, b.len, 8 + b.len + N * 8, "f", &s, &e), e);
    t = clock_ns() - t;
    assert_int_equal(s.n_tensors, N);
    for (size_t i = 1; i < N; i++)
        assert_true(s.tensors[i].offset == s.tensors[i - 1].offset + 8);
    safetensors_free(&s);
    printf("note: %d tensors, %.1f MB of header, in %.1f ms\n", N, (double)b.len / 1e6,
           (double)t / 1e6);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),      cmocka_unit_test(test_bad),
        cmocka_unit_test(test_damage),    cmocka_unit_test(test_files),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_large),
    };
    json_set_alloc_funcs(mem_alloc, mem_free); /* so that the parser's allocations can fail too */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
