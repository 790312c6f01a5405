/* Opening a model to run: defaults of generation_config.json, end tokens, what may be missing
 * and what may not, and memory that runs out anywhere on the way. */
#include "tests/aid_demo.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "runner/dump.h"
#include "runner/engines.h"
#include "runner/generate.h"

static struct model *open_ok(const char *path)
{
    struct err e = {0};
    struct model *m = NULL;
    assert_ok(model_open(path, &MODEL_OPTIONS, &m, &e), e);
    return m;
}

static void open_fails(const char *path, const struct model_options *o, int code, const char *words)
{
    struct err e = {0};
    struct model *m = NULL;
    int rc = model_open(path, o, &m, &e);
    if (rc == 0)
        model_close(m);
    if (rc != -code || !strstr(e.msg, words))
        fail_msg("code %d, want %d: %s; want %s", -rc, code, e.msg, words);
}

static void test_demo(void **state)
{
    (void)state;
    struct model *m = open_ok(aid_demo_folder); /* the folder above the store */
    assert_int_equal(m->ctx, 4096);
    assert_true(m->sample.temperature == 0.7 && m->sample.top_p == 0.8 && m->sample.min_p == 0);
    assert_int_equal(m->sample.top_k, 20);
    assert_true(m->sample.repetition == 1 && m->sample.presence == 0);
    assert_int_equal(m->n_stop_ids, 2);
    assert_true(model_is_stop(m, 4070) && model_is_stop(m, 4072) && !model_is_stop(m, 4071));
    assert_non_null(m->chat);
    assert_null(m->dump);
    model_close(m);
}

static void test_generation_config(void **state)
{
    (void)state;
    static const struct {
        const char *text; /* NULL: no file */
        struct sample_options want;
        int n_stop;
    } good[] = {
        {NULL, {.top_p = 1, .repetition = 1}, 2},
        {"{}", {.top_p = 1, .repetition = 1}, 2},
        {"{\"temperature\": 0.5, \"top_k\": 3, \"repetition_penalty\": 1.5}",
         {.top_p = 1, .repetition = 1.5},
         2},
        {"{\"do_sample\": false, \"temperature\": 0.5}", {.top_p = 1, .repetition = 1}, 2},
        {"{\"do_sample\": true, \"eos_token_id\": null}",
         {.temperature = 1, .top_p = 1, .repetition = 1},
         2},
        {"{\"do_sample\": true, \"temperature\": 0.5, \"top_k\": 3, \"top_p\": 0.25, \"min_p\": "
         "0.125, \"repetition_penalty\": 2, \"eos_token_id\": 7}",
         {.temperature = 0.5, .top_k = 3, .top_p = 0.25, .min_p = 0.125, .repetition = 2},
         3},
        {"{\"eos_token_id\": [7, 8, 7, 4070]}", {.top_p = 1, .repetition = 1}, 4},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char *dir = aid_demo_with(aid_demo_store, "generation_config.json", good[i].text);
        struct model *m = open_ok(dir);
        assert_memory_equal(&m->sample, &good[i].want, sizeof m->sample);
        assert_int_equal(m->n_stop_ids, good[i].n_stop);
        model_close(m);
        aid_rmdir(dir);
    }
    static const char *const bad[][2] = {
        {"[]", "want an object"},
        {"{", "not valid JSON"},
        {"{\"do_sample\": 1}", "do_sample: want true or false"},
        {"{\"temperature\": -1}", "temperature: want a number from 0 to 100"},
        {"{\"top_p\": 1.5}", "top_p: want a number from 0 to 1"},
        {"{\"min_p\": \"x\"}", "min_p: want a number"},
        {"{\"top_k\": -3}", "top_k: want an integer"},
        {"{\"repetition_penalty\": 0}", "repetition_penalty: want a number"},
        {"{\"eos_token_id\": \"x\"}", "eos_token_id: want a token id or a list of them"},
        {"{\"eos_token_id\": [1, {}]}", "eos_token_id: want a token id or a list of them"},
        {"{\"eos_token_id\": 4096}", "4096 is not one of the model's 4096"},
        {"{\"eos_token_id\": [-1]}", "-1 is not one of the model's 4096"},
        {"{\"eos_token_id\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", "more than 16"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *dir = aid_demo_with(aid_demo_store, "generation_config.json", bad[i][0]);
        open_fails(dir, &MODEL_OPTIONS, i == 12 ? E_LIMIT : E_FORMAT, bad[i][1]);
        aid_rmdir(dir);
    }
}

static void test_missing_files(void **state)
{
    (void)state;
    static const char *const needed[] = {"manifest.json", "dense.bin",   "experts.bin",
                                         "ngram.bin",     "config.json", "tokenizer.json"};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        char *dir = aid_demo_with(aid_demo_store, needed[i], NULL);
        open_fails(dir, &MODEL_OPTIONS, E_NOTFOUND, i ? needed[i] : dir);
        aid_rmdir(dir);
    }
    struct model_options o = MODEL_OPTIONS;
    struct err e = {0};
    struct model *m;
    char *dir = aid_demo_with(aid_demo_store, "tokenizer.json", NULL);
    o.without_text = true; /* needs no tokenizer */
    assert_ok(model_open(dir, &o, &m, &e), e);
    assert_null(m->tokenizer);
    model_close(m);
    aid_rmdir(dir);

    dir = aid_demo_with(aid_demo_store, "chat_template.jinja", NULL);
    m = open_ok(dir); /* a base model */
    assert_null(m->chat);
    model_close(m);
    aid_rmdir(dir);

    dir = aid_demo_with(aid_demo_store, "chat_template.jinja", "{% if %}");
    open_fails(dir, &MODEL_OPTIONS, E_FORMAT, "chat_template.jinja");
    aid_rmdir(dir);
    open_fails("/no/such/store", &MODEL_OPTIONS, E_NOTFOUND, "/no/such/store");
    open_fails(GOLDENS "micro/bf16", &MODEL_OPTIONS, E_NOTFOUND, "cherenkov pack");
}

static void test_another_version(void **state)
{
    (void)state;
    json_error_t je;
    char *path = file_join(aid_demo_store, "manifest.json");
    json_t *manifest = json_load_file(path, 0, &je);
    assert_non_null(manifest);
    json_object_set_new(manifest, "version", json_integer(2));
    char *text = json_dumps(manifest, 0);
    char *dir = aid_demo_with(aid_demo_store, "manifest.json", text);
    open_fails(dir, &MODEL_OPTIONS, E_UNSUPPORTED, "version");
    aid_rmdir(dir);
    mem_free(text);
    mem_free(path);
    json_decref(manifest);
}

static void test_options(void **state)
{
    (void)state;
    const struct engine_ops *ops = NULL, *best = NULL;
    struct err e = {0};
    struct model_options o = MODEL_OPTIONS;
    o.engine = "quantum";
    open_fails(aid_demo_store, &o, E_ARG, "there is: auto, reference, cpu, gpu");
    o = MODEL_OPTIONS;
    o.ctx = 4097;
    open_fails(aid_demo_store, &o, E_LIMIT, "a context of 4097 tokens is asked for");
    o.ctx = -1;
    open_fails(aid_demo_store, &o, E_ARG, "-1 tokens");
    assert_ok(engines_find("reference", &ops, &e), e);
    assert_string_equal(ops->name, "reference");
    assert_ptr_equal(engines_at(0), ops);
    assert_ok(engines_find("auto", &best, &e), e);
    assert_true(best == engines_at(1) || best == engines_at(2)); /* by what the machine has */
    ops = NULL;
    assert_ok(engines_find(NULL, &ops, &e), e);
    assert_ptr_equal(best, ops);
    assert_string_equal(engines_at(1)->name, "cpu");
    assert_string_equal(engines_at(2)->name, "gpu");
    assert_ptr_equal(engines_instead(engines_at(2)), engines_at(1));
    assert_null(engines_instead(engines_at(1)));
    assert_null(engines_at(3));
    assert_null(engines_at(-1));
}

/* Memory that runs out at any allocation is an error that says so, and nothing is left behind. */
static void test_memory(void **state)
{
    (void)state;
    struct model *m = NULL;
    long n = 1;
    for (;; n += 1 + n / 20) {
        struct err e = {0};
        mem_fail_at(n);
        int rc = model_open(aid_demo_store, &MODEL_OPTIONS, &m, &e);
        mem_fail_at(0);
        if (!rc)
            break;
        if (rc != -E_NOMEM)
            fail_msg("allocation %ld: code %d: %s", n, -rc, e.msg);
    }
    printf("note: allocation %ld was the first not to be missed\n", n);
    model_close(m);
}

/* Streamed text equals the whole, also when tokens break characters. */
static void test_text_is_whole(void **state)
{
    (void)state;
    struct err e = {0};
    struct model *m = open_ok(aid_demo_store);
    struct sequence *seq;
    struct tokens prompt = {0};
    struct generate_result r;
    struct buf whole = BUF_INIT, streamed = BUF_INIT;
    struct generation *g;
    const char *text;
    size_t len;
    /* A flat distribution draws all kinds of tokens, parts of characters among them. */
    const struct generate_options o = {
        .sample = {.temperature = 100, .top_p = 1, .repetition = 1, .seed = 3},
        .max_tokens = 200,
        .ignore_stop_ids = true};
    assert_ok(m->engine->ops->sequence_open(m->engine, m->ctx, &seq, &e), e);
    assert_ok(tokenizer_encode(m->tokenizer, "Once", 4, false, &prompt, &e), e);
    assert_ok(generation_open(m, seq, &prompt, &o, &g, &e), e);
    do {
        assert_ok(generation_next(g, &text, &len, &e), e);
        buf_add(&streamed, text, len);
    } while (text);
    assert_ok(generation_result(g, &r, &e), e);
    assert_ok(tokenizer_decode(m->tokenizer, r.ids.ids, r.ids.n, false, &whole, &e), e);
    assert_int_equal(r.ids.n, 200);
    assert_string_equal(buf_str(&streamed), buf_str(&whole));
    tokens_free(&r.ids);
    tokens_free(&prompt);
    generation_close(g);
    m->engine->ops->sequence_close(seq);
    model_close(m);
    buf_free(&whole);
    buf_free(&streamed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_demo),          cmocka_unit_test(test_generation_config),
        cmocka_unit_test(test_missing_files), cmocka_unit_test(test_another_version),
        cmocka_unit_test(test_options),       cmocka_unit_test(test_memory),
        cmocka_unit_test(test_text_is_whole),
    };
    return cmocka_run_group_tests(tests, aid_demo_open, aid_demo_close);
}
