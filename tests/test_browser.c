/* Which pages may ask a server without keys. */
#include "server/browser.h"
#include "tests/aid_test.h"

static void test_origins(void **state)
{
    (void)state;
    assert_true(browser_may_ask(NULL, "127.0.0.1:8080", NULL));
    assert_true(browser_may_ask("http://127.0.0.1:8080", "127.0.0.1:8080", NULL));
    assert_true(browser_may_ask("http://LocalHost:8080", "localhost:8080", NULL));
    assert_false(browser_may_ask("http://127.0.0.1:3000", "127.0.0.1:8080", NULL));
    assert_false(browser_may_ask("http://evil.example", "127.0.0.1:8080", NULL));
    assert_false(browser_may_ask("null", "127.0.0.1:8080", NULL));
    assert_false(browser_may_ask("http://evil.example", NULL, NULL));
    assert_true(browser_may_ask("http://app.example", "127.0.0.1:8080", "*"));
    assert_true(browser_may_ask("http://app.example", "127.0.0.1:8080", "http://app.example"));
    assert_false(browser_may_ask("http://evil.example", "127.0.0.1:8080", "http://app.example"));
}

static void test_hosts(void **state)
{
    (void)state;
    static const char *const local[] = {"localhost", "localhost:8080", "LOCALHOST:1", "a.localhost",
                                        "mybox:80",  "127.0.0.1",      "10.0.0.7:80", "[::1]:8080"};
    static const char *const other[] = {"evil.example",  "evil.example:8080", "a.notlocalhost",
                                        "127.0.0.1.nip", "localhost.evil:1",  "",
                                        ":8080"};
    assert_true(browser_host_is_local(NULL));
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (!browser_host_is_local(local[i]))
            fail_msg("%s is local", local[i]);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (browser_host_is_local(other[i]))
            fail_msg("'%s' is not local", other[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_origins),
                                       cmocka_unit_test(test_hosts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
