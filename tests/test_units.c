/* Numbers for people: the edges of each unit. */
#include "tests/aid_test.h"

#include "base/units.h"

static void test_count(void **state)
{
    (void)state;
    char room[UNITS_ROOM];
    assert_string_equal(units_count(room, 0), "0");
    assert_string_equal(units_count(room, 999), "999");
    assert_string_equal(units_count(room, 1000), "1,000");
    assert_string_equal(units_count(room, 69466062848u), "69,466,062,848");
    assert_string_equal(units_count(room, UINT64_MAX), "18,446,744,073,709,551,615");
}

static void test_bytes(void **state)
{
    (void)state;
    char room[UNITS_ROOM];
    assert_string_equal(units_bytes(room, 999), "999 bytes");
    assert_string_equal(units_bytes(room, 1000), "1.00 kB");
    assert_string_equal(units_bytes(room, 9994), "9.99 kB");
    assert_string_equal(units_bytes(room, 9996), "10.0 kB");
    assert_string_equal(units_bytes(room, 999499), "999 kB");
    assert_string_equal(units_bytes(room, 999500), "1.00 MB");
    assert_string_equal(units_bytes(room, 2930271040u), "2.93 GB");
    assert_string_equal(units_bytes(room, UINT64_MAX), "18447 PB");
}

static void test_seconds(void **state)
{
    (void)state;
    char room[UNITS_ROOM];
    assert_string_equal(units_seconds(room, 0), "0.0 s");
    assert_string_equal(units_seconds(room, 59.9), "59.9 s");
    assert_string_equal(units_seconds(room, 59.96), "1 min 0 s");
    assert_string_equal(units_seconds(room, 88), "1 min 28 s");
    assert_string_equal(units_seconds(room, 3599.7), "1 h 0 min");
    assert_string_equal(units_seconds(room, 7500), "2 h 5 min");
}

static void test_real(void **state)
{
    (void)state;
    char room[UNITS_ROOM];
    assert_string_equal(units_real(room, 0), "0");
    assert_string_equal(units_real(room, -7), "-7");
    assert_string_equal(units_real(room, 0.1), "0.1");
    assert_string_equal(units_real(room, 0.1 + 0.2), "0.30000000000000004");
    assert_string_equal(units_real(room, 1e20), "1e+20");
    assert_string_equal(units_real(room, -1.7976931348623157e308), "-1.7976931348623157e+308");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_count), cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_seconds), cmocka_unit_test(test_real)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
