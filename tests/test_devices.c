/* cherenkov devices: what is printed with devices, without any, and with one asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "gpu/device.h"
#include "tests/aid_test.h"

static const char *const as_text[] = {"cherenkov", "devices", NULL};
static const char *const as_json[] = {"cherenkov", "devices", "--json", NULL};

static json_t *run_json(void)
{
    struct err e = {0};
    struct aid_output o;
    json_t *j;
    aid_run(as_json, NULL, &o);
    assert_int_equal(o.status, 0);
    assert_ok(json_parse(buf_str(&o.out), o.out.len, "devices", &j, &e), e);
    aid_output_free(&o);
    return j;
}

static size_t count(const json_t *j)
{
    return json_array_size(json_object_get(j, "devices"));
}

static void the_list_is_that_of_the_library(void **state)
{
    (void)state;
    struct device_info all[DEVICES_MAX];
    struct err e = {0};
    int n;
    json_t *j = run_json();
    if (device_list(all, &n, &e))
        assert_string_equal(json_string_value(json_object_get(j, "reason")), e.msg);
    assert_int_equal(count(j), n);
    for (int i = 0; i < n; i++) {
        const json_t *d = json_array_get(json_object_get(j, "devices"), (size_t)i);
        assert_string_equal(json_string_value(json_object_get(d, "name")), all[i].name);
        assert_true(json_integer_value(json_object_get(d, "memory_bytes")) > 0);
        assert_true(i == 0 || all[i].kind <= all[i - 1].kind);
    }
    json_decref(j);
}

/* A person without a GPU must not end up on a software device unawares. */
static void software_is_used_only_when_named(void **state)
{
    (void)state;
    struct device_info got;
    struct err e = {0};
    if (device_pick("software", &got, &e)) {
        printf("note: no software device here: %s\n", e.msg);
        return;
    }
    assert_int_equal(got.kind, DEVICE_SOFTWARE);
    assert_true(device_pick(NULL, &got, &e) != 0 || got.kind != DEVICE_SOFTWARE);
    setenv("CHERENKOV_DEVICE", "software", 1);
    err_clear(&e);
    assert_ok(device_pick(NULL, &got, &e), e);
    struct aid_output o;
    aid_run(as_text, NULL, &o);
    const char *used = strstr(buf_str(&o.out), "the gpu engine uses this one");
    assert_non_null(used);
    assert_non_null(strstr(buf_str(&o.out), got.name));
    assert_null(strstr(buf_str(&o.out), "does not run"));
    aid_output_free(&o);
    setenv("CHERENKOV_DEVICE", "no such thing", 1);
    json_t *j = run_json();
    assert_non_null(strstr(json_string_value(json_object_get(j, "reason")), "'no such thing'"));
    assert_string_equal(json_string_value(json_object_get(j, "asked")), "no such thing");
    json_decref(j);
    unsetenv("CHERENKOV_DEVICE");
}

/* No driver at all: not a failure of the command. */
static void no_driver_is_a_reason(void **state)
{
    (void)state;
    setenv("VK_ICD_FILENAMES", "/nonexistent.json", 1);
    setenv("VK_DRIVER_FILES", "/nonexistent.json", 1);
    json_t *j = run_json();
    assert_int_equal(count(j), 0);
    const char *reason = json_string_value(json_object_get(j, "reason"));
    assert_non_null(reason);
    printf("note: without a driver: %s\n", reason);
    json_decref(j);
    struct aid_output o;
    aid_run(as_text, NULL, &o);
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(buf_str(&o.out), "does not run"));
    aid_output_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_is_that_of_the_library),
        cmocka_unit_test(software_is_used_only_when_named),
        cmocka_unit_test(no_driver_is_a_reason),
    };
    unsetenv("CHERENKOV_DEVICE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
