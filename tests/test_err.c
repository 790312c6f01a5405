/* err, buf and log: first failure wins, messages stay one plain line, appends that cannot be. */
#include "tests/aid_test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void test_first_failure_is_kept(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(ERR(&e, E_FORMAT, "first %d", 1), -E_FORMAT);
    assert_int_equal(ERR(&e, E_IO, "second"), -E_FORMAT);
    errno = ENOENT;
    assert_int_equal(err_sys(&e, "third"), -E_FORMAT);
    assert_int_equal(e.code, E_FORMAT);
    assert_string_equal(e.msg, "first 1");
    assert_int_equal(err_prefix(&e, "pack %s", "x"), -E_FORMAT);
    assert_string_equal(e.msg, "pack x: first 1");
    err_clear(&e);
    assert_int_equal(err_prefix(&e, "nothing to prefix"), 0);
    assert_string_equal(e.msg, "");
}

static void test_system_codes(void **state)
{
    (void)state;
    static const struct {
        int no, code;
    } cases[] = {{ENOSPC, E_SPACE}, {EDQUOT, E_SPACE}, {ENOENT, E_NOTFOUND},
                 {ENOMEM, E_NOMEM}, {EACCES, E_IO},    {EIO, E_IO}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        errno = cases[i].no;
        assert_int_equal(err_sys(&e, "f"), -cases[i].code);
        assert_int_equal(strncmp(e.msg, "f: ", 3), 0);
        assert_non_null(strstr(e.msg, strerror(cases[i].no)));
    }
}

static void test_exit_statuses(void **state)
{
    (void)state;
    static const struct {
        int code, status;
    } cases[] = {{E_OK, 0},       {E_ARG, 2},    {E_FORMAT, 3},        {E_UNSUPPORTED, 3},
                 {E_NOTFOUND, 3}, {E_DIFFER, 4}, {E_INTERRUPTED, 130}, {E_IO, 1},
                 {E_NOMEM, 1},    {E_LIMIT, 1},  {E_SPACE, 1},         {E_NONFINITE, 1},
                 {E_BUSY, 1},     {E_EXISTS, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(err_exit_status(cases[i].code), cases[i].status);
        assert_int_equal(err_exit_status(-cases[i].code), cases[i].status);
    }
}

/* A tensor may be called "\x1b[2J\n": its name in a message must not clear the screen. */
static void test_message_is_one_plain_line(void **state)
{
    (void)state;
    struct err e = {0};
    ERR(&e, E_FORMAT, "tensor %s", "a\x1b[2J\nb\x7f");
    assert_string_equal(e.msg, "tensor a?[2J?b?");
    err_prefix(&e, "file %s", "c\td");
    assert_string_equal(e.msg, "file c?d: tensor a?[2J?b?");
}

static void test_long_messages_are_cut(void **state)
{
    (void)state;
    struct err e = {0};
    char big[3000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    ERR(&e, E_ARG, "%s", big);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
    err_prefix(&e, "%s", big);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
    err_clear(&e);
    errno = EIO;
    err_sys(&e, "%s", big);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
}

static void test_buf_grows(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf b = BUF_INIT;
    assert_string_equal(buf_str(&b), "");
    for (int i = 0; i < 1000; i++) {
        buf_puts(&b, "ab");
        buf_putc(&b, 'c');
        buf_printf(&b, "%d,", i % 10);
        buf_add(&b, "", 0);
    }
    assert_ok(buf_check(&b, &e), e);
    assert_int_equal(b.len, 5000);
    assert_int_equal(strlen(buf_str(&b)), 5000);
    assert_memory_equal(b.data, "abc0,abc1,", 10);
    assert_memory_equal(b.data + 4995, "abc9,", 6);
    char *to = buf_reserve(&b, 3);
    memcpy(to, "xyz", 3);
    b.len += 3;
    buf_putc(&b, '!');
    assert_string_equal(b.data + 5000, "xyz!");
    buf_clear(&b);
    assert_string_equal(buf_str(&b), "");
    buf_free(&b);
}

/* A failure in the middle: what was there stays readable, nothing is appended behind the hole. */
static void test_buf_failure_sticks(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf b = BUF_INIT;
    buf_puts(&b, "kept");
    mem_fail_at(1);
    for (int i = 0; i < 100; i++)
        buf_puts(&b, "lost");
    mem_fail_at(0);
    size_t len = b.len;
    buf_puts(&b, "behind the hole");
    assert_int_equal(b.len, len);
    assert_memory_equal(b.data, "keptlost", 8);
    assert_int_equal(buf_check(&b, &e), -E_NOMEM);
    assert_null(buf_reserve(&b, 1));
    buf_clear(&b);
    assert_null(buf_reserve(&b, SIZE_MAX)); /* an overflow is a failure too */
    assert_true(b.failed);
    buf_clear(&b);
    buf_puts(&b, "again");
    assert_string_equal(buf_str(&b), "again");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_failure_is_kept),
        cmocka_unit_test(test_system_codes),
        cmocka_unit_test(test_exit_statuses),
        cmocka_unit_test(test_message_is_one_plain_line),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_buf_grows),
        cmocka_unit_test(test_buf_failure_sticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
