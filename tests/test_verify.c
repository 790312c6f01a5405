/* verify: one changed byte, wherever it is, is found and named. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "pack/sums.h"
#include "pack/verify.h"
#include "tests/aid_pack.h"

#define MICRO GOLDENS "micro/mlx4"

static const char *const texts[] = {"chat_template.jinja", "config.json", "generation_config.json",
                                    "tokenizer.json", "tokenizer_config.json"};
enum { N_TEXTS = sizeof texts / sizeof texts[0] };

static char *tmp, *store;

static int set_up(void **state)
{
    (void)state;
    tmp = aid_tmpdir();
    store = file_join(tmp, "store");
    aid_pack_ok(MICRO, store, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mem_free(store);
    aid_rmdir(tmp);
    return 0;
}

/* Flips a bit of one byte; calling it again puts it back. */
static void flip(const char *name, uint64_t at)
{
    struct err e = {0};
    struct file f;
    uint8_t byte;
    assert_ok(file_reopen(aid_path(store, name), &f, &e), e);
    assert_ok(file_read_at(&f, at, &byte, 1, &e), e);
    byte ^= 0x10;
    assert_ok(file_write_at(&f, at, &byte, 1, &e), e);
    assert_ok(file_close(&f, &e), e);
}

static uint64_t size_of(const char *name)
{
    struct err e = {0};
    struct file f;
    assert_ok(file_open(aid_path(store, name), &f, &e), e);
    uint64_t size = f.size;
    file_drop(&f);
    return size;
}

/* The store must be found damaged in one place, in words that contain `says`. */
static void expect_damage(const char *what, const char *says)
{
    struct verify_report r;
    struct err e = {0};
    int rc = verify_store(store, 2, &r, &e);
    if (rc != -E_DIFFER || r.n_damaged != 1 || !strstr(buf_str(&r.lines), says))
        fail_msg("%s: code %d, %zu damaged, want one: '%s'; found: %s %s", what, -rc, r.n_damaged,
                 says, buf_str(&r.lines), e.msg);
    verify_free(&r);
}

static void test_whole(void **state)
{
    (void)state;
    struct verify_report r;
    struct err e = {0};
    assert_ok(verify_store(store, 2, &r, &e), e);
    assert_int_equal(r.n_damaged, 0);
    assert_int_equal(r.n_unsummed, 0);
    assert_int_equal(r.n_pieces, 291 + 80 + 1 + N_TEXTS);
    verify_free(&r);
}

/* Bytes drawn from all over each data file: named by piece. */
static void test_flips(void **state)
{
    (void)state;
    const uint64_t seed = 20;
    struct manifest m;
    struct pieces p;
    struct err e = {0};
    char want[256];
    assert_ok(manifest_read(aid_path(store, "manifest.json"), &m, &e), e);
    pieces_init(&p, &m, 0);
    for (uint64_t i = 0; i < 150; i++) {
        size_t piece = (size_t)(rng_at(seed, i) % p.n);
        struct piece at = piece_at(&p, i < 3 ? p.n - 1 : piece);
        uint64_t byte = at.offset + rng_at(seed, 1000 + i) % at.bytes;
        flip(piece_file_names[at.file], byte);
        expect_damage("flip", piece_describe(&p, i < 3 ? p.n - 1 : piece, want, sizeof want));
        flip(piece_file_names[at.file], byte);
    }
    printf("seed: %llu\n", (unsigned long long)seed);
    manifest_free(&m);
}

/* First and last bytes of a record, its padding included, and gaps between dense tensors. */
static void test_edges(void **state)
{
    (void)state;
    struct manifest m;
    struct err e = {0};
    assert_ok(manifest_read(aid_path(store, "manifest.json"), &m, &e), e);
    const uint64_t at[] = {0, m.experts.bytes - 1, m.experts.bytes, m.experts.stride - 1};
    for (int i = 0; i < 4; i++) {
        flip("experts.bin", 17 * m.experts.stride + at[i]);
        expect_damage("edge", "record layer 1 (language_model.model.layers.1.mlp.switch_mlp), "
                              "expert 1:");
        flip("experts.bin", 17 * m.experts.stride + at[i]);
    }
    int gaps = 0;
    for (size_t i = 0; i + 1 < m.n_dense; i++) {
        uint64_t end = m.dense[i].offset + m.dense[i].nbytes;
        if (end == m.dense[i + 1].offset || gaps > 3)
            continue;
        flip("dense.bin", end);
        expect_damage("gap", "between tensors, are not zero");
        flip("dense.bin", end);
        gaps++;
    }
    assert_true(gaps > 0);
    manifest_free(&m);
}

/* Every byte of checksums.bin, and of manifest.json outside white space and source_dir, counts. */
static void test_texts(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf text = BUF_INIT;
    size_t refused = 0, differ = 0, silent = 0;
    for (uint64_t at = 0; at < size_of("checksums.bin"); at += 37) {
        flip("checksums.bin", at);
        expect_damage("checksums", "checksums.bin");
        flip("checksums.bin", at);
    }
    assert_ok(file_read_all(aid_path(store, "manifest.json"), 1 << 26, &text, &e), e);
    size_t start = (size_t)(strstr(text.data, "source_dir") - text.data);
    size_t end = (size_t)(strchr(text.data + start, '\n') - text.data);
    for (size_t at = 1; at < text.len; at += 97) {
        if (at + 1 >= start && at <= end)
            continue;
        struct err why = {0};
        flip("manifest.json", at);
        int rc = aid_verify(store, &why);
        flip("manifest.json", at);
        refused += rc < 0 && rc != -E_DIFFER;
        differ += rc == -E_DIFFER;
        silent += rc == 0;
        if (!rc && text.data[at] != ' ' && text.data[at] != '\n')
            fail_msg("manifest.json: byte %zu changed and nobody noticed", at);
    }
    printf("note: manifest bytes changed: %zu do not parse, %zu differ, %zu are white space\n",
           refused, differ, silent);
    assert_true(refused && differ);
    buf_free(&text);
}

static void test_lengths(void **state)
{
    (void)state;
    struct err e = {0};
    uint64_t size = size_of("experts.bin");
    assert_int_equal(truncate(aid_path(store, "experts.bin"), (off_t)size + 1), 0);
    expect_damage("longer", "experts.bin: is");
    assert_int_equal(truncate(aid_path(store, "experts.bin"), (off_t)size), 0);
    size = size_of("ngram.bin");
    assert_int_equal(truncate(aid_path(store, "ngram.bin"), (off_t)size - 1), 0);
    assert_int_equal(aid_verify(store, &e), -E_FORMAT);
    assert_non_null(strstr(e.msg, "ngram.bin"));
    struct aid_output o;
    aid_run((const char *const[]){"cherenkov", "pack", MICRO, "--output", store, "--force", NULL},
            NULL, &o);
    assert_int_equal(o.status, 0);
    aid_output_free(&o);
}

/* A store of the original engine has no checksums: its structure is checked, and said so. */
static void test_no_sums(void **state)
{
    (void)state;
    const char *path = aid_path(store, "manifest.json"), *noted = aid_path(store, "texts.xxh3");
    struct err e = {0};
    struct buf old = BUF_INIT, text = BUF_INIT;
    struct verify_report r;
    json_t *root, *entry;
    size_t i;
    assert_ok(file_read_all(path, 1 << 26, &old, &e), e);
    assert_ok(json_read_file(path, 1 << 26, &root, &e), e);
    json_array_foreach(json_object_get(root, "dense"), i, entry)
        assert_int_equal(json_object_del(entry, "xxh3"), 0);
    assert_int_equal(json_object_del(root, "seal"), 0);
    assert_int_equal(json_object_del(root, "checksums"), 0);
    assert_ok(json_print(root, JSON_INDENT(2), &text, &e), e);
    aid_write(path, text.data, text.len);
    assert_int_equal(rename(noted, aid_path(tmp, "aside")), 0);
    assert_ok(verify_store(store, 2, &r, &e), e);
    assert_int_equal(r.n_pieces, 0);
    assert_int_equal(r.n_unsummed, 372 + N_TEXTS);
    verify_free(&r);
    json_array_remove(json_object_get(root, "dense"), 0);
    buf_clear(&text);
    assert_ok(json_print(root, JSON_INDENT(2), &text, &e), e);
    aid_write(path, text.data, text.len);
    expect_damage("missing", "lacks tensor language_model.lm_head.biases");
    aid_write(path, old.data, old.len);
    assert_int_equal(rename(aid_path(tmp, "aside"), noted), 0);
    json_decref(root);
    buf_free(&old);
    buf_free(&text);
}

/* The bytes of a text, and a finding when they are others. */
static void change_text(const char *name)
{
    const char *path = aid_path(store, name);
    struct err e = {0};
    struct buf b = BUF_INIT;
    char says[80];
    assert_ok(file_read_all(path, 1 << 26, &b, &e), e);
    snprintf(says, sizeof says, "%s: does not have its checksum", name);
    buf_putc(&b, '\n');
    aid_write(path, b.data, b.len);
    expect_damage("a byte more", says);
    aid_write(path, b.data, b.len - 2);
    if (strcmp(name, "config.json") != 0) /* one that does not parse is refused before */
        expect_damage("cut", says);
    aid_write(path, b.data, b.len - 1);
    buf_free(&b);
}

/* A damaged tokenizer or template went unnoticed: verify looked at no text at all. */
static void test_texts_of_the_store(void **state)
{
    (void)state;
    struct verify_report r;
    struct err e = {0};
    for (int i = 0; i < N_TEXTS; i++)
        change_text(texts[i]);
    assert_int_equal(rename(aid_path(store, texts[3]), aid_path(tmp, "aside")), 0);
    expect_damage("gone", "tokenizer.json: is not there, and texts.xxh3 names it");
    assert_int_equal(rename(aid_path(tmp, "aside"), aid_path(store, texts[3])), 0);
    aid_write(aid_path(store, "LICENSE"), "free", 4);
    expect_damage("another", "LICENSE: is not in texts.xxh3");
    assert_int_equal(unlink(aid_path(store, "LICENSE")), 0);
    assert_ok(verify_store(store, 2, &r, &e), e);
    verify_free(&r);
}

/* The file of the texts' checksums is itself one that may be damaged. */
static void test_noted_texts(void **state)
{
    (void)state;
    const char *path = aid_path(store, "texts.xxh3");
    struct err e = {0};
    struct buf b = BUF_INIT;
    for (uint64_t at = 0, n = size_of("texts.xxh3"); at < n; at += 13) {
        flip("texts.xxh3", at);
        int rc = aid_verify(store, &e);
        flip("texts.xxh3", at);
        if (rc != -E_DIFFER)
            fail_msg("texts.xxh3: byte %llu changed and nobody noticed", (unsigned long long)at);
        err_clear(&e);
    }
    assert_ok(file_read_all(path, 1 << 20, &b, &e), e);
    aid_write(path, b.data, (size_t)(strchr(b.data, '\n') + 1 - b.data));
    assert_int_equal(aid_verify(store, &e), -E_DIFFER);
    assert_non_null(strstr(e.msg, "in 4 texts; copy them from the checkpoint"));
    assert_int_equal(unlink(path), 0);
    expect_damage("no file", "texts.xxh3: is not there, and manifest.json names it");
    aid_write(path, b.data, b.len);
    buf_free(&b);
}

static void test_accept(void **state)
{
    (void)state;
    const char *const verify[] = {"cherenkov", "verify", store, NULL}, *const accept[] = {
                                                                           "cherenkov", "verify",
                                                                           "--accept-texts", store,
                                                                           NULL};
    struct aid_output o;
    aid_write(aid_path(store, "NOTICE.txt"), "mine", 4);
    aid_run(verify, NULL, &o);
    assert_int_equal(o.status, 4);
    assert_non_null(strstr(buf_str(&o.err), "differs from what was packed in 1 text; "));
    aid_output_free(&o);
    for (int i = 0; i < 2; i++) {
        aid_run(i ? verify : accept, NULL, &o);
        assert_int_equal(o.status, 0);
        assert_non_null(strstr(buf_str(&o.err), "verified 378 pieces"));
        aid_output_free(&o);
    }
    assert_int_equal(unlink(aid_path(store, "NOTICE.txt")), 0);
    aid_run(accept, NULL, &o);
    assert_int_equal(o.status, 0);
    aid_output_free(&o);
}

static void test_command(void **state)
{
    (void)state;
    const char *const argv[] = {"cherenkov", "verify", store, NULL};
    struct aid_output o;
    aid_run(argv, NULL, &o);
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(buf_str(&o.err), "verified 377 pieces"));
    aid_output_free(&o);
    flip("dense.bin", 5);
    flip("ngram.bin", 5);
    aid_run(argv, NULL, &o);
    assert_int_equal(o.status, 4);
    assert_non_null(strstr(buf_str(&o.out), "dense.bin: tensor language_model.lm_head.biases"));
    assert_non_null(strstr(buf_str(&o.out), "ngram.bin: block 0, rows 0 to 639"));
    assert_non_null(strstr(buf_str(&o.err), "damaged in 2 places"));
    aid_output_free(&o);
    flip("dense.bin", 5);
    flip("ngram.bin", 5);
}

static void test_parse_sums(void **state)
{
    (void)state;
    struct manifest m;
    struct pieces p;
    struct err e = {0};
    struct buf b = BUF_INIT;
    uint64_t *sum;
    assert_ok(manifest_read(aid_path(store, "manifest.json"), &m, &e), e);
    assert_ok(file_read_all(aid_path(store, "checksums.bin"), 1 << 20, &b, &e), e);
    assert_ok(sums_parse(&b, &m, "it", &p, &sum, &e), e);
    mem_free(sum);
    for (size_t n = 0; n < b.len; n++) { /* every way to be short */
        err_clear(&e);
        assert_int_equal(sums_parse(&(struct buf){b.data, n, n, false}, &m, "it", &p, &sum, &e),
                         -E_FORMAT);
    }
    static const uint64_t rows[] = {0, 100, UINT64_C(1) << 60}; /* of a block, of 640 */
    for (int i = 0; i < 3; i++) {
        memcpy(b.data + 24, &rows[i], sizeof rows[i]);
        err_clear(&e);
        assert_int_equal(sums_parse(&b, &m, "it", &p, &sum, &e), -E_FORMAT);
    }
    buf_free(&b);
    manifest_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),       cmocka_unit_test(test_texts_of_the_store),
        cmocka_unit_test(test_noted_texts), cmocka_unit_test(test_accept),
        cmocka_unit_test(test_flips),       cmocka_unit_test(test_edges),
        cmocka_unit_test(test_texts),       cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_no_sums),     cmocka_unit_test(test_command),
        cmocka_unit_test(test_parse_sums),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
