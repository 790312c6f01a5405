/* Packing: what each published form becomes. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "quant/half.h"
#include "quant/q4.h"
#include "store/store.h"
#include "tests/aid_edit.h"
#include "tests/aid_pack.h"

#define MICRO GOLDENS "micro/mlx4"
#define BF16  GOLDENS "micro/bf16"

static char *tmp; /* of the group */

static int set_up(void **state)
{
    (void)state;
    tmp = aid_tmpdir();
    return tmp == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    aid_rmdir(tmp);
    return 0;
}

/* A store of unquantised weights is, byte for byte, the store of the 4-bit conversion of them. */
static void test_bf16_equals_mlx(void **state)
{
    (void)state;
    aid_pack_ok(BF16, aid_path(tmp, "bf16"), NULL);
    aid_pack_ok(MICRO, aid_path(tmp, "mlx4"), NULL);
    aid_same_store(aid_path(tmp, "bf16"), aid_path(tmp, "mlx4"));
    aid_same_file(BF16, aid_path(tmp, "bf16"), "config.json");
    aid_same_file(BF16, aid_path(tmp, "bf16"), "tokenizer.json");
    aid_same_file(BF16, aid_path(tmp, "bf16"), "chat_template.jinja");
}

/* Every golden that has weights, and the demo model. */
static void test_goldens(void **state)
{
    (void)state;
    static const char *const names[] = {"micro/mlx4",    "micro/bf16",     "wide/mlx4",
                                        "deep/mlx4",     "v-mtpall/mlx4",  "v-silu/mlx4",
                                        "v-nonorm/mlx4", "v-nople/mlx4",   "v-ple2/mlx4",
                                        "v-hc2/mlx4",    "v-head128/mlx4", "v-rope/mlx4"};
    int packed = 0;
    for (size_t i = 0; i <= sizeof names / sizeof names[0]; i++) {
        struct err e = {0};
        bool demo = i == sizeof names / sizeof names[0];
        const char *source = demo ? DEMO : aid_path(GOLDENS, names[i]);
        if (!demo && !aid_has(source, "model.safetensors") &&
            !aid_has(source, "model-00001-of-00002.safetensors"))
            continue;
        char name[16];
        snprintf(name, sizeof name, "golden%zu", i);
        aid_pack_ok(source, aid_path(tmp, name), NULL);
        assert_ok(aid_verify(aid_path(tmp, name), &e), e);
        packed++;
    }
    printf("note: %d checkpoints packed and verified\n", packed);
    assert_true(packed >= 11);
}

static const uint8_t *dense(const struct store *s, const char *name, uint64_t bytes)
{
    struct err e = {0};
    struct tensor_view v;
    assert_ok(store_find(s, name, &v, &e), e);
    assert_int_equal(v.nbytes, bytes);
    return v.data;
}

/* A tensor of experts: its slice for each expert is a part of that expert's record. */
static void check_experts(const struct store *s, const struct aid_edit_tensor *w, int il)
{
    const struct expert_layout *x = &s->manifest.experts;
    static const char *const matrices[] = {"gate_proj", "up_proj", "down_proj"};
    for (int k = 0; k < EXPERT_MATRICES; k++) {
        if (!strstr(w->name, matrices[k]))
            continue;
        uint64_t part = strstr(w->name, ".scales")   ? x->s[k]
                        : strstr(w->name, ".biases") ? x->b[k]
                                                     : x->w[k];
        uint64_t each = w->nbytes / w->shape[0];
        for (int ie = 0; ie < x->E; ie++)
            assert_memory_equal(store_record(s, il, ie) + part, w->data + (uint64_t)ie * each,
                                each);
    }
}

static void check_ngram(const struct store *s, const struct aid_edit_tensor *w)
{
    const struct ngram_layout *g = &s->manifest.ngram;
    uint64_t rows = w->shape[0], first = rows * strtoul(strstr(w->name, "shard_") + 6, NULL, 10);
    uint64_t each = w->nbytes / rows, at = 0;
    if (strstr(w->name, ".scales"))
        at = (uint64_t)g->weight_bytes;
    else if (strstr(w->name, ".biases"))
        at = (uint64_t)(g->weight_bytes + g->scale_bytes);
    for (uint64_t i = 0; i < rows; i++)
        assert_memory_equal(store_ngram_row(s, first + i) + at, w->data + i * each, each);
}

/* Each tensor of a 4-bit source is found in the store bit for bit, in its place. */
static void test_copied_bits(void **state)
{
    (void)state;
    struct err e = {0};
    struct aid_edit c;
    struct store *s;
    const char *dir = aid_path(tmp, "copied");
    size_t n[3] = {0};
    aid_edit_read(MICRO, &c);
    aid_pack_ok(MICRO, dir, NULL);
    assert_ok(store_open(dir, &s, &e), e);
    for (size_t i = 0; i < c.n; i++) {
        const struct aid_edit_tensor *w = &c.at[i];
        const char *layer = strstr(w->name, "layers.");
        if (strstr(w->name, ".switch_mlp.")) {
            bool mtp = strncmp(w->name, "mtp.", 4) == 0;
            check_experts(s, w, mtp ? s->config.n_layers : (int)strtol(layer + 7, NULL, 10));
            n[0]++;
        } else if (strstr(w->name, ".shard_")) {
            check_ngram(s, w);
            n[1]++;
        } else {
            assert_memory_equal(dense(s, w->name, w->nbytes), w->data, w->nbytes);
            n[2]++;
        }
    }
    assert_int_equal(n[0], 9 * 5);
    assert_int_equal(n[1], 3 * 4);
    assert_int_equal(n[2], 348 - 57);
    store_close(s);
    aid_edit_free(&c);
}

/* Runs tests/tool_source.c on the config of the micro golden. */
static const char *make_source(const char *name, const char *form)
{
    const char *build = getenv("CHERENKOV_BUILD"), *dir = aid_path(tmp, name);
    const char *const argv[] = {aid_path(build ? build : "build/release", "tool_source"),
                                MICRO "/config.json",
                                dir,
                                form,
                                "2",
                                NULL};
    struct aid_output o;
    aid_run(argv, NULL, &o);
    if (o.status)
        fail_msg("%s %s: %s", argv[0], form, buf_str(&o.err));
    aid_output_free(&o);
    return dir;
}

/* Names of text-only exports, and constants that are not stored, change nothing. */
static void test_other_names(void **state)
{
    (void)state;
    static const char *const forms[] = {"bf16", "bf16+text", "bf16+noconst"};
    static const char *const stores[] = {"names0", "names1", "names2"};
    for (int i = 0; i < 3; i++) {
        char name[24];
        snprintf(name, sizeof name, "source%d", i);
        aid_pack_ok(make_source(name, forms[i]), aid_path(tmp, stores[i]), NULL);
    }
    aid_same_store(aid_path(tmp, stores[0]), aid_path(tmp, stores[1]));
    aid_same_store(aid_path(tmp, stores[0]), aid_path(tmp, stores[2]));
}

/* mlx-vlm moves the taps of every convolution last but one: the bytes are the same. */
static void test_conv_layouts(void **state)
{
    (void)state;
    struct aid_edit c;
    int n = 0;
    aid_edit_read(MICRO, &c);
    for (size_t i = 0; i < c.n; i++) {
        struct aid_edit_tensor *w = &c.at[i];
        if (!strstr(w->name, "conv1d.weight"))
            continue;
        assert_int_equal(w->shape[1], 1);
        w->shape[1] = w->shape[2];
        w->shape[2] = 1;
        n++;
    }
    assert_int_equal(n, 4);
    aid_edit_write(&c, aid_path(tmp, "conv"));
    aid_pack_ok(aid_path(tmp, "conv"), aid_path(tmp, "conv-store"), NULL);
    aid_pack_ok(MICRO, aid_path(tmp, "conv-plain"), NULL);
    aid_same_file(aid_path(tmp, "conv-store"), aid_path(tmp, "conv-plain"), "dense.bin");
    aid_edit_free(&c);
}

static void test_no_drafts(void **state)
{
    (void)state;
    struct err e = {0};
    struct store *s;
    const char *dir = aid_path(tmp, "nomtp-store");
    aid_pack_ok(make_source("nomtp", "mlx+nomtp"), dir, NULL);
    assert_ok(aid_verify(dir, &e), e);
    assert_ok(store_open(dir, &s, &e), e);
    assert_int_equal(s->config.n_mtp, 0);
    assert_int_equal(s->manifest.experts.n_layers, 4);
    store_close(s);
}

/* Both norm conventions by flag, and the raw one twice gives what folding by hand gives. */
static void test_norms(void **state)
{
    (void)state;
    static const char name[] = "language_model.model.layers.0.attn_hyper_connection.hc_norm.weight";
    static const char draft[] = "mtp.pre_fc_norm_hidden.weight";
    const struct plan_choices raw = {.norms = PLAN_NORMS_RAW};
    struct err e = {0};
    struct aid_edit c;
    struct store *s;
    aid_edit_read(MICRO, &c);
    aid_pack_ok(MICRO, aid_path(tmp, "norms"), &raw);
    assert_ok(store_open(aid_path(tmp, "norms"), &s, &e), e);
    const struct aid_edit_tensor *w = aid_edit_find(&c, name);
    const uint16_t *from = (const uint16_t *)(void *)w->data;
    const uint16_t *to = (const uint16_t *)(const void *)dense(s, name, w->nbytes);
    for (uint64_t i = 0; i < w->nbytes / 2; i++)
        assert_int_equal(to[i], bf16_from_f32(1.0f + bf16_to_f32(from[i])));
    w = aid_edit_find(&c, draft);
    assert_memory_equal(dense(s, draft, w->nbytes), w->data, w->nbytes);
    store_close(s);
    aid_edit_free(&c);
}

/* One row of a matrix in groups of 32, by the definition: to values, to groups of 64. */
static void requantise(const struct aid_edit_tensor *w, const struct aid_edit_tensor *s,
                       const struct aid_edit_tensor *b, uint8_t *codes, uint16_t *scales)
{
    uint64_t cols = w->shape[w->n_dims - 1] * 8;
    float *x = mem_array(cols, sizeof *x);
    uint16_t biases[64];
    q4_decode_row(w->data, (const uint16_t *)(void *)s->data, (const uint16_t *)(void *)b->data,
                  cols, 32, x);
    for (uint64_t g = 0; g < cols / 64; g++)
        assert_int_equal(q4_encode_group(x + 64 * g, 64, codes + 32 * g, &scales[g], &biases[g]),
                         0);
    mem_free(x);
}

/* Groups of 32 are refused, and packed only when loss is asked for. */
static void test_groups_of_32(void **state)
{
    (void)state;
    static const char name[] = "language_model.model.layers.0.linear_attn.in_proj_qkv";
    static const char experts[] = "language_model.model.layers.2.mlp.switch_mlp.down_proj";
    const struct plan_choices lossy = {.requantise = true};
    const char *source = make_source("g32", "mlx32"), *dir = aid_path(tmp, "g32-store");
    struct err e = {0};
    struct aid_edit c;
    struct store *s;
    uint8_t codes[256];
    uint16_t scales[16];
    char part[3][96];
    assert_int_equal(aid_pack(source, dir, NULL, NULL, &e), -E_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "groups of 32"));
    assert_non_null(strstr(e.msg, "--requantise"));
    assert_false(file_exists(dir));
    err_clear(&e);
    aid_pack_ok(source, dir, &lossy);
    assert_ok(aid_verify(dir, &e), e);
    aid_edit_read(source, &c);
    assert_ok(store_open(dir, &s, &e), e);
    for (int i = 0; i < 2; i++) {
        const char *at = i ? experts : name;
        static const char *const parts[] = {".weight", ".scales", ".biases"};
        for (int k = 0; k < 3; k++)
            snprintf(part[k], sizeof part[k], "%s%s", at, parts[k]);
        const struct aid_edit_tensor *w = aid_edit_find(&c, part[0]);
        requantise(w, aid_edit_find(&c, part[1]), aid_edit_find(&c, part[2]), codes, scales);
        uint64_t bytes = w->shape[w->n_dims - 1] * 4;
        const uint8_t *record = store_record(s, 2, 0);
        const uint8_t *to =
            i ? record + s->manifest.experts.w[EXPERT_DOWN] : dense(s, part[0], w->nbytes);
        assert_memory_equal(to, codes, bytes);
        if (i)
            assert_memory_equal(record + s->manifest.experts.s[EXPERT_DOWN], scales, bytes / 16);
    }
    store_close(s);
    aid_edit_free(&c);
}

/* Vision is skipped and counted; unknown tensors only on request; the store is the same. */
static void test_skipped(void **state)
{
    (void)state;
    const struct plan_choices skip = {.skip_unknown = true};
    struct aid_edit c;
    struct err e = {0};
    struct plan *p;
    aid_edit_read(BF16, &c);
    aid_edit_add(&c, "model.visual.blocks.0.attn.qkv.weight", DTYPE_BF16,
                 (const uint64_t[]){96, 32, 0});
    aid_edit_add(&c, "model.visual.pos_embed.weight", DTYPE_F32, (const uint64_t[]){5, 0});
    aid_edit_add(&c, "model.language_model.layers.0.mlp.secret.weight", DTYPE_BF16,
                 (const uint64_t[]){3, 0});
    aid_edit_add(&c, "model.language_model.layers.7.linear_attn.A_log", DTYPE_BF16,
                 (const uint64_t[]){8, 0});
    aid_edit_write(&c, aid_path(tmp, "extra"));
    aid_edit_free(&c);
    assert_ok(plan_open(aid_path(tmp, "extra"), &skip, &p, &e), e);
    assert_int_equal(p->fate[FATE_VISION].tensors, 2);
    assert_int_equal(p->fate[FATE_VISION].bytes, 96 * 32 * 2 + 20);
    assert_int_equal(p->fate[FATE_UNKNOWN].tensors, 1);
    assert_int_equal(p->fate[FATE_UNUSED].tensors, 1);
    plan_close(p);
    aid_write(aid_path(tmp, "extra/LICENSE.txt"), "do as you like", 14);
    aid_write(aid_path(tmp, "extra/README.md"), "stays behind", 12);
    aid_pack_ok(aid_path(tmp, "extra"), aid_path(tmp, "extra-store"), &skip);
    assert_true(aid_has(aid_path(tmp, "extra-store"), "LICENSE.txt"));
    assert_false(aid_has(aid_path(tmp, "extra-store"), "README.md"));
    aid_pack_ok(BF16, aid_path(tmp, "extra-plain"), NULL);
    aid_same_store(aid_path(tmp, "extra-store"), aid_path(tmp, "extra-plain"));
}

static void test_output(void **state)
{
    (void)state;
    const char *dir = aid_path(tmp, "output");
    struct err e = {0};
    struct pack_report r;
    assert_ok(file_make_dir(dir, &e), e);
    aid_write(aid_path(dir, "tokenizer.json"), "mine", 4);
    aid_write(aid_path(dir, "dense.bin"), "leftover", 8);
    assert_ok(aid_pack(MICRO, dir, NULL, &r, &e), e);
    assert_false(r.reused);
    assert_int_equal(r.written_bytes, r.store_bytes);
    assert_ok(aid_verify(dir, &e), e);
    assert_false(aid_has(dir, "packing.journal"));
    struct buf text = BUF_INIT;
    assert_ok(file_read_all(aid_path(dir, "tokenizer.json"), 99, &text, &e), e);
    assert_string_equal(buf_str(&text), "mine"); /* what is there is never overwritten */
    buf_free(&text);
    assert_ok(aid_pack(MICRO, dir, NULL, &r, &e), e);
    assert_true(r.reused);
    assert_int_equal(aid_pack(BF16, dir, NULL, &r, &e), -E_ARG);
    assert_non_null(strstr(e.msg, "mlx4"));
    assert_non_null(strstr(e.msg, "--force"));
    err_clear(&e);
    assert_int_equal(r.n_restored, 0);
    aid_write(aid_path(dir, "manifest.json"), "{", 1);
    assert_int_equal(aid_pack(MICRO, dir, NULL, &r, &e), -E_FORMAT);
    assert_non_null(strstr(e.msg, "--force"));
}

/* A text that is gone was not restored by what makes the store anew. One that was edited stays. */
static void test_missing_texts_come_back(void **state)
{
    (void)state;
    const char *dir = aid_path(tmp, "texts");
    struct err e = {0};
    struct pack_report r;
    assert_ok(aid_pack(MICRO, dir, NULL, &r, &e), e);
    static const char *const gone[] = {"config.json", "tokenizer.json"};
    for (int i = 0; i < 2; i++)
        assert_ok(file_remove(aid_path(dir, gone[i]), &e), e);
    aid_write(aid_path(dir, "tokenizer_config.json"), "{}", 2);
    assert_ok(aid_pack(MICRO, dir, NULL, &r, &e), e);
    assert_true(r.reused);
    assert_int_equal(r.n_restored, 2);
    for (int i = 0; i < 2; i++)
        aid_same_file(dir, MICRO, gone[i]);
    struct buf text = BUF_INIT;
    assert_ok(file_read_all(aid_path(dir, "tokenizer_config.json"), 99, &text, &e), e);
    assert_string_equal(buf_str(&text), "{}");
    buf_free(&text);
    assert_ok(aid_pack(MICRO, dir, NULL, &r, &e), e);
    assert_int_equal(r.n_restored, 0);
}

/* Nor is another text taken for it, once the source has changed. */
static void test_missing_texts_that_the_source_has_not(void **state)
{
    (void)state;
    const char *source = aid_path(tmp, "texts-source"), *dir = aid_path(tmp, "texts-store");
    struct err e = {0};
    struct pack_report r;
    struct aid_edit c;
    aid_edit_read(MICRO, &c);
    aid_edit_write(&c, source);
    aid_edit_free(&c);
    aid_write(aid_path(source, "LICENSE.txt"), "do as you like", 14);
    assert_ok(aid_pack(source, dir, NULL, &r, &e), e);
    assert_ok(file_remove(aid_path(dir, "LICENSE.txt"), &e), e);
    aid_write(aid_path(source, "LICENSE.txt"), "{}", 2);
    assert_int_equal(aid_pack(source, dir, NULL, &r, &e), -E_NOTFOUND);
    assert_non_null(strstr(e.msg, "LICENSE.txt: is not there"));
    assert_non_null(strstr(e.msg, "--force packs it again"));
    assert_false(aid_has(dir, "LICENSE.txt"));
    err_clear(&e);
    assert_ok(file_remove(aid_path(source, "LICENSE.txt"), &e), e);
    assert_int_equal(aid_pack(source, dir, NULL, &r, &e), -E_NOTFOUND);
}

/* A config.json in the way that is of another model would make the store open as something else. */
static void test_other_config(void **state)
{
    (void)state;
    const char *dir = aid_path(tmp, "other");
    struct err e = {0};
    struct buf text = BUF_INIT;
    assert_ok(file_make_dir(dir, &e), e);
    assert_ok(file_read_all(GOLDENS "v-hc2/mlx4/config.json", 1 << 20, &text, &e), e);
    aid_write(aid_path(dir, "config.json"), text.data, text.len);
    buf_free(&text);
    assert_int_equal(aid_pack(MICRO, dir, NULL, NULL, &e), -E_FORMAT);
    assert_non_null(strstr(e.msg, "another model"));
    assert_false(aid_has(dir, "dense.bin"));
}

static void run_program(const char *const *argv, int status, const char *out, const char *err)
{
    struct aid_output o;
    aid_run(argv, NULL, &o);
    if (o.status != status || !strstr(buf_str(&o.out), out) || !strstr(buf_str(&o.err), err))
        fail_msg("%s %s: status %d, want %d; want '%s' and '%s'\n%s\n%s", argv[1], argv[2],
                 o.status, status, out, err, buf_str(&o.out), buf_str(&o.err));
    aid_output_free(&o);
}

static void test_command(void **state)
{
    (void)state;
    const char *dir = aid_path(tmp, "command");
    const char *const dry[] = {"cherenkov", "pack", MICRO, "--output", dir, "--dry-run", NULL};
    run_program(dry, 0, "experts.bin        1,310,720 bytes  5 layers of 16 records", "");
    assert_false(file_exists(dir));
    const char *const pack[] = {"cherenkov", "pack", MICRO, "--output", dir, NULL};
    run_program(pack, 0, "", "packed 2.48 MB");
    run_program(pack, 0, "", "nothing to do");
    const char *const force[] = {"cherenkov", "pack", MICRO, "--output", dir, "--force", NULL};
    struct store *s; /* what an engine that runs has mapped: it was written over */
    struct err e = {0};
    assert_ok(store_open(dir, &s, &e), e);
    struct stat was, is;
    assert_int_equal(stat(aid_path(dir, "experts.bin"), &was), 0);
    run_program(force, 0, "", "packed 2.48 MB");
    assert_int_equal(stat(aid_path(dir, "experts.bin"), &is), 0);
    assert_true(was.st_ino != is.st_ino);
    store_close(s);
    const char *const other[] = {"cherenkov", "pack", BF16, "--output", dir, NULL};
    run_program(other, 2, "", "choose another --output");
    const char *const norms[] = {"cherenkov", "pack", BF16, "--norms", "flat", NULL};
    run_program(norms, 2, "", "raw or folded");
    const char *const typo[] = {"cherenkov", "pack", BF16, "--outptu", dir, NULL};
    run_program(typo, 2, "", "did you mean --output");
    const char *const none[] = {"cherenkov", "pack", aid_path(tmp, "none"), NULL};
    run_program(none, 3, "", "none");
    const char *const inspect[] = {"cherenkov", "inspect", dir, NULL};
    run_program(inspect, 0, "checksums    yes", "");
    const char *const source[] = {"cherenkov", "inspect", BF16, NULL};
    run_program(source, 0, "norms        raw", "");
    const char *const json[] = {"cherenkov", "inspect", BF16, "--json", NULL};
    run_program(json, 0, "\"encoding\": \"BF16\"", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf16_equals_mlx),
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_copied_bits),
        cmocka_unit_test(test_other_names),
        cmocka_unit_test(test_conv_layouts),
        cmocka_unit_test(test_no_drafts),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_groups_of_32),
        cmocka_unit_test(test_skipped),
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_missing_texts_come_back),
        cmocka_unit_test(test_missing_texts_that_the_source_has_not),
        cmocka_unit_test(test_other_config),
        cmocka_unit_test(test_command),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
