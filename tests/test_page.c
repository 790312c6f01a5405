/* The web page over HTTP: every file with its type, rules for browsers, and a mark by which they
 * keep it; without a key, where everything else wants one. What the page does is tested by
 * tests/npm/page.mjs. */
#include "tests/aid_serve.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "server/page.h"
#include "tests/aid_demo.h"

static char *model;
static struct aid_server server;

static int setup(void **state)
{
    struct err e = {0};
    (void)state;
    model = aid_demo_pack();
    char *store = file_join(model, "packed"), *keys = file_join(model, "keys");
    assert_ok(file_replace(keys, "a key\n", 6, &e), e);
    aid_serve(&server, store, (const char *const[]){"--api-key-file", keys, NULL});
    mem_free(keys);
    mem_free(store);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    const int status = aid_serve_stop(&server);
    aid_rmdir(model);
    return status;
}

static void get(const char *method, const char *path, const char *headers, struct aid_answer *a)
{
    aid_http(server.url, method, path, headers, NULL, a);
    assert_false(a->cut);
}

static void expect_header(const struct aid_answer *a, const char *name, const char *want)
{
    char *found = aid_answer_header(a, name);
    assert_non_null(found);
    assert_string_equal(found, want);
    mem_free(found);
}

static const struct page_file *file_of(const char *name)
{
    const struct page_file *f = page_files;
    while (f->name && strcmp(f->name, name) != 0)
        f++;
    assert_non_null(f->name);
    return f;
}

/* A file that is sent as it is in src/server/page. */
static void expect_file(const char *path, const char *name, const char *type)
{
    struct aid_answer a;
    const struct page_file *f = file_of(name);
    get("GET", path, "", &a);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.body.len, f->bytes);
    assert_memory_equal(a.body.data, f->data, f->bytes);
    expect_header(&a, "Content-Type", type);
    expect_header(&a, "X-Content-Type-Options", "nosniff");
    aid_answer_free(&a);
}

static void test_types(void **state)
{
    (void)state;
    expect_file("/", "index.html", "text/html; charset=utf-8");
    expect_file("/page/page.css", "page.css", "text/css; charset=utf-8");
    expect_file("/page/main.js", "main.js", "text/javascript; charset=utf-8");
    expect_file("/page/icon.svg", "icon.svg", "image/svg+xml");
}

static void test_every_file_has_a_type(void **state)
{
    int n = 0;
    (void)state;
    for (const struct page_file *f = page_files; f->name; f++, n++) {
        struct buf path = BUF_INIT;
        struct aid_answer a;
        buf_printf(&path, "/page/%s", f->name);
        if (strcmp(f->name, "index.html") != 0) {
            get("GET", buf_str(&path), "", &a);
            assert_int_equal(a.status, 200);
            assert_null(strstr(buf_str(&a.head), "octet-stream"));
            aid_answer_free(&a);
        }
        buf_free(&path);
    }
    assert_in_range(n, 5, 100);
}

/* Nothing is loaded from elsewhere, nothing runs that stands in the document, no text becomes HTML,
 * and no other page may frame it. */
static void test_policy(void **state)
{
    static const char *const rules[] = {
        "default-src 'none';",     "script-src 'self';",
        "style-src 'self';",       "connect-src 'self';",
        "base-uri 'none';",        "form-action 'none';",
        "frame-ancestors 'none';", "require-trusted-types-for 'script'",
        "trusted-types 'none'"};
    struct aid_answer a;
    (void)state;
    get("GET", "/", "", &a);
    char *policy = aid_answer_header(&a, "Content-Security-Policy");
    assert_non_null(policy);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (!strstr(policy, rules[i]))
            fail_msg("the policy lacks %s: %s", rules[i], policy);
    assert_null(strstr(policy, "unsafe"));
    assert_null(strstr(policy, "http"));
    mem_free(policy);
    expect_header(&a, "Referrer-Policy", "no-referrer");
    aid_answer_free(&a);
}

static void test_what_a_browser_has_is_not_sent_again(void **state)
{
    static const char *const same[] = {"If-None-Match: %s\r\n", "If-None-Match: \"x\", W/%s\r\n",
                                       "If-None-Match: *\r\n"};
    struct aid_answer a;
    (void)state;
    get("GET", "/page/chat.js", "", &a);
    char *tag = aid_answer_header(&a, "ETag");
    assert_non_null(tag);
    expect_header(&a, "Cache-Control", "no-cache");
    aid_answer_free(&a);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        struct buf header = BUF_INIT;
        const char *at = strstr(same[i], "%s");
        const size_t n = at ? (size_t)(at - same[i]) : strlen(same[i]);
        buf_add(&header, same[i], n);
        buf_printf(&header, "%s%s", at ? tag : "", at ? at + 2 : "");
        get("GET", "/page/chat.js", buf_str(&header), &a);
        assert_int_equal(a.status, 304);
        assert_int_equal(a.body.len, 0);
        expect_header(&a, "ETag", tag);
        aid_answer_free(&a);
        buf_free(&header);
    }
    get("GET", "/page/chat.js", "If-None-Match: \"0123456789abcdef\"\r\n", &a);
    assert_int_equal(a.status, 200);
    aid_answer_free(&a);
    mem_free(tag);
}

/* The headers of GET, and then nothing: the body that they announce does not come. */
static void test_head(void **state)
{
    struct aid_answer a;
    char length[24];
    (void)state;
    aid_http(server.url, "HEAD", "/page/main.js", "Connection: close\r\n", NULL, &a);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.body.len, 0);
    assert_true(a.cut);
    snprintf(length, sizeof length, "%zu", file_of("main.js")->bytes);
    expect_header(&a, "Content-Length", length);
    expect_header(&a, "Content-Type", "text/javascript; charset=utf-8");
    aid_answer_free(&a);
}

static void test_other_paths(void **state)
{
    static const struct {
        const char *method, *path;
        int status;
    } cases[] = {
        {"GET", "/page/", 404},
        {"GET", "/page/other.js", 404},
        {"GET", "/page/index.html", 404},
        {"GET", "/index.html", 404},
        {"GET", "/page/a/main.js", 404},
        {"GET", "/page/..%2fmain.js", 404},
        {"POST", "/", 405},
        {"DELETE", "/page/main.js", 405},
        {"GET", "/v1/models", 401},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aid_answer a;
        get(cases[i].method, cases[i].path, "", &a);
        if (a.status != cases[i].status)
            fail_msg("%s %s: %d, want %d", cases[i].method, cases[i].path, a.status,
                     cases[i].status);
        expect_header(&a, "Content-Type", "application/json");
        aid_answer_free(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),  cmocka_unit_test(test_every_file_has_a_type),
        cmocka_unit_test(test_policy), cmocka_unit_test(test_what_a_browser_has_is_not_sent_again),
        cmocka_unit_test(test_head),   cmocka_unit_test(test_other_paths),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
