/* Made-up stores: the same numbers give the same bytes, whole and verified; a store of more layers,
 * experts or precisions has the same weights where it has the same names; and it computes. */
#include "tests/aid_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "pack/synth.h"
#include "quant/half.h"
#include "tests/aid_pack.h"

#define MICRO GOLDENS "micro/mlx4"

static char *tmp;

static int set_up(void **state)
{
    (void)state;
    tmp = aid_tmpdir();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    aid_rmdir(tmp);
    return 0;
}

static struct synth_options plain(void)
{
    return (struct synth_options){.config = MICRO, .seed = 1, .bits = {.want = {[4] = true}}};
}

static const char *make(const char *name, const struct synth_options *o)
{
    const char *dir = aid_path(tmp, name);
    struct synth_report r;
    struct err e = {0};
    assert_ok(synth_run(dir, o, &r, &e), e);
    assert_ok(aid_verify(dir, &e), e);
    return dir;
}

static struct store *open_store(const char *dir)
{
    struct err e = {0};
    struct store *s;
    assert_ok(store_open(dir, &s, &e), e);
    return s;
}

static void test_same(void **state)
{
    struct synth_options o = plain();
    (void)state;
    const char *a = make("a", &o);
    o.bits.n_threads = 3;
    const char *b = make("b", &o);
    aid_same_store(a, b);
    o.seed = 2;
    const char *c = make("c", &o);
    struct store *x = open_store(a), *y = open_store(c);
    assert_memory_not_equal(store_record(x, 0, 0), store_record(y, 0, 0), 64);
    store_close(x);
    store_close(y);
}

/* The first tensors and records of a larger store are those of a smaller one. */
static void test_prefix(void **state)
{
    struct synth_options o = plain();
    struct tensor_view t, u;
    struct err e = {0};
    (void)state;
    struct store *whole = open_store(make("whole", &o));
    o.n_layers = 2;
    o.E = 5;
    o.without_mtp = true;
    struct store *part = open_store(make("part", &o));
    const char *name = "language_model.model.layers.1.linear_attn.out_proj.scales";
    assert_int_equal(part->config.n_layers, 2);
    assert_int_equal(part->config.E, 5);
    assert_int_equal(part->config.n_mtp, 0);
    assert_ok(store_find(whole, name, &t, &e), e);
    assert_ok(store_find(part, name, &u, &e), e);
    assert_memory_equal(t.data, u.data, t.nbytes);
    for (int il = 0; il < 2; il++)
        assert_memory_equal(store_record(whole, il, 2), store_record(part, il, 2),
                            whole->manifest.experts.stride);
    store_close(whole);
    store_close(part);
}

/* Copies are what packing makes of the 4-bit records, with those or without them. */
static void test_bits(void **state)
{
    struct synth_options o = plain();
    struct lowbit_options both = {.want = {[3] = true, [2] = true}};
    struct lowbit_report r;
    struct err e = {0};
    (void)state;
    const char *packed = make("packed", &o);
    assert_ok(lowbit_run(packed, &both, &r, &e), e);
    o.bits.want[3] = o.bits.want[2] = true;
    const char *all = make("all", &o);
    o.bits.want[4] = false;
    const char *low = make("low", &o);
    assert_false(aid_has(low, "experts.bin"));
    static const char *const names[] = {"experts3.bin", "experts2.bin", "manifest3.json",
                                        "manifest2.json", "checksums.bin"};
    for (int i = 0; i < 5; i++) {
        aid_same_file(packed, all, names[i]);
        aid_same_file(packed, low, names[i]);
    }
    struct store *s = open_store(low);
    assert_int_equal(store_bits_best(s), 3);
    store_close(s);
}

/* Deviations of the router's rows, the largest over the smallest. */
static double spread(const char *dir)
{
    struct store *s = open_store(dir);
    struct tensor_view t;
    struct err e = {0};
    double least = INFINITY, most = 0;
    assert_ok(store_find(s, "language_model.model.layers.0.mlp.gate.weight", &t, &e), e);
    size_t cols = (size_t)t.shape[1];
    for (size_t row = 0; row < t.shape[0]; row++) {
        double sum = 0;
        for (size_t i = 0; i < cols; i++) {
            float x = bf16_to_f32(((const uint16_t *)t.data)[row * cols + i]);
            sum += (double)x * (double)x;
        }
        least = fmin(least, sqrt(sum));
        most = fmax(most, sqrt(sum));
    }
    store_close(s);
    return most / least;
}

static void test_skew(void **state)
{
    struct synth_options o = plain();
    (void)state;
    double even = spread(make("even", &o));
    o.skew = 1;
    double uneven = spread(make("uneven", &o));
    printf("note: rows of the router differ by a factor of %.2f, with skew of %.2f\n", even,
           uneven);
    assert_true(even < 1.6 && uneven > 4);
}

static void run_program(const char *const *argv, int status, const char *out, const char *err)
{
    struct aid_output o;
    aid_run(argv, NULL, &o);
    if (o.status != status || !strstr(buf_str(&o.out), out) || !strstr(buf_str(&o.err), err))
        fail_msg("%s %s: status %d, want %d, '%s' and '%s': %s%s", argv[1], argv[2], o.status,
                 status, out, err, buf_str(&o.out), buf_str(&o.err));
    aid_output_free(&o);
}

/* Every precision computes finite logits, and a store of 2 bits the same as one of 4 read at 2. */
static void test_computes(void **state)
{
    const char *dir = aid_path(tmp, "program");
    (void)state;
    run_program((const char *[]){"cherenkov", "synth", MICRO, dir, "--experts-bits", "3,2",
                                 "--tokenizer", DEMO, NULL},
                0, "", "made up");
    assert_true(aid_has(dir, "tokenizer.json"));
    run_program((const char *[]){"cherenkov", "logits", dir, "--ids", "1,2,3", "--engine",
                                 "reference", "--greedy", "4", NULL},
                0, "position", "");
    run_program((const char *[]){"cherenkov", "synth", MICRO, dir, NULL}, 2, "", "--force");
    run_program((const char *[]){"cherenkov", "synth", MICRO, dir, "--force", NULL}, 0, "",
                "made up");
    assert_false(aid_has(dir, "manifest3.json"));
    run_program((const char *[]){"cherenkov", "synth", MICRO, dir, "--mtp", "maybe", NULL}, 2, "",
                "'maybe'");
}

/* A checkpoint's own folder: its config.json was removed, and written anew as synth has it. */
static void test_spares_what_is_no_store(void **state)
{
    const char *dir = aid_path(tmp, "mine"), *config = aid_path(dir, "config.json");
    struct err e = {0};
    (void)state;
    assert_ok(file_make_dir(dir, &e), e);
    aid_write(config, "{}", 2);
    run_program((const char *[]){"cherenkov", "synth", MICRO, dir, NULL}, 2, "",
                "holds a config.json, which would be lost");
    aid_write(aid_path(dir, "model.safetensors"), "", 0);
    run_program((const char *[]){"cherenkov", "synth", MICRO, dir, "--force", NULL}, 2, "",
                "holds a checkpoint (model.safetensors)");
    assert_true(aid_has(dir, "config.json"));
    assert_false(aid_has(dir, "dense.bin"));
}

static void test_faults(void **state)
{
    struct synth_options o = plain();
    struct synth_report r;
    const char *dir = aid_path(tmp, "faults");
    (void)state;
    o.bits.force = o.bits.want[2] = true;
    for (long n = 1;; n += 1 + n / 4) {
        struct err e = {0};
        file_fault_at(FILE_FAULT_WRITE, n);
        int rc = synth_run(dir, &o, &r, &e);
        file_fault_at(FILE_FAULT_WRITE, 0);
        if (!rc)
            break;
        assert_int_equal(e.code, E_SPACE);
        struct store *s;
        struct err none = {0};
        if (!store_open(dir, &s, &none)) { /* the last write is that of the copy's manifest */
            assert_false(s->records[2].present);
            store_close(s);
        }
    }
    for (long n = 1;; n += 1 + n / 8) {
        struct err e = {0};
        mem_fail_at(n);
        int rc = synth_run(dir, &o, &r, &e);
        mem_fail_at(0);
        if (!rc)
            break;
        if (e.code != E_NOMEM)
            fail_msg("allocation %ld: code %d: %s", n, e.code, e.msg);
    }
    struct err e = {0};
    interrupt_set(true);
    assert_int_equal(synth_run(dir, &o, &r, &e), -E_INTERRUPTED);
    interrupt_set(false);
    assert_false(aid_has(dir, "manifest.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),     cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_bits),     cmocka_unit_test(test_skew),
        cmocka_unit_test(test_computes), cmocka_unit_test(test_spares_what_is_no_store),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
