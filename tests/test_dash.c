/* The dashboard without a terminal: what keys do, and pages of any size, drawn from figures that a
 * server might give. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/dash.h"

static json_t *parse(const char *text)
{
    json_error_t why;
    char *copy = mem_strdup(text);
    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *v = json_loads(copy, 0, &why);
    if (!v)
        fail_msg("%s: %s", copy, why.text);
    mem_free(copy);
    return v;
}

/* An answer of /v1/stats, `s` seconds after the start. */
static json_t *stats_at(int s, int n_layers)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{'object': 'stats', 'state': 'ok', 'pid': 7, 'model': 'tales', 'engine': 'cpu',"
             " 'uptime_seconds': %d, 'window_seconds': 5,"
             " 'rates': {'decode_tokens_per_second': 39.1, 'prefill_tokens_per_second': 0,"
             "           'hit_rate': 0.957, 'read_bytes_per_second': 173e6, 'wait_fraction': 0.12},"
             " 'requests': {'running': 1, 'queued': 2, 'done': 3},"
             " 'tokens': {'generated': %d},"
             " 'memory': {'rss_bytes': 1200000000, 'pool_bytes': 3200000000,"
             "            'budget_bytes': 8000000000},"
             " 'experts': {'hits': %d, 'misses': %d, 'hit_rate': 0.9},"
             " 'reads': {'demand': {'bytes': %d, 'wait_seconds': %f}}}",
             s, s * 10, s * 9, s, s * 1000, s * 0.5);
    json_t *v = parse(text), *layers = json_array();
    for (int il = 0; il < n_layers; il++)
        json_array_append_new(layers, json_pack("{s:i, s:i, s:i, s:i, s:f, s:f, s:i}", "layer", il,
                                                "selected", 100 * il, "hits", 3 * il, "misses", il,
                                                "hit_rate", 0.75, "hit_rate_now", 0.1 * (il % 11),
                                                "read_bytes", 1000 * il));
    json_object_set_new(v, "layers", layers);
    return v;
}

static json_t *experts_of(int layer, int n)
{
    json_t *list = json_array();
    for (int ie = 0; ie < n; ie++)
        json_array_append_new(list, json_pack("{s:i, s:i, s:i, s:i}", "expert", ie, "selected",
                                              ie * 7 % n, "hits", ie, "read_bytes", ie));
    return json_pack("{s:i, s:o}", "layer", layer, "experts", list);
}

static json_t *requests(void)
{
    return parse("{'data': [{'id': 'story-1', 'state': 'decode', 'prompt_tokens': 6,"
                 " 'fed_tokens': 6, 'completion_tokens': 559, 'age_seconds': 19.5},"
                 " {'id': 'caf\xc3\xa9', 'state': 'queued'}]}");
}

static void fill(struct dash *d, int n_layers)
{
    *d = (struct dash){0};
    for (int s = 1; s <= 4; s++)
        dash_take(d, stats_at(s, n_layers), requests(), experts_of(0, 32));
}

/* The page, drawn; for canvas_close. */
static struct canvas page_of(const struct dash *d, int w, int h)
{
    struct canvas c;
    struct err e = {0};
    assert_ok(canvas_open(&c, w, h, &e), e);
    dash_draw(d, &c);
    for (int i = 0; i < w * h; i++)
        assert_true(c.cell[i] >= ' ' && c.cell[i] <= '~');
    return c;
}

static bool line_has(const struct canvas *c, int y, const char *text)
{
    char *line = canvas_line(c, y);
    const bool has = strstr(line, text) != NULL;
    mem_free(line);
    return has;
}

static void want(const struct dash *d, int w, int h, int y, const char *text)
{
    struct canvas c = page_of(d, w, h);
    if (!line_has(&c, y, text)) {
        for (int i = 0; i < h; i++) {
            char *line = canvas_line(&c, i);
            print_message("%3d |%s\n", i, line);
            mem_free(line);
        }
        fail_msg("%d x %d: line %d has no '%s'", w, h, y, text);
    }
    canvas_close(&c);
}

static void test_overview_at_every_size(void **state)
{
    struct dash d;
    (void)state;
    fill(&d, 12);
    want(&d, 80, 24, 0, " tales  cpu  ok  up 4.0 s");
    want(&d, 80, 24, 0, "[1 Overview] 2 Layers  3 Experts");
    want(&d, 80, 24, 1, "> Overview ---");
    want(&d, 80, 24, 2, "decode 39.1 tok/s   prefill 0.0 tok/s   cached 95.7 %, 90.0 % in all");
    want(&d, 80, 24, 3, "read 173 MB/s   waits 12.0 %   memory 1.20 GB, pool 3.20 GB of 8.00 GB");
    want(&d, 80, 24, 4, "running 1, waiting 2   done 3   generated 40 tok");
    want(&d, 80, 24, 5, "by layer, in tenths: 0123456789*0");
    want(&d, 80, 24, 6,
         "decode tok/s 10.0, top 10.0             read bytes/s 1.00 kB, top 1.00 kB");
    want(&d, 80, 24, 12, "experts cached 90.0 %, top 90.0 %       waits 50.0 %, top 50.0 %");
    want(&d, 80, 24, 18, "- Requests ---");
    want(&d, 80, 24, 20, "story-1                          decode          6        6      559");
    want(&d, 80, 24, 21, "caf??  ");
    want(&d, 80, 24, 23, " q quit");
    want(&d, 40, 10, 1, "> Overview ---");
    want(&d, 40, 10, 6, "decode tok/s 10.0, top 10.0");
    want(&d, 40, 10, 9, " q quit");
    want(&d, 200, 60, 6, "decode tok/s 10.0");
    want(&d, 200, 60, 45, "- Requests");
    want(&d, 200, 60, 59, " q quit");
    dash_free(&d);
}

/* The newest moment is the last column; a moment without an answer is a blank one. */
static void test_charts_have_gaps(void **state)
{
    struct dash d;
    (void)state;
    fill(&d, 3);
    want(&d, 80, 24, 11, "###");
    dash_lose(&d, "nobody there");
    dash_take(&d, stats_at(9, 3), requests(), NULL); /* across the gap there is no rate either */
    dash_take(&d, stats_at(10, 3), requests(), NULL);
    want(&d, 80, 24, 11, "###  #");
    for (int s = 11; s < 300; s++)
        dash_take(&d, stats_at(s, 3), requests(), NULL);
    want(&d, 80, 24, 11, "#######################################");
    dash_free(&d);
}

static void test_stale_values_are_marked(void **state)
{
    struct dash d;
    (void)state;
    fill(&d, 3);
    dash_lose(&d, "nobody there");
    want(&d, 80, 24, 0, "tales  cpu  STALE");
    want(&d, 80, 24, 2, "decode 39.1 tok/s");
    want(&d, 80, 24, 23, " no answer: nobody there");
    dash_take(&d, stats_at(5, 3), NULL, NULL);
    want(&d, 80, 24, 0, "tales  cpu  ok");
    dash_free(&d);
}

static void keys(struct dash *d, const char *text)
{
    for (; *text; text++)
        dash_key(d, *text, 80, 24);
}

static void test_layers_and_their_experts(void **state)
{
    struct dash d;
    (void)state;
    fill(&d, 48);
    keys(&d, "2");
    want(&d, 80, 24, 1, "> Layers ---");
    want(&d, 80, 24, 3, "     0        -    0.0 %       0       0       0       0   0 bytes");
    want(&d, 80, 24, 15, "    12   75.0 %   10.0 %    1200      36      12");
    want(&d, 80, 24, 16, "- Details");
    keys(&d, "jjj");
    assert_int_equal(d.row[DASH_LAYERS], 3);
    keys(&d, "n"); /* a page further */
    want(&d, 80, 24, 3, "    13 ");
    dash_key(&d, DASH_KEY_END, 80, 24);
    assert_int_equal(d.row[DASH_LAYERS], 47);
    dash_key(&d, DASH_KEY_DOWN, 80, 24);
    assert_int_equal(d.row[DASH_LAYERS], 47);
    dash_key(&d, DASH_KEY_HOME, 80, 24);
    keys(&d, "jj");
    dash_key(&d, DASH_KEY_ENTER, 80, 24);
    assert_true(d.view == DASH_EXPERTS && d.layer == 2 && d.refresh && !d.experts);
    dash_take(&d, stats_at(5, 48), NULL, experts_of(1, 32)); /* asked for before the key */
    want(&d, 80, 24, 3, "nothing is counted yet");
    dash_take(&d, stats_at(6, 48), NULL, experts_of(2, 32));
    want(&d, 80, 24, 1, "> Experts of layer 2, the most used first ---");
    want(&d, 80, 24, 3, "     9 "); /* 9 * 7 % 32 = 31 */
    keys(&d, "]");
    assert_int_equal(d.layer, 3);
    keys(&d, "[[");
    assert_int_equal(d.layer, 1);
    dash_key(&d, DASH_KEY_ESCAPE, 80, 24);
    assert_true(d.view == DASH_LAYERS && !d.quit);
    dash_key(&d, DASH_KEY_ESCAPE, 80, 24);
    assert_true(d.quit);
    dash_free(&d);
}

static void test_panes(void **state)
{
    struct dash d;
    (void)state;
    fill(&d, 48);
    keys(&d, "2f");
    want(&d, 80, 24, 21, "    18 "); /* alone it has the page */
    keys(&d, "f");
    dash_key(&d, DASH_KEY_TAB, 80, 24);
    want(&d, 80, 24, 16, "> Details ---");
    want(&d, 40, 10, 1, "> Details ---");
    keys(&d, "j");
    assert_int_equal(d.scroll, 1);
    assert_int_equal(d.row[DASH_LAYERS], 0);
    keys(&d, "kk");
    assert_int_equal(d.scroll, 0);
    for (int i = 0; i < 50; i++)
        keys(&d, "j");
    assert_int_equal(d.scroll, 6); /* seven fields */
    want(&d, 120, 40, 1, "- Layers ---");
    want(&d, 120, 40, 1, "> Details ---"); /* beside it */
    keys(&d, "?");
    want(&d, 80, 24, 1, "Keys");
    want(&d, 80, 24, 13, "quit");
    dash_key(&d, DASH_KEY_ESCAPE, 80, 24);
    assert_false(d.quit);
    keys(&d, "q");
    assert_true(d.quit);
    dash_free(&d);
}

/* Whatever the size, the state and the figures: nothing is drawn outside, nothing fails. */
static void test_any_size_any_figures(void **state)
{
    static const char *const odd[] = {"{}", "{'layers': 3, 'reads': [], 'model': 5}",
                                      "{'layers': [1, {'layer': -3, 'hits': 'x'}, null]}"};
    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct dash d = {0};
        struct canvas c = page_of(&d, 80, 24); /* before anything came */
        canvas_close(&c);
        dash_take(&d, parse(odd[i]), parse(odd[i]), parse(odd[i]));
        dash_take(&d, parse(odd[i]), NULL, parse(odd[i]));
        for (int w = 0; w < 130; w += 7)
            for (int h = 0; h < 40; h += 3)
                for (const char *key = "123f\t?jn]kp[?"; *key; key++) {
                    dash_key(&d, *key == '\t' ? DASH_KEY_TAB : *key, w, h);
                    c = page_of(&d, w, h);
                    canvas_close(&c);
                }
        dash_free(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overview_at_every_size),
        cmocka_unit_test(test_charts_have_gaps),
        cmocka_unit_test(test_stale_values_are_marked),
        cmocka_unit_test(test_layers_and_their_experts),
        cmocka_unit_test(test_panes),
        cmocka_unit_test(test_any_size_any_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
