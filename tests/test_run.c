/* cherenkov run on the packed demonstration model: greedy answers equal their goldens, settings
 * do what they say, and what makes no sense is refused with the reason. On the reference engine,
 * whose loops take minutes under a sanitizer and run there in other tests.
 * Runs in release alone. */
#include "tests/aid_demo.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static char *model, *store; /* a folder, and the store in it */

static int setup(void **state)
{
    (void)state;
    model = aid_demo_pack();
    store = file_join(model, "packed");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mem_free(store);
    aid_rmdir(model);
    return 0;
}

/* Runs `cherenkov run` with these words behind it (NULL at the end), on the engine whose every bit
 * is known. */
static struct aid_output run(const char *in, const char *const *words)
{
    const char *argv[32] = {"cherenkov", "run", "--engine", "reference"};
    struct aid_output o;
    for (int i = 0; words[i]; i++)
        argv[4 + i] = words[i];
    aid_run(argv, in, &o);
    return o;
}

#define RUN(in, ...) run(in, (const char *const[]){__VA_ARGS__, NULL})

static void expect(struct aid_output o, int status, const char *out, const char *err)
{
    if (o.status != status || (out && strcmp(buf_str(&o.out), out) != 0) ||
        (err && !strstr(buf_str(&o.err), err)))
        fail_msg("status %d, want %d\nstdout: %s\nwant:   %s\nstderr: %s\nwant:   %s", o.status,
                 status, buf_str(&o.out), out ? out : "(any)", buf_str(&o.err),
                 err ? err : "(any)");
    aid_output_free(&o);
}

static void test_greedy_goldens(void **state)
{
    (void)state;
    json_t *goldens = aid_demo_goldens();
    const json_t *all = json_object_get(goldens, "greedy");
    assert_int_equal(json_array_size(all), 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t *g = json_array_get(all, i);
        const char *prompt = json_string_value(json_object_get(g, "name"));
        char *text = NULL;
        assert_true(asprintf(&text, "%s\n", json_string_value(json_object_get(g, "text"))) > 0);
        expect(RUN(NULL, "--greedy", "--ignore-eos", "--max-tokens", "48", store, prompt,
                   aid_is_raw(g) ? "--raw" : NULL),
               0, text, "answer 48 tok");
        mem_free(text);
    }
    json_decref(goldens);
}

/* The model's folder will do for the store in it; the prompt may come through a pipe. */
static void test_where_things_come_from(void **state)
{
    (void)state;
    static const char hello[] = "Hello! Shall I tell you a story?\n";
    expect(RUN(NULL, model, "Hello!", "--greedy"), 0, hello, "finish stop");
    expect(RUN("Hello!", store, "-", "--greedy"), 0, hello, "prompt 19 tok");
    expect(RUN("Hello!", store, "--greedy"), 0, hello, NULL);
}

static void test_stop_strings(void **state)
{
    (void)state;
    expect(RUN(NULL, store, "Hello!", "--greedy", "--stop", "I tell"), 0, "Hello! Shall \n",
           "finish stop");
    expect(RUN(NULL, store, "Hello!", "--greedy", "--stop", "nothing", "--stop", "?"), 0,
           "Hello! Shall I tell you a story\n", "finish stop");
    expect(RUN(NULL, store, "Hello!", "--greedy", "--stop", ""), 2, "", "stop");
    expect(RUN(NULL, store, "Hello!", "--greedy", "--max-tokens", "2"), 0, "Hell\n",
           "finish length");
}

static void test_sampling(void **state)
{
    (void)state;
    struct aid_output o[4];
    static const char *const seeds[] = {"7", "7", "8", NULL};
    for (int i = 0; i < 4; i++) {
        o[i] = RUN(NULL, store, "Tell me a story.", "--max-tokens", "24",
                   seeds[i] ? "--seed" : NULL, seeds[i]);
        assert_int_equal(o[i].status, 0);
        assert_non_null(strstr(buf_str(&o[i].err), "seed "));
    }
    assert_string_equal(buf_str(&o[0].out), buf_str(&o[1].out));
    assert_string_not_equal(buf_str(&o[0].out), buf_str(&o[2].out));
    for (int i = 0; i < 4; i++)
        aid_output_free(&o[i]);

    /* Settings under which only the likeliest token is left; the template of --system. */
    expect(RUN(NULL, store, "Hello!", "--top-k", "1"), 0, "Hello! Shall I tell you a story?\n",
           NULL);
    expect(RUN(NULL, store, "Hello!", "--top-p", "0"), 0, "Hello! Shall I tell you a story?\n",
           NULL);
    expect(RUN(NULL, store, "Hello!", "--min-p", "1"), 0, "Hello! Shall I tell you a story?\n",
           NULL);
    expect(RUN(NULL, store, "Hello!", "--temperature", "0"), 0,
           "Hello! Shall I tell you a story?\n", NULL);
    struct aid_output a =
        RUN(NULL, store, "Hello!", "--temperature", "0", "--repetition-penalty", "30",
            "--presence-penalty", "1", "--frequency-penalty", "1", "--max-tokens", "6");
    assert_int_equal(a.status, 0);
    assert_int_not_equal(strncmp(buf_str(&a.out), "Hello!", 6), 0);
    aid_output_free(&a);
    expect(RUN(NULL, store, "Hello!", "--greedy", "--system", "Be kind.", "--max-tokens", "1"), 0,
           NULL, "prompt 29 tok");
    expect(RUN(NULL, store, "Hello!", "--greedy", "--think", "--max-tokens", "1"), 0, NULL,
           "prompt 17 tok");
    expect(RUN(NULL, store, "Hello!", "--greedy", "--no-think", "--max-tokens", "1"), 0, NULL,
           "prompt 19 tok");
}

/* Any drafts, the same words; the figures say how many were right. */
static void test_drafts(void **state)
{
    (void)state;
    static const char *const how[][3] = {{"0", "auto", NULL},
                                         {"1", "auto", NULL},
                                         {"3", "auto", NULL},
                                         {"2", "head", "--draft-always"},
                                         {"3", "lookup", "--draft-always"}};
    struct aid_output first = RUN(NULL, store, "Tell me a story.", "--seed", "5", "--max-tokens",
                                  "30", "--frequency-penalty", "0.1");
    assert_int_equal(first.status, 0);
    for (size_t i = 0; i < 5; i++)
        expect(RUN(NULL, store, "Tell me a story.", "--seed", "5", "--max-tokens", "30",
                   "--frequency-penalty", "0.1", "--drafts", how[i][0], "--draft-source", how[i][1],
                   how[i][2]),
               0, buf_str(&first.out), i == 3 ? "drafts right (" : NULL);
    aid_output_free(&first);
    expect(RUN(NULL, store, "Hello!", "--greedy", "--max-tokens", "2", "--cut-weak", "0.1"), 0,
           "Hell\n", "answers depend on what is cached");
}

static void test_contradictions(void **state)
{
    (void)state;
    expect(RUN(NULL, store, "x", "--greedy", "--seed", "1"), 2, "", "--greedy excludes");
    expect(RUN(NULL, store, "x", "--no-think", "--think"), 2, "", "--no-think excludes --think");
    expect(RUN(NULL, store, "x", "--no-think", "--effort", "low"), 2, "", "excludes --effort");
    expect(RUN(NULL, store, "x", "--raw", "--system", "s"), 2, "", "--system would have no effect");
    expect(RUN(NULL, store, "x", "--raw", "--think"), 2, "", "would have no effect");
    expect(RUN(NULL, store, "x", "--temprature", "1"), 2, "", "did you mean --temperature?");
    expect(RUN(NULL, store, "x", "--engine", "quantum"), 2, "",
           "no engine 'quantum'; there is: auto");
    expect(RUN(NULL, store, "x", "--pool-gb", "1", "--pool-slots", "9"), 2, "", "say the same");
    expect(RUN(NULL, store, "x", "--pool", "map", "--pool-slots", "9"), 2, "", "has no size");
    expect(RUN(NULL, store, "x", "--pool", "map", "--experts", "2"), 2, "", "of 4 bits only");
    expect(RUN(NULL, store, "x", "--miss-experts", "3", "--experts", "2"), 2, "", "want fewer");
    expect(RUN(NULL, store, "x", "--drafts", "4"), 2, "", "from 0 to 3");
    expect(RUN(NULL, store, "x", "y"), 2, "", "one argument too many");
    expect(RUN(NULL, "--greedy"), 2, "", "wants 1 argument");
}

static void test_bad_prompts(void **state)
{
    (void)state;
    expect(RUN(NULL, store, ""), 2, "", "the prompt is empty");
    expect(RUN("", store, "-"), 2, "", "the prompt is empty");
    expect(RUN(NULL, store, "", "--raw"), 2, "", "the prompt is empty");
    expect(RUN(NULL, store, "ab\xff", "--raw"), 3, "", "UTF-8");
    expect(RUN(NULL, store, "ab\xff"), 3, "", "not valid UTF-8 at byte 2 (0xff)");
    expect(RUN(NULL, store, "ab", "--system", "\xc3"), 3, "", "system message is not valid UTF-8");
    expect(RUN(NULL, store, "one two three", "--max-ctx", "16"), 1, "",
           "tokens and the context holds 16");
    expect(RUN(NULL, store, "x", "--max-ctx", "100000"), 1, "",
           "100000 tokens is asked for, and the model's positions end at 4096");
}

static void test_bad_stores(void **state)
{
    (void)state;
    expect(RUN(NULL, "/no/such/store", "x"), 3, "", "/no/such/store");
    expect(RUN(NULL, "tests", "x"), 3, "", "tests");
    expect(RUN(NULL, "README.md", "x"), 3, "",
           "README.md: want the folder of a store, found a file");
    expect(RUN(NULL, GOLDENS "micro/bf16", "x"), 3, "", "cherenkov pack");
}

/* Ctrl-C: the answer ends, the closing line comes, the status is 130. */
static void test_interrupt(void **state)
{
    (void)state;
    int out[2], err[2], status;
    char text[4096];
    size_t n = 0;
    assert_int_equal(pipe(out) | pipe(err), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], 1);
        dup2(err[1], 2);
        execl(aid_program(), "cherenkov", "run", store, "Tell me a story.", "--greedy",
              "--ignore-eos", NULL);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
    assert_true(read(out[0], text, sizeof text) > 0); /* it streams: text is there before the end */
    kill(pid, SIGINT);
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    ssize_t got;
    while (n < sizeof text - 1 && (got = read(err[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    assert_non_null(strstr(text, "finish interrupted"));
    assert_null(strstr(text, "error"));
    close(out[0]);
    close(err[0]);
}

/* Sleeps until the program catches SIGTERM; false: it ended, or never did. */
static bool wait_caught(pid_t pid)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    for (int i = 0; i < 20000; i++) {
        unsigned long long caught = 0;
        FILE *f = fopen(path, "re");
        while (f && fgets(line, sizeof line, f))
            sscanf(line, "SigCgt: %llx", &caught);
        if (f)
            fclose(f);
        if (caught & 1ull << (SIGTERM - 1))
            return true;
        usleep(1000);
    }
    return false;
}

/* A signal while the model was loaded ended chat and serve by the signal, and run only after all
 * was loaded. --probe makes loading last half a second at least. */
static void test_interrupt_loading(void **state)
{
    (void)state;
    static const struct {
        const char *command, *prompt;
        int status;
    } cases[] = {{"run", "x", 130}, {"chat", NULL, 130}, {"bench", NULL, 130}, {"serve", NULL, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[4096];
        int status;
        struct err e = {0};
        struct buf said = BUF_INIT;
        snprintf(path, sizeof path, "%s/said", model);
        pid_t pid = fork();
        if (pid == 0) {
            if (!freopen(path, "w", stderr) || !freopen("/dev/null", "r", stdin))
                _exit(127);
            if (i == 3)
                execl(aid_program(), "cherenkov", "serve", store, "--probe", "--listen",
                      "127.0.0.1:0", "--control", "none", NULL);
            execl(aid_program(), "cherenkov", cases[i].command, store, "--probe", cases[i].prompt,
                  NULL);
            _exit(127);
        }
        assert_true(wait_caught(pid));
        kill(pid, SIGTERM);
        while (waitpid(pid, &status, 0) < 0)
            assert_int_equal(errno, EINTR);
        assert_ok(file_read_all(path, 1 << 20, &said, &e), e);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != cases[i].status ||
            !strstr(buf_str(&said), "stopped b") || strstr(buf_str(&said), "this machine: disk"))
            fail_msg("%s: status 0x%x, want exit status %d while it loads; it said %s",
                     cases[i].command, (unsigned)status, cases[i].status, buf_str(&said));
        buf_free(&said);
    }
}

static void test_output_disk_full(void **state)
{
    (void)state;
    const char *argv[] = {"sh",          "-c",  "exec \"$0\" run \"$1\" Hello! --greedy >/dev/full",
                          aid_program(), store, NULL};
    struct aid_output o;
    aid_run(argv, NULL, &o);
    expect(o, 1, "", "standard output");
}

/* With what --probe measured, the closing line says what share of it was used. */
static void test_shares_of_the_machine(void **state)
{
    (void)state;
    const char *argv[] = {"cherenkov", "run",     "--engine", "cpu", "--probe",
                          store,       "Say hi.", "--greedy", NULL};
    struct aid_output o;
    aid_run(argv, NULL, &o);
    const char *line = strstr(buf_str(&o.err), "cherenkov: prompt ");
    if (o.status || !line || !strstr(line, "% of the disk)") || !strstr(line, "% of the memory)"))
        fail_msg("no shares: %s", buf_str(&o.err));
    aid_output_free(&o);
}

/* Weights that the system would not lock were never mentioned. In a child, because a limit that was
 * lowered stays so; root's locks have no limit, unless the program starts without that right. */
static void test_unlocked_weights_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *command, *arg;
    } by[] = {{"run", "Hello!"}, {"logits", "--ids=1"}};
    for (size_t i = 0; i < 2; i++) {
        int err[2], status;
        char text[4096];
        size_t n = 0;
        ssize_t got;
        assert_int_equal(pipe(err), 0);
        pid_t pid = fork();
        if (pid == 0) {
            const struct rlimit none = {0, 0};
            dup2(err[1], 2);
            close(err[0]);
            if (setrlimit(RLIMIT_MEMLOCK, &none) ||
                (getuid() == 0 && prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0)))
                _exit(126);
            execl(aid_program(), "cherenkov", by[i].command, "--engine", "cpu", store, by[i].arg,
                  (char *)NULL);
            _exit(127);
        }
        close(err[1]);
        while (n < sizeof text - 1 && (got = read(err[0], text + n, sizeof text - 1 - n)) > 0)
            n += (size_t)got;
        text[n] = '\0';
        close(err[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        const char *told = strstr(text, "MB of dense weights cannot be locked: ");
        if (!told || strstr(strchr(told, '\n'), "cannot be locked"))
            fail_msg("not told once: %s", text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_goldens),
        cmocka_unit_test(test_where_things_come_from),
        cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_drafts),
        cmocka_unit_test(test_bad_prompts),
        cmocka_unit_test(test_bad_stores),
        cmocka_unit_test(test_shares_of_the_machine),
        cmocka_unit_test(test_unlocked_weights_are_told),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_interrupt_loading),
        cmocka_unit_test(test_output_disk_full),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
