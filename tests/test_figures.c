/* Figures as text: what a server says is what is shown; what it does not say is a dash. */
#include "tests/aid_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/figures.h"

static json_t *parse(const char *text)
{
    char *copy = mem_strdup(text);
    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *v = json_loads(copy, 0, NULL);
    assert_non_null(v);
    mem_free(copy);
    return v;
}

static const char stats[] =
    "{'state': 'ok', 'pid': 7, 'version': '0.1.0', 'address': 'http://127.0.0.1:8080',"
    " 'model': 'tales', 'engine': 'cpu', 'context_tokens': 8192, 'uptime_seconds': 3725,"
    " 'window_seconds': 5.0, 'rates': {'decode_tokens_per_second': 39.13,"
    " 'prefill_tokens_per_second': 1234.5, 'hit_rate': 0.957, 'read_bytes_per_second': 173e6,"
    " 'wait_fraction': 0.125},"
    " 'requests': {'running': 1, 'queued': 2, 'sequences': 4, 'submitted': 9, 'refused': 3,"
    "              'done': 5, 'cancelled': 1, 'failed': 0},"
    " 'tokens': {'prompt': 12345, 'cached': 20, 'generated': 500, 'drafted': 60, 'accepted': 30},"
    " 'memory': {'rss_bytes': 1200000000, 'rss_peak_bytes': 1300000000, 'budget_bytes': 8000000000,"
    "            'pool_bytes': 3200000000, 'pool_slots': 1152, 'dense_bytes': 5030000,"
    "            'sequence_bytes': 24000000, 'prefix_bytes': 1000, 'prefix_entries': 2,"
    "            'saved_bytes': 0, 'saved_entries': 0},"
    " 'experts': {'selected': 1000, 'hits': 900, 'misses': 100, 'hit_rate': 0.9, 'predicted': 50,"
    "             'prefetched': 20, 'prefetch_used': 12, 'prefetch_late': 3, 'prefetch_wasted': 5,"
    "             'cut': 0},"
    " 'reads': {'demand': {'records': 80, 'bytes': 2600000, 'wait_seconds': 1.25},"
    "           'lookahead': {'records': 20, 'bytes': 650000, 'wait_seconds': 0}},"
    " 'layers': [{'layer': 0, 'hit_rate': 0.5, 'hit_rate_now': null, 'selected': 8, 'hits': 4,"
    "             'misses': 4, 'reads': 5, 'read_bytes': 163840},"
    "            {'layer': 1, 'hit_rate': 1.0, 'hit_rate_now': 1.0, 'selected': 10, 'hits': 10,"
    "             'misses': 0, 'reads': 0, 'read_bytes': 0}]}";

static const char one_screen[] =
    "server    tales at http://127.0.0.1:8080, process 7, version 0.1.0\n"
    "state     ok, up 1 h 2 min; engine cpu, context 8,192 tokens\n"
    "requests  1 running of 4 at once, 2 waiting; 5 done, 1 cancelled, 0 failed, 3 refused\n"
    "tokens/s  decode 39.1, prefill 1234 (last 5.0 s); 500 generated, 12,345 of prompts, 20 "
    "reused\n"
    "experts   cached 95.7 % now, 90.0 % since the start; read 173 MB/s, waited for 12.5 % of the "
    "time\n"
    "memory    1.20 GB resident, 1.30 GB at most; budget 8.00 GB\n"
    "pool      3.20 GB for 1,152 experts; dense weights 5.03 MB, sequences 24.0 MB\n"
    "kept      2 states in memory, 1.00 kB; 0 on disk, 0 bytes\n";

static void test_one_screen(void **state)
{
    struct buf out = BUF_INIT;
    json_t *v = parse(stats);
    (void)state;
    figures_status(v, &out);
    assert_string_equal(buf_str(&out), one_screen);
    json_decref(v);
    buf_free(&out);
}

static void test_summary(void **state)
{
    struct buf out = BUF_INIT;
    json_t *v = parse(stats);
    (void)state;
    figures_summary(v, &out);
    assert_memory_equal(buf_str(&out), one_screen, strlen(one_screen));
    assert_string_equal(buf_str(&out) + strlen(one_screen),
                        "\nused      1,000 times, asked for: 900 there, 100 not; 0 cut\n"
                        "lookahead 50 predicted, 20 read: 12 in time, 3 late, 5 for nothing\n"
                        "drafts    60 of requests that ended, 50.0 % right\n"
                        "\nreads           records        bytes       waited\n"
                        "demand               80      2.60 MB       1.25 s\n"
                        "lookahead            20       650 kB       0.00 s\n");
    json_decref(v);
    buf_free(&out);
}

static void test_layers(void **state)
{
    struct buf out = BUF_INIT;
    json_t *v = parse(stats);
    (void)state;
    figures_layers(v, 0, 1, &out);
    assert_string_equal(
        buf_str(&out),
        "layer    cached       now         used         hits       misses      reads       read\n"
        "    0    50.0 %         -            8            4            4          5     164 kB\n"
        "(1 more: --offset 1)\n");
    buf_clear(&out);
    figures_layers(v, 2, 9, &out);
    assert_non_null(strstr(buf_str(&out), "\n(there are 2)\n"));
    json_decref(v);
    buf_free(&out);
}

static void test_experts_the_most_used_first(void **state)
{
    struct buf out = BUF_INIT;
    (void)state;
    json_t *v = parse("{'layer': 3, 'experts': [{'expert': 0, 'selected': 5, 'hits': 3,"
                      " 'misses': 1, 'reads': 1, 'read_bytes': 100}, {'expert': 1, 'selected': 9},"
                      " {'expert': 2, 'selected': 5}]}");
    figures_experts(v, 0, 64, &out);
    const char *text = buf_str(&out), *first = strstr(text, "\n     1 "),
               *second = strstr(text, "\n     0 "), *third = strstr(text, "\n     2 ");
    assert_true(first && second && third && first < second && second < third);
    assert_non_null(strstr(text, "layer 3\n"));
    assert_non_null(strstr(text, "75.0 %"));
    json_decref(v);
    buf_free(&out);
}

static void test_what_is_not_known(void **state)
{
    char room[FIGURE_ROOM];
    struct buf out = BUF_INIT;
    (void)state;
    json_t *v = parse("{'rates': {'hit_rate': null}, 'reads': 3, 'layers': {}}");
    assert_true(isnan(figure_real(v, "rates.hit_rate")) && isnan(figure_real(v, "a.b.c")));
    assert_int_equal(figure_count(v, "reads.x"), 0);
    assert_string_equal(figure_word(v, "model"), "-");
    assert_string_equal(figure_percent(room, NAN), "-");
    assert_string_equal(figure_bytes(room, -1), "-");
    assert_string_equal(figure_number(room, 999.96), "1000");
    figures_summary(v, &out);
    figures_layers(v, 0, 64, &out);
    figures_experts(v, 0, 64, &out);
    assert_non_null(strstr(buf_str(&out), "server    - at -"));
    json_decref(v);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_screen),
        cmocka_unit_test(test_summary),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_experts_the_most_used_first),
        cmocka_unit_test(test_what_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
