/* Progress: what a line says, with and without room for a bar. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/units.h"
#include "pack/progress.h"

static void line(uint64_t done, double seconds, int width, const char *want)
{
    struct progress p;
    char room[256];
    progress_start(&p, "packing", 4000000000u);
    progress_silence(&p);
    progress_add(&p, done);
    progress_line(&p, seconds, width, room, sizeof room);
    assert_string_equal(room, want);
    progress_end(&p);
}

static void test_plain(void **state)
{
    (void)state;
    line(0, 0, 0, "packing:   0% 0 bytes of 4.00 GB, 0 bytes/s");
    line(1000000000, 2, 0, "packing:  25% 1.00 GB of 4.00 GB, 500 MB/s, 6.0 s left");
    line(4000000000u, 8, 0, "packing: 100% 4.00 GB of 4.00 GB, 500 MB/s");
    line(40000000, 200, 0, "packing:   1% 40.0 MB of 4.00 GB, 200 kB/s, 5 h 30 min left");
}

static void test_bar(void **state)
{
    (void)state;
    line(1000000000, 2, 80,
         "packing: [######................]  25% 1.00 GB of 4.00 GB, 500 MB/s, 6.0 s left");
    line(1000000000, 2, 60, "packing:  25% 1.00 GB of 4.00 GB, 500 MB/s, 6.0 s left");
}

/* A line never is wider than the terminal it is for. */
static void test_width(void **state)
{
    (void)state;
    struct progress p;
    char room[256];
    progress_start(&p, "packing", 104396487488u);
    progress_silence(&p);
    progress_add(&p, 33333333333u);
    for (int width = 70; width < 250; width++) {
        progress_line(&p, 33.3, width, room, sizeof room);
        assert_true(strlen(room) < (size_t)width);
    }
    progress_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain), cmocka_unit_test(test_bar),
                                       cmocka_unit_test(test_width)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
