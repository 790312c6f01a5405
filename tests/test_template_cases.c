/* Chat templates against Jinja2: thirteen templates with the constructs of well-known models, and
 * some
 * eight hundred expressions and statements, each with what Jinja2 made of it
 * (tests/data/templates/make_cases.py). Where Jinja2 fails we must fail, with nothing rendered. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "text/template.h"

#define TEMPLATES DATA "templates/"

struct tally {
    int n, texts, wrong;
};

static json_t *read_cases(const char *path)
{
    struct err e = {0};
    json_t *v;
    assert_ok(json_read_file(path, 64 << 20, &v, &e), e);
    return v;
}

/* Compiles and renders; 0 or the failure. */
static int render(const char *source, size_t n, const json_t *vars, time_t now, struct buf *out)
{
    struct err e = {0};
    struct template *t;
    const struct template_limits limits = {.now = now};
    int rc = template_compile(source, n, "case", &t, &e);
    if (rc)
        return rc;
    rc = template_render(t, vars, &limits, out, &e);
    template_close(t);
    return rc;
}

static void compare(struct tally *sum, const char *name, int rc, const struct buf *out,
                    const json_t *want)
{
    const char *text = json_string_value(want);
    sum->n++;
    sum->texts += text != NULL;
    if (text ? !rc && strcmp(buf_str(out), text) == 0 : rc && out->len == 0)
        return;
    sum->wrong++;
    printf("%s: wants %s, found %s%s\n", name, text ? text : "an error", rc ? "an error" : "",
           rc ? "" : buf_str(out));
}

static void test_templates(void **state)
{
    (void)state;
    struct tally sum = {0};
    struct err e = {0};
    size_t i;
    json_t *all = read_cases(TEMPLATES "cases.json"), *one;
    time_t now = (time_t)json_integer_value(json_object_get(all, "now"));
    json_array_foreach(json_object_get(all, "cases"), i, one) {
        const char *file = json_string_value(json_object_get(one, "template"));
        const char *talk = json_string_value(json_object_get(one, "conversation"));
        const char *options = json_string_value(json_object_get(one, "options"));
        struct buf path = BUF_INIT, source = BUF_INIT, out = BUF_INIT;
        buf_printf(&path, TEMPLATES "%s", file);
        assert_ok(file_read_all(buf_str(&path), 1 << 20, &source, &e), e);
        json_t *vars = json_copy(json_object_get(json_object_get(all, "options"), options));
        json_object_set(vars, "messages",
                        json_object_get(json_object_get(all, "conversations"), talk));
        int rc = render(buf_str(&source), source.len, vars, now, &out);
        buf_printf(&path, ", %s, %s", talk, options);
        compare(&sum, buf_str(&path), rc, &out, json_object_get(one, "text"));
        json_decref(vars);
        buf_free(&path);
        buf_free(&source);
        buf_free(&out);
    }
    json_decref(all);
    printf("note: %d renderings of templates, %d of them texts\n", sum.n, sum.texts);
    assert_int_equal(sum.wrong, 0);
    assert_true(sum.texts > 600);
}

static void test_language(void **state)
{
    (void)state;
    struct tally sum = {0};
    size_t i;
    json_t *all = read_cases(TEMPLATES "language.json"), *one;
    json_array_foreach(json_object_get(all, "cases"), i, one) {
        struct buf out = BUF_INIT;
        const char *source = json_string_value(json_object_get(one, "template"));
        int rc = render(source, strlen(source), json_object_get(all, "vars"),
                        (time_t)json_integer_value(json_object_get(all, "now")), &out);
        compare(&sum, source, rc, &out, json_object_get(one, "text"));
        buf_free(&out);
    }
    json_decref(all);
    printf("note: %d snippets, %d of them texts\n", sum.n, sum.texts);
    assert_int_equal(sum.wrong, 0);
    assert_true(sum.texts > 700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_templates),
                                       cmocka_unit_test(test_language)};
    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
