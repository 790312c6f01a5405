/* Experts in 3 and 2 bits: a copy is used when it is of the store at hand, and what is not is
 * absent with its reason. Copies are written here by a few lines of their own, by the format
 * page. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/file.h"
#include "base/mem.h"
#include "model/weights.h"
#include "quant/lowbit.h"
#include "store/store.h"
#include "tests/aid_store.h"

static char *dir; /* a store of the micro golden's config, with copies of its experts */
static json_t *manifest[5];

/* "dir/name", good for the next three calls. */
static const char *in_dir(const char *name)
{
    static char room[4][512];
    static int next;
    char *to = room[next++ % 4];
    snprintf(to, sizeof room[0], "%s/%s", dir, name);
    return to;
}

/* Offsets of codes, scales and biases of the micro golden by hand: 64 x 128 values a matrix. */
enum { H = 128, INTER = 64, CODES = H * INTER, SIDE = CODES / 64 * 2 };

static json_t *describe(int bits, size_t records, const uint64_t *sum)
{
    uint64_t codes = lowbit_bytes(bits, CODES), side = 3 * codes;
    json_t *root = json_pack(
        "{s:i, s:s, s:I, s:I, s:{s:I,s:I,s:I}, s:{s:I,s:I,s:I,s:I,s:I,s:I}}", "bits", bits,
        "layout", "vectorized", "stride", (json_int_t)16384, "records", (json_int_t)records, "w",
        "gate", (json_int_t)0, "up", (json_int_t)codes, "down", (json_int_t)(2 * codes), "s",
        "gate_s", (json_int_t)side, "gate_b", (json_int_t)(side + SIDE), "up_s",
        (json_int_t)(side + 2 * SIDE), "up_b", (json_int_t)(side + 3 * SIDE), "down_s",
        (json_int_t)(side + 4 * SIDE), "down_b", (json_int_t)(side + 5 * SIDE));
    json_t *sums = json_array();
    assert_non_null(root);
    for (size_t i = 0; sum && i < records; i++) {
        char hex[17];
        snprintf(hex, sizeof hex, "%016llx", (unsigned long long)sum[i]);
        json_array_append_new(sums, json_string(hex));
    }
    if (sum)
        json_object_set_new(root, "xxh3", sums);
    else
        json_decref(sums);
    return root;
}

static void write_copy(int bits)
{
    struct err e = {0};
    struct store *s;
    assert_ok(store_open(dir, &s, &e), e);
    const struct expert_layout *x = &s->manifest.experts;
    size_t n = (size_t)x->n_layers * (size_t)x->E, codes = lowbit_bytes(bits, CODES);
    uint8_t *all = mem_zalloc(n, 16384);
    uint64_t *sum = mem_array(n, sizeof *sum);
    assert_int_equal(x->h, H);
    assert_int_equal(x->inter, INTER);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *from = store_record(s, (int)(i / (size_t)x->E), (int)(i % (size_t)x->E));
        uint8_t *to = all + i * 16384;
        for (int k = 0; k < 3; k++) {
            lowbit_from_q4(bits, from + k * CODES / 2, CODES, to + (size_t)k * codes);
            memcpy(to + 3 * codes + 2 * k * SIDE, from + 3 * CODES / 2 + 2 * k * SIDE, 2 * SIDE);
        }
        sum[i] = XXH3_64bits(to, 16384);
    }
    aid_write(in_dir(records_file(bits)), all, n * 16384);
    manifest[bits] = describe(bits, n, sum);
    aid_store_write_json(dir, records_manifest(bits), manifest[bits]);
    mem_free(all);
    mem_free(sum);
    store_close(s);
}

static int set_up(void **state)
{
    static const char config[] = GOLDENS "micro/mlx4/config.json";
    struct aid_tensors tensors;
    struct config c;
    struct err e = {0};
    (void)state;
    assert_ok(config_load(config, &c, &e), e);
    dir = aid_tmpdir();
    aid_tensors_make(&c, &tensors);
    json_t *m = aid_store_manifest(&tensors);
    aid_store_write(dir, config, &tensors, m);
    json_decref(m);
    aid_tensors_free(&tensors);
    write_copy(3);
    write_copy(2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    json_decref(manifest[2]);
    json_decref(manifest[3]);
    aid_rmdir(dir);
    return 0;
}

static struct store *open_store(void)
{
    struct err e = {0};
    struct store *s;
    assert_ok(store_open(dir, &s, &e), e);
    return s;
}

static void test_present(void **state)
{
    struct store *s = open_store();
    struct err e = {0};
    const struct records *r;
    struct expert x;
    (void)state;
    for (int bits = 2; bits <= 4; bits++) {
        assert_ok(store_records(s, bits, &r, &e), e);
        assert_int_equal(r->bits, bits);
        assert_int_equal(r->stride, 16384);
        assert_string_equal(r->path, in_dir(records_file(bits)));
    }
    assert_int_equal(store_bits_best(s), 4);
    assert_int_equal(store_records(s, 5, &r, &e), -E_ARG);
    r = &s->records[2];
    weights_expert(&s->manifest.experts, r, records_at(r, 3), &x);
    assert_int_equal(x.down.format, MATRIX_Q2);
    assert_int_equal(x.down.rows, H);
    assert_ptr_equal(x.up.w, r->map.data + 3 * 16384 + CODES / 4);
    store_close(s);
}

/* Values of a matrix of a store that has no 4-bit experts are those that its own codes have. */
static void test_source(void **state)
{
    struct store *s = open_store();
    struct err e = {0};
    struct weight_source src;
    struct expert x;
    static const enum matrix_format want[] = {[4] = MATRIX_Q4, [3] = MATRIX_Q3, [2] = MATRIX_Q2};
    (void)state;
    for (int bits = 2; bits <= 4; bits++) { /* made from 4 bits where there are some */
        assert_ok(weights_source_bits(s, bits, &src, &e), e);
        assert_ok(src.expert(src.ctx, 1, 2, &x, &e), e);
        assert_int_equal(x.gate.format, MATRIX_Q4);
    }
    store_close(s);
    assert_int_equal(rename(in_dir("experts.bin"), in_dir("away")), 0);
    s = open_store();
    assert_int_equal(store_bits_best(s), 3);
    for (int bits = 2; bits <= 3; bits++) {
        assert_ok(weights_source_bits(s, bits, &src, &e), e);
        assert_ok(src.expert(src.ctx, 1, 2, &x, &e), e);
        assert_int_equal(x.gate.format, want[bits]);
    }
    assert_int_equal(weights_source_bits(s, 4, &src, &e), -E_NOTFOUND);
    assert_non_null(strstr(e.msg, "experts of 3 bits at most"));
    store_close(s);
    assert_int_equal(rename(in_dir("away"), in_dir("experts.bin")), 0);
}

/* Opening goes on without the copy, and asking for it gives the code and says why and what to
 * do. */
static void expect_absent(int bits, int code, const char *why)
{
    struct store *s = open_store();
    const struct records *r;
    struct err e = {0};
    char command[32];
    assert_int_equal(store_records(s, bits, &r, &e), -code);
    if (!strstr(e.msg, why))
        fail_msg("want '%s' in: %s", why, e.msg);
    snprintf(command, sizeof command, "--experts %d", bits);
    assert_non_null(strstr(e.msg, command));
    err_clear(&e);
    assert_ok(store_records(s, 5 - bits, &r, &e), e); /* the other one is as it was */
    store_close(s);
}

static void test_manifest(void **state)
{
    static const struct {
        const char *path, *text, *why;
    } cases[] = {
        {"bits", "2", "bits: is 2, want 3"},
        {"bits", NULL, "bits"},
        {"layout", "\"plain\"", "layout: is \"plain\", want \"vectorized\""},
        {"stride", "32768", "stride: is 32768, want 16384"},
        {"records", "7", "records: is 7"},
        {"w.up", "4", "w.up: is 4"},
        {"w", "[]", "w"},
        {"s.down_b", "0", "s.down_b: is 0"},
        {"s.gate_s", NULL, "gate_s"},
        {"xxh3", "[]", "xxh3: has 0 entries"},
        {"xxh3.2", "\"00\"", "xxh3[2]: want 16 hexadecimal digits"},
        {"xxh3", "7", "xxh3"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *m = json_deep_copy(manifest[3]);
        aid_json_set(m, cases[i].path, cases[i].text);
        aid_store_write_json(dir, "manifest3.json", m);
        expect_absent(3, cases[i].text && strstr(cases[i].text, "plain") ? E_UNSUPPORTED : E_FORMAT,
                      cases[i].why);
        json_decref(m);
    }
    aid_write(in_dir("manifest3.json"), "{", 1);
    expect_absent(3, E_FORMAT, "manifest3.json");
    assert_int_equal(unlink(in_dir("manifest3.json")), 0);
    expect_absent(3, E_NOTFOUND, "there are no experts of 3 bits");
    aid_store_write_json(dir, "manifest3.json", manifest[3]);
}

/* Changes a byte of a file, and back again. */
static void flip(const char *name, uint64_t at)
{
    struct file f;
    struct err e = {0};
    uint8_t byte;
    assert_ok(file_reopen(in_dir(name), &f, &e), e);
    assert_ok(file_read_at(&f, at, &byte, 1, &e), e);
    byte ^= 16;
    assert_ok(file_write_at(&f, at, &byte, 1, &e), e);
    assert_ok(file_close(&f, &e), e);
}

static void test_stale(void **state)
{
    size_t n = (size_t)json_integer_value(json_object_get(manifest[2], "records"));
    const size_t samples[] = {0, n / 3, 2 * n / 3, n - 1};
    (void)state;
    for (int k = 0; k < 4; k++) {
        char why[64];
        snprintf(why, sizeof why, "record %zu is not what record %zu", samples[k], samples[k]);
        flip("experts2.bin", samples[k] * 16384 + 5);
        expect_absent(2, E_FORMAT, why);
        flip("experts2.bin", samples[k] * 16384 + 5);
    }
    flip("experts2.bin", 16384 + 5); /* a record that is not looked at: verify finds it */
    store_close(open_store());
    flip("experts2.bin", 16384 + 5);
    assert_int_equal(truncate(in_dir("experts2.bin"), (off_t)(n * 16384 - 1)), 0);
    expect_absent(2, E_FORMAT, "it is cut short");
    assert_int_equal(truncate(in_dir("experts2.bin"), (off_t)(n * 16384)), 0);
    assert_int_equal(rename(in_dir("experts2.bin"), in_dir("away")), 0);
    expect_absent(2, E_NOTFOUND, "experts2.bin: is not there");
    assert_int_equal(rename(in_dir("away"), in_dir("experts2.bin")), 0);
}

static void expect_refused(const char *why)
{
    struct store *s;
    struct err e = {0};
    assert_true(store_open(dir, &s, &e) < 0);
    if (!strstr(e.msg, why))
        fail_msg("want '%s' in: %s", why, e.msg);
}

/* Without experts.bin checksums take the place of the comparison. */
static void test_alone(void **state)
{
    (void)state;
    assert_int_equal(rename(in_dir("experts.bin"), in_dir("away")), 0);
    flip("experts3.bin", 16384 / 2);
    expect_absent(3, E_FORMAT, "record 0 does not have its checksum");
    flip("experts2.bin", 16384 / 2);
    expect_refused("does not have its checksum");
    flip("experts3.bin", 16384 / 2);
    flip("experts2.bin", 16384 / 2);
    json_t *bare = json_deep_copy(manifest[3]);
    json_object_del(bare, "xxh3");
    aid_store_write_json(dir, "manifest3.json", bare);
    expect_absent(3, E_FORMAT, "neither experts.bin nor checksums");
    assert_int_equal(unlink(in_dir("manifest2.json")), 0);
    assert_int_equal(unlink(in_dir("manifest3.json")), 0);
    expect_refused("experts.bin: is not there, nor are experts of 3 or 2 bits");
    assert_int_equal(rename(in_dir("away"), in_dir("experts.bin")), 0);
    aid_store_write_json(dir, "manifest3.json", bare); /* a copy of the original engine has none */
    aid_store_write_json(dir, "manifest2.json", manifest[2]);
    struct store *s = open_store();
    assert_true(s->records[3].present);
    store_close(s);
    json_decref(bare);
    aid_store_write_json(dir, "manifest3.json", manifest[3]);
}

/* Every allocation of opening in turn: none is lost, and E_NOMEM is never taken for a bad copy. */
static void test_memory(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct store *s;
        struct err e = {0};
        mem_fail_at(n);
        int rc = store_open(dir, &s, &e);
        mem_fail_at(0);
        if (!rc) {
            assert_true(s->records[3].present && s->records[2].present);
            store_close(s);
            break;
        }
        if (e.code != E_NOMEM)
            fail_msg("allocation %ld: code %d: %s", n, e.code, e.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_present),  cmocka_unit_test(test_source),
        cmocka_unit_test(test_manifest), cmocka_unit_test(test_stale),
        cmocka_unit_test(test_alone),    cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
