/* Golden values: see aid_expect.h. */
#include "tests/aid_expect.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "model/engine.h"
#include "tests/aid_test.h"

void expect_open(struct expect *x, const char *dir)
{
    struct err e = {0};
    char path[512];
    *x = (struct expect){.dir = dir};
    snprintf(path, sizeof path, "%s/goldens.json", dir);
    assert_ok(json_read_file(path, 1 << 26, &x->root, &e), e);
    snprintf(path, sizeof path, "%s/%s", dir, json_string_value(expect_get(x->root, "bin")));
    assert_ok(file_read_all(path, 1 << 28, &x->bin, &e), e);
}

void expect_close(struct expect *x)
{
    json_decref(x->root);
    buf_free(&x->bin);
}

const json_t *expect_get(const json_t *obj, const char *key)
{
    const json_t *v = json_object_get(obj, key);
    if (!v)
        fail_msg("no \"%s\" in the goldens", key);
    return v;
}

const float *expect_row(const struct expect *x, const json_t *ref, int row, size_t n)
{
    size_t offset = (size_t)json_integer_value(expect_get(ref, "offset")), i, width = 1;
    const json_t *shape = expect_get(ref, "shape"), *dim;
    json_array_foreach(shape, i, dim) {
        if (i > 0 || row < 0)
            width *= (size_t)json_integer_value(dim);
    }
    if (row >= 0)
        assert_true(row < expect_int(shape, 0));
    assert_int_equal(width, n);
    offset += (row < 0 ? 0 : (size_t)row) * width;
    assert_true((offset + width) * sizeof(float) <= x->bin.len);
    return (const float *)(const void *)x->bin.data + offset;
}

long expect_int(const json_t *array, size_t i)
{
    const json_t *v = json_array_get(array, i);
    assert_true(json_is_integer(v));
    return (long)json_integer_value(v);
}

void expect_floats(struct expect *x, const float *got, const float *want, size_t n, const char *fmt,
                   ...)
{
    double most = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        most = d > most || isnan(d) ? d : most;
        largest = fmax(largest, fabs((double)want[i]));
    }
    double rel = largest > 0 ? most / largest : most;
    x->floats += (long)n;
    if (rel <= x->worst)
        return;
    char what[120];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (!(rel <= EXPECT_TOLERANCE))
        fail_msg("%s: %s: off by %g of the largest magnitude", x->dir, what, rel);
    x->worst = rel;
    snprintf(x->where, sizeof x->where, "%s", what);
}

void expect_ints(struct expect *x, const long *got, const json_t *want, size_t n, const char *fmt,
                 ...)
{
    char what[120];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    x->exact += (long)n;
    if (json_array_size(want) != n)
        fail_msg("%s: %s: %zu values, want %zu", x->dir, what, n, json_array_size(want));
    for (size_t i = 0; i < n; i++)
        if (got[i] != expect_int(want, i))
            fail_msg("%s: %s: value %zu is %ld, want %ld", x->dir, what, i, got[i],
                     expect_int(want, i));
}

int expect_argmax(struct expect *x, const float *row, int vocab, long want, const char *fmt, ...)
{
    char what[120];
    va_list ap;
    int32_t got = engine_argmax(row, vocab);
    double largest = 0;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    x->exact++;
    assert_in_range(want, 0, vocab - 1);
    if (got == want)
        return 0;
    for (int i = 0; i < vocab; i++)
        largest = fmax(largest, fabs((double)row[i]));
    if ((double)row[got] - (double)row[want] > 2 * EXPECT_TOLERANCE * largest)
        fail_msg("%s: %s: argmax is %d, want %ld, ahead by %g", x->dir, what, got, want,
                 (double)row[got] - (double)row[want]);
    return 1;
}
