/* Packing: what is refused, with what code and in which words. Each case is a golden with one thing
 * changed. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
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

/* One change to the micro golden, and the refusal it must give. */
struct refusal {
    const char *source;
    void (*change)(struct aid_edit *c);
    int code;
    const char *says[3];
};

static void drop_one(struct aid_edit *c)
{
    aid_edit_find(c, "mtp.fc_hidden.scales")->name[0] = '\0';
}

static void drop_experts(struct aid_edit *c)
{
    aid_edit_find(c, "model.language_model.layers.2.mlp.experts.down_proj")->name[0] = '\0';
}

static void drop_part(struct aid_edit *c)
{
    aid_edit_find(c, "model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_3"
                     ".weight")
        ->name[0] = '\0';
}

static void add_unknown(struct aid_edit *c)
{
    aid_edit_add(c, "model.language_model.layers.0.mlp.secret.weight", DTYPE_BF16,
                 (const uint64_t[]){3, 0});
}

static void add_layer(struct aid_edit *c)
{
    aid_edit_add(c, "model.language_model.layers.7.linear_attn.A_log", DTYPE_BF16,
                 (const uint64_t[]){8, 0});
}

static void make_8_bit(struct aid_edit *c)
{
    aid_edit_reshape(aid_edit_find(c, "language_model.lm_head.weight"), DTYPE_U32,
                     (const uint64_t[]){512, 32, 0});
}

static void make_fp8(struct aid_edit *c)
{
    aid_edit_reshape(aid_edit_find(c, "lm_head.weight"), DTYPE_F8_E4M3,
                     (const uint64_t[]){512, 128, 0});
}

static void add_fp8_expert(struct aid_edit *c)
{
    aid_edit_find(c, "model.language_model.layers.2.mlp.experts.down_proj")->name[0] = '\0';
    aid_edit_add(c, "model.language_model.layers.2.mlp.experts.0.down_proj.weight", DTYPE_F8_E4M3,
                 (const uint64_t[]){128, 64, 0});
}

static void add_bf16_expert(struct aid_edit *c)
{
    aid_edit_add(c, "model.language_model.layers.2.mlp.experts.15.gate_proj.weight", DTYPE_BF16,
                 (const uint64_t[]){64, 128, 0});
}

static void add_nvfp4(struct aid_edit *c)
{
    aid_edit_add(c, "model.language_model.layers.2.mlp.experts.0.up_proj.weight", DTYPE_U8,
                 (const uint64_t[]){64, 64, 0});
}

static void make_f16(struct aid_edit *c)
{
    aid_edit_find(c, "lm_head.weight")->dtype = DTYPE_F16;
}

static void quantise_router(struct aid_edit *c)
{
    aid_edit_reshape(aid_edit_find(c, "language_model.model.layers.0.mlp.gate.weight"), DTYPE_U32,
                     (const uint64_t[]){16, 16, 0});
}

static void wrong_shape(struct aid_edit *c)
{
    aid_edit_reshape(aid_edit_find(c, "model.language_model.embed_tokens.weight"), DTYPE_BF16,
                     (const uint64_t[]){511, 128, 0});
}

static void wrong_scales(struct aid_edit *c)
{
    aid_edit_reshape(aid_edit_find(c, "language_model.lm_head.biases"), DTYPE_BF16,
                     (const uint64_t[]){512, 1, 0});
}

static void wrong_norm(struct aid_edit *c)
{
    aid_edit_reshape(aid_edit_find(c, "mtp.pre_fc_norm_hidden.weight"), DTYPE_BF16,
                     (const uint64_t[]){128, 4, 0});
}

static void wrong_constant(struct aid_edit *c)
{
    aid_edit_find(c, "language_model.model.layers.1.ple.ple_embedding.layer_multipliers")
        ->data[8] ^= 2;
}

static void nan_weight(struct aid_edit *c)
{
    struct aid_edit_tensor *w =
        aid_edit_find(c, "model.language_model.layers.3.self_attn.q_proj.weight");
    ((uint16_t *)(void *)w->data)[4711] = 0x7FC1;
}

static void infinite_expert(struct aid_edit *c)
{
    struct aid_edit_tensor *w =
        aid_edit_find(c, "model.language_model.layers.0.mlp.experts.gate_up_proj");
    ((uint16_t *)(void *)w->data)[128 * 128 * 5 + 17] = 0xFF80;
}

static void nan_scale(struct aid_edit *c)
{
    struct aid_edit_tensor *w =
        aid_edit_find(c, "language_model.model.layers.2.mlp.switch_mlp.up_proj.scales");
    ((uint16_t *)(void *)w->data)[77] = 0xFFFF;
}

static void nan_norm(struct aid_edit *c)
{
    struct aid_edit_tensor *w =
        aid_edit_find(c, "language_model.model.layers.0.linear_attn.norm.weight");
    ((uint16_t *)(void *)w->data)[31] = 0x7F80;
}

static void nan_row(struct aid_edit *c)
{
    struct aid_edit_tensor *w = aid_edit_find(
        c, "language_model.model.layers.1.ple.ple_embedding.ngram_embedding.shard_2.biases");
    ((uint16_t *)(void *)w->data)[159] = 0x7F80;
}

static void huge_weights(struct aid_edit *c)
{
    struct aid_edit_tensor *w = aid_edit_find(c, "lm_head.weight");
    uint16_t *v = (uint16_t *)(void *)w->data;
    for (int i = 0; i < 64; i++)
        v[i] = i % 2 ? 0x7F7F : 0xFF7F; /* the range of the group is over the largest float */
}

static void two_names(struct aid_edit *c)
{
    aid_edit_add(c, "language_model.lm_head.weight", DTYPE_BF16, (const uint64_t[]){512, 128, 0});
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {MICRO, drop_one, E_NOTFOUND, {"missing", "mtp.fc_hidden.scales"}},
        {BF16, drop_experts, E_NOTFOUND, {"missing", "layers.2.mlp.switch_mlp.down_proj"}},
        {BF16, drop_part, E_NOTFOUND, {"missing", "shard_3"}},
        {BF16, add_unknown, E_UNSUPPORTED, {"mlp.secret.weight", "--skip-unknown"}},
        {BF16, add_layer, E_UNSUPPORTED, {"layers.7.linear_attn.A_log", "config.json"}},
        {MICRO, make_8_bit, E_UNSUPPORTED, {"lm_head.weight", "8 bits", "4-bit"}},
        {BF16, make_fp8, E_UNSUPPORTED, {"lm_head.weight", "FP8", "BF16 original"}},
        {BF16, add_fp8_expert, E_UNSUPPORTED, {"experts.0.down_proj", "FP8"}},
        {BF16, add_bf16_expert, E_UNSUPPORTED, {"experts.15.gate_proj", "stacked by layer"}},
        {BF16, add_nvfp4, E_UNSUPPORTED, {"experts.0.up_proj", "NVFP4"}},
        {BF16, make_f16, E_UNSUPPORTED, {"lm_head.weight", "F16", "only BF16"}},
        {MICRO, quantise_router, E_UNSUPPORTED, {"layers.0.mlp.gate.weight", "BF16"}},
        {BF16, wrong_shape, E_UNSUPPORTED, {"embed_tokens", "[511, 128]", "[512, 128]"}},
        {MICRO, wrong_scales, E_UNSUPPORTED, {"lm_head.biases", "[512, 1]"}},
        {BF16, wrong_norm, E_UNSUPPORTED, {"pre_fc_norm_hidden", "[128, 4]", "[512]"}},
        {MICRO, wrong_constant, E_FORMAT, {"layer_multipliers[1]", "wrong n-gram constants"}},
        {BF16, nan_weight, E_NONFINITE, {"layers.3.self_attn.q_proj.weight", "element 4711"}},
        {BF16, infinite_expert, E_NONFINITE, {"layers.0.mlp.experts.gate_up", "element 81937"}},
        {MICRO, nan_scale, E_NONFINITE, {"layers.2.mlp.switch_mlp.up_proj.scales", "element 77"}},
        {MICRO, nan_norm, E_NONFINITE, {"layers.0.linear_attn.norm.weight", "element 31"}},
        {MICRO, nan_row, E_NONFINITE, {"shard_2.biases", "element 159"}},
        {BF16, huge_weights, E_NONFINITE, {"lm_head.weight", "row 0"}},
        {BF16, two_names, E_FORMAT, {"two names", "lm_head.weight"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct refusal *r = &cases[i];
        struct aid_edit c;
        struct err e = {0};
        char name[24];
        snprintf(name, sizeof name, "refused%zu", i);
        const char *dir = aid_path(tmp, name), *out = aid_path(dir, "packed");
        aid_edit_read(r->source, &c);
        r->change(&c);
        aid_edit_write(&c, dir);
        aid_edit_free(&c);
        int rc = aid_pack(dir, out, NULL, NULL, &e);
        if (rc != -r->code)
            fail_msg("case %zu: code %d, want %d: %s", i, -rc, r->code, e.msg);
        for (int k = 0; k < 3 && r->says[k]; k++)
            if (!strstr(e.msg, r->says[k]))
                fail_msg("case %zu: want '%s' in: %s", i, r->says[k], e.msg);
        assert_false(aid_has(out, "manifest.json"));
        assert_false(aid_has(out, "manifest.json.tmp"));
    }
}

/* Formats of other programs, and folders with nothing in them. */
static void test_other_formats(void **state)
{
    (void)state;
    struct err e = {0};
    const char *dir = aid_path(tmp, "gguf"), *file = aid_path(dir, "model-Q4_0.gguf");
    assert_ok(file_make_dir(dir, &e), e);
    assert_int_equal(aid_pack(dir, NULL, NULL, NULL, &e), -E_NOTFOUND);
    assert_non_null(strstr(e.msg, "model.safetensors"));
    aid_write(file, "GGUF", 4);
    const char *const paths[] = {dir, file};
    for (int i = 0; i < 2; i++) {
        err_clear(&e);
        assert_int_equal(aid_pack(paths[i], NULL, NULL, NULL, &e), -E_UNSUPPORTED);
        assert_non_null(strstr(e.msg, "GGUF files are not packed"));
    }
}

/* "cannot make this directory: File exists" */
static void test_output_is_a_file(void **state)
{
    (void)state;
    struct err e = {0};
    const char *file = aid_path(tmp, "file");
    aid_write(file, "mine", 4);
    assert_int_equal(aid_pack(MICRO, file, NULL, NULL, &e), -E_ARG);
    assert_non_null(strstr(e.msg, "want a directory, found something else there"));
    err_clear(&e);
    assert_int_equal(aid_pack(MICRO, aid_path(file, "in"), NULL, NULL, &e), -E_IO);
}

/* Two programs packed different sources into one place at the same time: both said that they had
 * packed, and the store was a mixture. */
static void test_two_at_once(void **state)
{
    (void)state;
    struct err e = {0};
    struct file lock;
    const char *dir = aid_path(tmp, "shared");
    assert_ok(file_make_dir(dir, &e), e);
    assert_ok(file_lock_dir(dir, &lock, &e), e);
    assert_int_equal(aid_pack(MICRO, dir, NULL, NULL, &e), -E_IO);
    assert_non_null(strstr(e.msg, "another program is writing there"));
    assert_false(aid_has(dir, "dense.bin"));
    file_drop(&lock);
    aid_pack_ok(MICRO, dir, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_other_formats),
        cmocka_unit_test(test_output_is_a_file), cmocka_unit_test(test_two_at_once)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
