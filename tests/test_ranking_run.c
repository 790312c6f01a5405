/* What runs leave for the next start, end to end: a run writes ranking.bin, the next begins with
 * what it names, and the text is the same with it, without it, and with one that is broken. */
#include "tests/aid_demo.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "runner/model.h"
#include "stream/ranking.h"

static char *model, *store, *ranking, *aside;
static char *text; /* of a run that knows no other */

/* Runs on engine cpu with this flag, or NULL, and compares the text. Returns what it remarked. */
static struct buf run(const char *flag)
{
    const char *argv[] = {"cherenkov",    "run", "--engine", "cpu",  "--greedy", "--raw",
                          "--max-tokens", "12",  store,      "Once", flag,       NULL};
    struct aid_output o;
    aid_run(argv, NULL, &o);
    if (o.status)
        fail_msg("run: %s", buf_str(&o.err));
    if (!text)
        text = mem_strdup(buf_str(&o.out));
    assert_string_equal(buf_str(&o.out), text);
    buf_free(&o.out);
    return o.err;
}

static void expect_remark(const char *flag, const char *says, bool wanted)
{
    struct buf err = run(flag);
    if (!strstr(buf_str(&err), says) == wanted)
        fail_msg("'%s' is %s: %s", says, wanted ? "missing" : "said", buf_str(&err));
    buf_free(&err);
}

static bool is_whole(void)
{
    struct err e = {0};
    struct store *s;
    assert_ok(store_open(store, &s, &e), e);
    float *use = mem_array((size_t)(s->manifest.experts.n_layers * s->manifest.experts.E), 4);
    assert_non_null(use);
    int rc = ranking_read(s, use, &e);
    mem_free(use);
    store_close(s);
    return !rc && !file_exists(aside);
}

static int setup(void **state)
{
    (void)state;
    model = aid_demo_pack();
    store = file_join(model, "packed");
    ranking = file_join(store, "ranking.bin");
    aside = file_join(store, "ranking.bin.tmp");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mem_free(store);
    mem_free(ranking);
    mem_free(aside);
    mem_free(text);
    aid_rmdir(model);
    return 0;
}

static void test_written_when_wanted(void **state)
{
    (void)state;
    expect_remark("--no-ranking", "ranking", false);
    assert_false(file_exists(ranking));
    const char *logits[] = {"cherenkov", "logits", store, "--ids", "1,2,3", NULL};
    struct aid_output o;
    aid_run(logits, NULL, &o);
    assert_int_equal(o.status, 0);
    aid_output_free(&o);
    assert_false(file_exists(ranking)); /* what measures leaves a store as it is */
    expect_remark(NULL, "ranking", false);
    assert_true(is_whole());
}

/* The next open reads before anybody asks. */
static void test_warms_up(void **state)
{
    (void)state;
    for (int ranked = 0; ranked < 2; ranked++) {
        struct err e = {0};
        struct model *m;
        struct model_options o = MODEL_OPTIONS;
        o.engine = "cpu";
        o.engine_options.no_ranking = !ranked;
        assert_ok(model_open(store, &o, &m, &e), e);
        const struct counters *c = m->engine->ops->counters(m->engine);
        assert_int_equal(c->reads[CAUSE_WARM][4] > 0, ranked);
        model_close(m);
    }
    expect_remark(NULL, "ranking", false);
}

static void test_broken_is_told_and_replaced(void **state)
{
    (void)state;
    aid_write(ranking, "nonsense", 8);
    expect_remark("--no-ranking", "ranking", false);
    expect_remark(NULL, "warning", true);
    assert_true(is_whole());
    expect_remark(NULL, "ranking", false);
}

/* A directory in the way of the file that is written aside stands for one that cannot be written:
 * the superuser may write into those. */
static void test_nowhere_to_write(void **state)
{
    (void)state;
    assert_int_equal(unlink(ranking), 0);
    assert_int_equal(mkdir(aside, 0700), 0);
    expect_remark(NULL, "ranking", false);
    assert_false(file_exists(ranking));
    assert_int_equal(rmdir(aside), 0);
}

static void test_several_at_once(void **state)
{
    (void)state;
    enum { N = 4 };
    pid_t child[N];
    fflush(NULL);
    for (int i = 0; i < N; i++) {
        child[i] = fork();
        if (!child[i]) {
            int null = open("/dev/null", O_WRONLY);
            dup2(null, 1);
            dup2(null, 2);
            execl(aid_program(), "cherenkov", "run", "--engine", "cpu", "--raw", "--max-tokens",
                  "4", store, "Once", (char *)NULL);
            _exit(99);
        }
    }
    for (int i = 0; i < N; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    assert_true(is_whole());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_when_wanted),
        cmocka_unit_test(test_warms_up),
        cmocka_unit_test(test_broken_is_told_and_replaced),
        cmocka_unit_test(test_nowhere_to_write),
        cmocka_unit_test(test_several_at_once),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
