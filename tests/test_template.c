/* Chat templates: the project's vectors and goldens, and cases whose answers Jinja2 gave
 * (tests/data/templates/make_cases.py). */
#include "tests/aid_test.h"

#include <jansson.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/chat.h"
#include "text/template.h"

static json_t *read_json(const char *path)
{
    struct err e = {0};
    json_t *v;
    assert_ok(json_read_file(path, 64 << 20, &v, &e), e);
    return v;
}

static struct template *compile_file(const char *path)
{
    struct err e = {0};
    struct buf text = BUF_INIT;
    struct template *t;
    assert_ok(file_read_all(path, 1 << 20, &text, &e), e);
    assert_ok(template_compile(buf_str(&text), text.len, path, &t, &e), e);
    buf_free(&text);
    return t;
}

/* Renders and compares with `text`, or with the error whose words end the message. */
static void check_case(const struct template *t, const json_t *vars, const json_t *want,
                       const char *name)
{
    struct err e = {0};
    struct buf out = BUF_INIT;
    const char *text = json_string_value(json_object_get(want, "text"));
    const char *error = json_string_value(json_object_get(want, "error"));
    int rc = template_render(t, vars, NULL, &out, &e);
    if (text) {
        if (rc)
            fail_msg("%s: %s", name, e.msg);
        assert_string_equal(buf_str(&out), text);
    } else {
        if (!rc)
            fail_msg("%s: rendered where an error is wanted: %s", name, buf_str(&out));
        assert_int_equal(out.len, 0);
        if (error && strlen(e.msg) >= strlen(error))
            assert_string_equal(e.msg + strlen(e.msg) - strlen(error), error);
    }
    buf_free(&out);
}

static void test_vectors(void **state)
{
    (void)state;
    struct template *t = compile_file(DATA "vectors/chat_template.jinja");
    json_t *all = read_json(DATA "vectors/template_extra_cases.json"), *one;
    size_t i;
    json_array_foreach(json_object_get(all, "cases"), i, one) {
        check_case(t, json_object_get(one, "context"), one,
                   json_string_value(json_object_get(one, "id")));
    }
    assert_int_equal(i, 21);
    json_decref(all);
    template_close(t);
}

/* The goldens' conversations through chat.c. */
static void check_goldens(const char *model, const char *cases)
{
    struct err e = {0};
    struct chat *c;
    json_t *all = read_json(cases), *one;
    size_t i;
    assert_ok(chat_open(model, &c, &e), e);
    json_array_foreach(json_object_get(all, "chat"), i, one) {
        struct buf out = BUF_INIT;
        json_t *options = json_object_get(one, "options");
        assert_ok(chat_render(c, json_object_get(one, "messages"), NULL, options, &out, &e), e);
        assert_string_equal(buf_str(&out), json_string_value(json_object_get(one, "text")));
        buf_free(&out);
    }
    assert_true(i > 0);
    json_array_foreach(json_object_get(all, "chat_errors"), i, one) {
        struct err want = {0};
        struct buf out = BUF_INIT;
        const char *words = json_string_value(json_object_get(one, "error"));
        assert_int_equal(chat_render(c, json_object_get(one, "messages"), NULL, NULL, &out, &want),
                         -E_FORMAT);
        assert_non_null(strstr(want.msg, words));
        buf_free(&out);
    }
    assert_true(i > 0);
    json_decref(all);
    chat_close(c);
}

static void test_goldens(void **state)
{
    (void)state;
    check_goldens(DEMO, GOLDENS "demo/tokenizer_cases.json");
    check_goldens(GOLDENS "micro/mlx4", GOLDENS "micro/tokenizer_cases.json");
}

/* Variables come from the tokenizer's configuration and the caller, whose word is the last; the
 * default one of several templates is taken; no tools are the same as an empty list of them. */
static void test_chat_variables(void **state)
{
    (void)state;
    static const char config[] =
        "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}, \"pad_token\": null,"
        " \"chat_template\": [{\"name\": \"rag\", \"template\": \"no\"}, {\"name\": \"default\","
        " \"template\": \"{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}"
        "{{ tools is defined }}{{ add_generation_prompt }}{{ messages|length }}{{ x }}\"}]}";
    struct err e = {0};
    struct chat *c;
    struct buf out = BUF_INIT;
    char *dir = aid_tmpdir(), *path = file_join(dir, "tokenizer_config.json");
    json_t *messages = json_loads("[{\"role\": \"user\", \"content\": \"x\"}]", 0, NULL);
    json_t *none = json_array(), *tools = json_loads("[{}]", 0, NULL);
    json_t *set =
        json_loads("{\"x\": 1, \"bos_token\": \"B\", \"add_generation_prompt\": false}", 0, NULL);
    aid_write(path, config, sizeof config - 1);
    assert_ok(chat_open(dir, &c, &e), e);
    assert_ok(chat_render(c, messages, none, NULL, &out, &e), e);
    assert_string_equal(buf_str(&out), "<s></s>FalseFalseTrue1");
    buf_clear(&out);
    assert_ok(chat_render(c, messages, tools, set, &out, &e), e);
    assert_string_equal(buf_str(&out), "B</s>FalseTrueFalse11");
    json_decref(messages);
    json_decref(none);
    json_decref(tools);
    json_decref(set);
    buf_free(&out);
    chat_close(c);
    mem_free(path);
    aid_rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors),
                                       cmocka_unit_test(test_goldens),
                                       cmocka_unit_test(test_chat_variables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
