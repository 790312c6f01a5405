/* Raw or folded: every golden and the demo, a copy whose norms were made raw, one between the
 * bands, and the markers that settle it. */
#include "tests/aid_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "checkpoint/convention.h"
#include "quant/half.h"

#define MICRO GOLDENS "micro/mlx4"

static int detect(const char *dir, struct convention *v, struct err *e)
{
    struct checkpoint *c;
    assert_ok(checkpoint_open(dir, &c, e), *e);
    int rc = convention_detect(c, v, e);
    checkpoint_close(c);
    return rc;
}

static void test_published(void **state)
{
    (void)state;
    static const struct {
        const char *dir;
        enum norm_convention norms;
    } cases[] = {
        {GOLDENS "micro/bf16", NORMS_RAW},
        {MICRO, NORMS_FOLDED},
        {GOLDENS "v-hc2/mlx4", NORMS_FOLDED},
        {GOLDENS "v-nople/mlx4", NORMS_FOLDED},
        {GOLDENS "v-ple2/mlx4", NORMS_FOLDED},
        {GOLDENS "v-silu/mlx4", NORMS_FOLDED},
        {GOLDENS "v-rope/mlx4", NORMS_FOLDED},
        {GOLDENS "v-nonorm/mlx4", NORMS_FOLDED},
        {GOLDENS "v-mtpall/mlx4", NORMS_FOLDED},
        {GOLDENS "v-head128/mlx4", NORMS_FOLDED},
        {DEMO, NORMS_FOLDED},
    };
    double lo = INFINITY, hi = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct convention v;
        struct err e = {0};
        assert_ok(detect(cases[i].dir, &v, &e), e);
        assert_int_equal(v.norms, cases[i].norms);
        assert_true(strlen(v.because) > 20);
        if (v.norms == NORMS_FOLDED) {
            lo = fmin(lo, v.probe);
            hi = fmax(hi, v.probe);
        }
    }
    printf("note: probe of folded checkpoints: %.3f to %.3f\n", lo, hi);
}

/* A copy of the checkpoint in micro/mlx4 whose folded norms have `add` added to every value;
 * `config` is its config.json. */
static char *copy_shifted(float add, const char *config)
{
    char *dir = aid_tmpdir(), *path = file_join(dir, "config.json");
    struct checkpoint *c;
    struct err e = {0};
    aid_write(path, config, strlen(config));
    mem_free(path);
    assert_ok(checkpoint_open(MICRO, &c, &e), e);
    for (int f = 0; f < c->n_files; f++) {
        struct buf all = BUF_INIT;
        assert_ok(file_read_all(c->files[f].path, 64 << 20, &all, &e), e);
        for (size_t i = 0; i < c->n_tensors; i++) {
            const struct tensor *t = &c->tensors[i];
            if (t->file != f || !convention_is_folded_norm(t->name))
                continue;
            for (uint64_t at = t->offset; at < t->offset + t->nbytes; at += 2) {
                uint16_t h;
                memcpy(&h, all.data + at, 2);
                h = bf16_from_f32(bf16_to_f32(h) + add);
                memcpy(all.data + at, &h, 2);
            }
        }
        path = file_join(dir, strrchr(c->files[f].path, '/') + 1);
        aid_write(path, all.data, all.len);
        mem_free(path);
        buf_free(&all);
    }
    checkpoint_close(c);
    return dir;
}

static void test_shifted(void **state)
{
    (void)state;
    static const char marked[] = "{\"mererun_conversion\":{\"profile\":\"q4\"}}";
    static const struct {
        float add;
        const char *config, *says;
        int code;
        enum norm_convention norms;
    } cases[] = {
        {0, "{}", "the median of hc_norm over 4 layers is 0.9", 0, NORMS_FOLDED},
        {-1, "{}", "the median of hc_norm over 4 layers is ", 0, NORMS_RAW},
        {-0.5f, "{}", "--norms raw|folded", E_UNSUPPORTED, 0},
        {5, "{}", "--norms raw|folded", E_UNSUPPORTED, 0},
        {-0.5f, marked, "mererun_conversion", 0, NORMS_FOLDED},
        {-1, marked, "look otherwise", 0, NORMS_FOLDED},
        {NAN, "{}", "holds NaN or infinity", E_NONFINITE, 0},
        {0, "{", "not valid JSON", E_FORMAT, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *dir = copy_shifted(cases[i].add, cases[i].config);
        struct convention v = {0};
        struct err e = {0};
        int rc = detect(dir, &v, &e);
        if (rc != -cases[i].code || !strstr(rc ? e.msg : v.because, cases[i].says))
            fail_msg("case %zu: %d, %s", i, rc, rc ? e.msg : v.because);
        if (!rc)
            assert_int_equal(v.norms, cases[i].norms);
        aid_rmdir(dir);
    }
}

/* A checkpoint of one tensor of two elements, or of none. */
struct one {
    const char *name, *dtype, *metadata;
    const void *data;
    size_t n; /* bytes */
};

static int detect_one(const struct one *o, struct convention *v, struct err *e)
{
    char *dir = aid_tmpdir(), *path = file_join(dir, "model.safetensors");
    struct buf header = BUF_INIT, all = BUF_INIT;
    buf_printf(&header,
               "{\"__metadata__\":%s,\"%s\":{\"dtype\":\"%s\",\"shape\":[%d],"
               "\"data_offsets\":[0,%zu]}}",
               o->metadata, o->name, o->dtype, o->n ? 2 : 0, o->n);
    for (int i = 0; i < 8; i++)
        buf_putc(&all, (char)(header.len >> 8 * i));
    buf_add(&all, header.data, header.len);
    buf_add(&all, o->data, o->n);
    aid_write(path, all.data, all.len);
    int rc = detect(dir, v, e);
    buf_free(&header);
    buf_free(&all);
    mem_free(path);
    aid_rmdir(dir);
    return rc;
}

static void test_single(void **state)
{
    (void)state;
    static const char norm[] = "language_model.model.layers.0.attn_hyper_connection.hc_norm.weight";
    static const float near_one[] = {0.75f, 1.5f};
    static const uint16_t near_zero[] = {0x2E66, 0xA800}; /* f16 0.1, -0.03 */
    static const struct {
        struct one one;
        int code;
        enum norm_convention norms;
        const char *says;
    } cases[] = {
        {{norm, "F32", "{}", near_one, 8}, 0, NORMS_FOLDED, "over 1 layers is 1.125"},
        {{norm, "F16", "{}", near_zero, 4}, 0, NORMS_RAW, "over 1 layers is 0.0"},
        {{norm, "F16", "{\"mererun_conversion\":\"1\"}", near_zero, 4}, 0, NORMS_FOLDED, "mererun"},
        {{norm, "I32", "{}", near_one, 8}, E_UNSUPPORTED, 0, "is I32, want a norm in BF16"},
        {{norm, "F32", "{}", "", 0}, E_FORMAT, 0, "has 0 elements"},
        {{"model.layers.0.mlp.experts.5.up_proj.weight", "F8_E4M3", "{}", "\x38\x38", 2},
         0,
         NORMS_RAW,
         "experts are stored as in the originals"},
        {{"x", "F32", "{}", near_one, 8}, E_NOTFOUND, 0, "--norms raw|folded"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct convention v = {0};
        struct err e = {0};
        int rc = detect_one(&cases[i].one, &v, &e);
        if (rc != -cases[i].code || !strstr(rc ? e.msg : v.because, cases[i].says))
            fail_msg("case %zu: %d, %s", i, rc, rc ? e.msg : v.because);
        if (!rc)
            assert_int_equal(v.norms, cases[i].norms);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    struct checkpoint *c;
    struct err e = {0};
    struct convention v;
    int rc = -1;
    long nth = 0;
    assert_ok(checkpoint_open(MICRO, &c, &e), e);
    while (rc) {
        err_clear(&e);
        mem_fail_at(++nth);
        rc = convention_detect(c, &v, &e);
        mem_fail_at(0);
        if (rc)
            assert_int_equal(rc, -E_NOMEM);
        assert_true(nth < 10000);
    }
    printf("note: %ld allocations failed in turn\n", nth - 1);
    checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_shifted),
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_no_memory),
    };
    json_set_alloc_funcs(mem_alloc, mem_free); /* so that the parser's allocations can fail too */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
