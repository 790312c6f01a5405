/* cherenkov logits and perplexity on the packed demonstration model, against the goldens. */
#include "tests/aid_demo.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

enum { VOCAB = 4096 };

static char *model, *store;
static json_t *goldens;
static struct buf bin; /* goldens.bin */

static int setup(void **state)
{
    struct err e = {0};
    (void)state;
    model = aid_demo_pack();
    store = file_join(model, "packed");
    goldens = aid_demo_goldens();
    assert_ok(file_read_all(GOLDENS "demo/goldens.bin", 1 << 24, &bin, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_free(&bin);
    json_decref(goldens);
    mem_free(store);
    aid_rmdir(model);
    return 0;
}

/* On the engine that the goldens are held against. */
static struct aid_output run(const char *in, const char *const *words)
{
    const char *argv[32] = {"cherenkov", words[0], "--engine", "reference"};
    struct aid_output o;
    for (int i = 1; words[i]; i++)
        argv[3 + i] = words[i];
    aid_run(argv, in, &o);
    return o;
}

#define RUN(in, ...) run(in, (const char *const[]){__VA_ARGS__, NULL})

static json_t *json_of(struct aid_output o)
{
    json_error_t je;
    if (o.status)
        fail_msg("status %d: %s", o.status, buf_str(&o.err));
    json_t *v = json_loads(buf_str(&o.out), 0, &je);
    if (!v)
        fail_msg("not JSON: %s at %d", je.text, je.position);
    aid_output_free(&o);
    return v;
}

static void expect_error(struct aid_output o, int status, const char *err)
{
    if (o.status != status || !strstr(buf_str(&o.err), err))
        fail_msg("status %d, want %d; stderr: %s; want %s", o.status, status, buf_str(&o.err), err);
    aid_output_free(&o);
}

static const json_t *sequence(const char *name)
{
    size_t i;
    json_t *s;
    json_array_foreach(json_object_get(goldens, "sequences"), i, s) {
        if (strcmp(json_string_value(json_object_get(s, "name")), name) == 0)
            return s;
    }
    fail_msg("no golden sequence %s", name);
    return NULL;
}

static const float *rows_of(const json_t *ref)
{
    const size_t offset = (size_t)json_integer_value(json_object_get(ref, "offset"));
    return (const float *)(const void *)bin.data + offset;
}

/* The largest difference relative to the row's largest magnitude. */
static double row_difference(const json_t *row, const float *want)
{
    double most = 0, worst = 0;
    assert_int_equal(json_array_size(row), VOCAB);
    for (size_t i = 0; i < VOCAB; i++) {
        most = fmax(most, fabs(want[i]));
        worst = fmax(worst, fabs(json_number_value(json_array_get(row, i)) - want[i]));
    }
    return worst / most;
}

/* Rows at the golden's positions of an array whose first entry is position `first`. */
static double compare_rows(const json_t *rows, const json_t *positions, const float *want,
                           size_t first)
{
    double worst = 0;
    for (size_t i = 0; i < json_array_size(positions); i++) {
        const size_t pos = (size_t)json_integer_value(json_array_get(positions, i));
        worst = fmax(worst, row_difference(json_array_get(rows, pos - first), want + i * VOCAB));
    }
    return worst;
}

static void test_greedy(void **state)
{
    (void)state;
    size_t i;
    json_t *g;
    json_array_foreach(json_object_get(goldens, "greedy"), i, g) {
        char *ids = aid_id_list(json_object_get(g, "prompt"));
        json_t *v = json_of(
            RUN(NULL, "logits", store, "--ids", ids, "--last", "0", "--greedy", "48", "--json"));
        assert_true(json_equal(json_object_get(v, "greedy"), json_object_get(g, "tokens")));
        assert_int_equal(json_array_size(json_object_get(v, "logits")), 0);
        assert_int_equal(json_array_size(json_object_get(v, "argmax")), 0);
        json_decref(v);
        mem_free(ids);
    }
    assert_int_equal(i, 6);
}

static void test_rows_and_drafts(void **state)
{
    (void)state;
    static const char *const names[] = {"len1", "short", "chat", "two-documents"};
    double worst = 0, worst_draft = 0;
    for (size_t i = 0; i < 4; i++) {
        const json_t *s = sequence(names[i]), *mtp = json_object_get(s, "mtp");
        const json_t *ref = json_object_get(s, "logits");
        char *ids = aid_id_list(json_object_get(s, "tokens"));
        json_t *v = json_of(RUN(NULL, "logits", store, "--ids", ids, "--drafts", "--json"));
        const size_t n = json_array_size(json_object_get(s, "tokens"));
        assert_true(json_equal(json_object_get(v, "argmax"), json_object_get(s, "argmax")));
        assert_int_equal(json_array_size(json_object_get(v, "logits")), n);
        assert_int_equal(json_array_size(json_object_get(v, "drafts")), n - 1);
        assert_int_equal(json_array_size(json_object_get(v, "greedy")), 0);
        worst = fmax(worst, compare_rows(json_object_get(v, "logits"),
                                         json_object_get(ref, "positions"), rows_of(ref), 0));
        if (n > 1) {
            assert_true(
                json_equal(json_object_get(v, "draft_argmax"), json_object_get(mtp, "argmax_all")));
            worst_draft =
                fmax(worst_draft,
                     compare_rows(json_object_get(v, "drafts"), json_object_get(mtp, "positions"),
                                  rows_of(json_object_get(mtp, "logits1")), 0));
        }
        json_decref(v);
        mem_free(ids);
    }
    printf("worst: logits %.3g, drafts %.3g of the row's largest, bound 1e-4\n", worst,
           worst_draft);
    assert_true(worst < 1e-4 && worst_draft < 1e-4);
}

/* The last eight of a sequence longer than the attention's budget, from a file of ids. */
static void test_last(void **state)
{
    (void)state;
    const json_t *s = sequence("long"), *ref = json_object_get(s, "logits");
    char *ids = aid_id_list(json_object_get(s, "tokens")), *path = file_join(model, "ids.json");
    struct buf text = BUF_INIT;
    buf_printf(&text, "[%s]\n", ids);
    aid_write(path, text.data, text.len);
    json_t *v =
        json_of(RUN(NULL, "logits", store, "--ids", path, "--last", "8", "--json", "--drafts"));
    const size_t n = json_array_size(json_object_get(s, "tokens"));
    assert_int_equal(json_array_size(json_object_get(v, "argmax")), 8);
    assert_true(json_equal(json_object_get(v, "positions"), json_object_get(ref, "positions")));
    assert_int_equal(json_array_size(json_object_get(v, "drafts")), 7);
    double worst = compare_rows(json_object_get(v, "logits"), json_object_get(ref, "positions"),
                                rows_of(ref), n - 8);
    printf("worst: %.3g of the row's largest, bound 1e-4\n", worst);
    assert_true(worst < 1e-4);
    json_decref(v);
    mem_free(ids);
    mem_free(path);
    buf_free(&text);
}

/* Raw floats: the rows of --json bit for bit, the draft rows behind them. */
static void test_f32(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf raw = BUF_INIT;
    char *path = file_join(model, "rows.f32");
    struct aid_output o = RUN("3745 654\n258,559", "logits", store, "--ids", "-", "--last", "3",
                              "--drafts", "--greedy", "3", "--f32", path);
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(buf_str(&o.out), "greedy "));
    aid_output_free(&o);
    assert_ok(file_read_all(path, 1 << 24, &raw, &e), e);
    assert_int_equal(raw.len, (3 + 2) * VOCAB * sizeof(float));
    json_t *v = json_of(RUN(NULL, "logits", store, "--ids", "3745, 654, 258, 559", "--last", "3",
                            "--drafts", "--json"));
    for (size_t i = 0; i < 5 * VOCAB; i++) {
        const json_t *rows = json_object_get(v, i < 3 * VOCAB ? "logits" : "drafts");
        const size_t row = i < 3 * VOCAB ? i / VOCAB : i / VOCAB - 3;
        float x;
        memcpy(&x, raw.data + i * sizeof x, sizeof x);
        const json_t *cell = json_array_get(json_array_get(rows, row), i % VOCAB);
        assert_true((float)json_number_value(cell) == x);
    }
    json_decref(v);
    buf_free(&raw);
    mem_free(path);
}

static void test_bad_ids(void **state)
{
    (void)state;
    char *path = file_join(model, "bad.ids");
    static const struct {
        const char *text, *err;
    } files[] = {{"", "ends where a token id should come"},
                 {"1,,2", "byte 2"},
                 {"1 2 x", "byte 4: want a token id"},
                 {"-1", "byte 0"},
                 {"1,", "ends where"},
                 {"[1,2", "not closed"},
                 {"[]", "byte 1"},
                 {"[1] 2", "byte 4"},
                 {"1.5", "byte 1"},
                 {"99999999999999999999", "byte 0"},
                 {"2147483648", "byte 0"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        aid_write(path, files[i].text, strlen(files[i].text));
        expect_error(RUN(NULL, "logits", store, "--ids", path), 3, files[i].err);
    }
    expect_error(RUN(NULL, "logits", store, "--ids", "1,4096"), 2,
                 "token 1 has the id 4096; the model's ids are 0 to 4095");
    expect_error(RUN(NULL, "logits", store, "--ids", ""), 2, "the list of ids is empty");
    expect_error(RUN(NULL, "logits", store, "--ids", "1,,2"), 2, "byte 2: want a token id");
    expect_error(RUN(NULL, "logits", store, "--ids", "no-such-file"), 3, "list like 1,2,3");
    expect_error(RUN(NULL, "logits", store), 2, "--ids is required");
    expect_error(RUN(NULL, "logits", store, "--ids", "1", "--json", "--f32", "x"), 2, "exclude");
    expect_error(RUN(NULL, "logits", store, "--ids", "1", "--greedy", "4096"), 1, "4097 tokens");
    expect_error(RUN(NULL, "logits", store, "--ids", "1", "--f32", "/no/such/folder/x"), 3, "/no/");
    expect_error(RUN(NULL, "logits", "/no/such/store", "--ids", "1"), 3, "/no/such/store");
    mem_free(path);
}

/* One pass over "Once upon a time" by the golden rows of the same tokens. */
static void test_perplexity(void **state)
{
    (void)state;
    const json_t *s = sequence("short"), *ref = json_object_get(s, "logits");
    const json_t *tokens = json_object_get(s, "tokens");
    const float *rows = rows_of(ref);
    const size_t n = json_array_size(tokens);
    const char *text = json_string_value(json_object_get(s, "text"));
    json_t *v = json_of(RUN(NULL, "perplexity", store, text, "--json"));
    double sum = 0, worst = 0;
    assert_true(json_equal(json_object_get(v, "ids"), tokens));
    assert_int_equal(json_integer_value(json_object_get(v, "window")), 4096);
    assert_int_equal(json_integer_value(json_object_get(v, "stride")), 2048);
    assert_true(json_is_null(json_array_get(json_object_get(v, "token_nll"), 0)));
    for (size_t i = 1; i < n; i++) {
        const float *x = rows + (i - 1) * VOCAB;
        double z = 0;
        for (int t = 0; t < VOCAB; t++)
            z += exp(x[t]);
        const double want = log(z) - x[json_integer_value(json_array_get(tokens, i))];
        const double got = json_number_value(json_array_get(json_object_get(v, "token_nll"), i));
        sum += got;
        worst = fmax(worst, fabs(got - want));
    }
    printf("worst: nll off by %.3g, bound 1e-3\n", worst);
    assert_true(worst < 1e-3);
    assert_true(fabs(json_number_value(json_object_get(v, "nll")) - sum / (double)(n - 1)) < 1e-6);
    assert_true(fabs(json_number_value(json_object_get(v, "perplexity")) -
                     exp(sum / (double)(n - 1))) < 1e-4);
    json_decref(v);
}

/* Windows change what a token has in front of it; a file is read; what is wrong is said. */
static void test_perplexity_windows(void **state)
{
    (void)state;
    static const char text[] = "Once upon a time there was a king who had three sons.\n";
    char *path = file_join(model, "text");
    aid_write(path, text, sizeof text - 1);
    struct aid_output o = RUN(NULL, "perplexity", store, path, "--window", "8", "--stride", "3");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(buf_str(&o.out), "windows of 8 tokens, stride 3"));
    assert_non_null(strstr(buf_str(&o.out), "bits per byte"));
    aid_output_free(&o);
    json_t *whole = json_of(RUN(NULL, "perplexity", store, path, "--json"));
    json_t *parts =
        json_of(RUN(text, "perplexity", store, "-", "--json", "--window", "8", "--stride", "3"));
    const json_t *a = json_object_get(whole, "token_nll"), *b = json_object_get(parts, "token_nll");
    for (size_t i = 1; i < 8; i++)
        assert_true(json_equal(json_array_get(a, i), json_array_get(b, i)));
    assert_false(json_equal(a, b));
    json_decref(whole);
    json_decref(parts);
    expect_error(RUN(NULL, "perplexity", store, path, "--window", "8", "--stride", "8"), 2,
                 "stride of 8 in windows of 8");
    expect_error(RUN(NULL, "perplexity", store, "no-such-file"), 3, "no such file");
    expect_error(RUN("a", "perplexity", store, "-"), 2, "1 token");
    expect_error(RUN("\xff\xff", "perplexity", store, "-"), 3, "UTF-8");
    mem_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_rows_and_drafts),
        cmocka_unit_test(test_last),
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_bad_ids),
        cmocka_unit_test(test_perplexity),
        cmocka_unit_test(test_perplexity_windows),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
