/* Packing, killed: at whatever moment, what is left is no store or a whole one, and the same
 * command finishes it. The source is made large enough that kills land in every phase. */
#include "tests/aid_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/aid_pack.h"

enum { KILLS = 52, FRESH_EVERY = 3 };

static char *tmp, *source, *whole;
static double whole_seconds; /* what an undisturbed run takes: the shortest seen */

static int set_up(void **state)
{
    (void)state;
    struct aid_output o;
    const char *build = getenv("CHERENKOV_BUILD");
    tmp = aid_tmpdir();
    source = file_join(tmp, "source");
    whole = file_join(tmp, "whole");
    /* The micro golden with wider layers: a store of about 20 MB. */
    const char *const argv[] = {aid_path(build ? build : "build/release", "tool_source"),
                                GOLDENS "micro/mlx4/config.json",
                                source,
                                "mlx",
                                "3",
                                "hidden_size=256",
                                "moe_intermediate_size=256",
                                "num_experts=24",
                                "vocab_size=8192",
                                "ngram_vocab_size_base=5000",
                                NULL};
    aid_run(argv, NULL, &o);
    if (o.status)
        fail_msg("tool_source: %s", buf_str(&o.err));
    aid_output_free(&o);
    uint64_t start = clock_ns();
    aid_pack_ok(source, whole, NULL);
    whole_seconds = clock_seconds_since(start);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mem_free(source);
    mem_free(whole);
    aid_rmdir(tmp);
    return 0;
}

static pid_t spawn(const char *dir)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 2);
        execl(aid_program(), "cherenkov", "pack", source, "--output", dir, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void sleep_for(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

static void wipe(const char *dir)
{
    const char *const argv[] = {"rm", "-rf", dir, NULL};
    struct aid_output o;
    aid_run(argv, NULL, &o);
    aid_output_free(&o);
}

static void test_kills(void **state)
{
    (void)state;
    char *dir = file_join(tmp, "killed");
    uint64_t seed = clock_ns();
    int stores = 0, unfinished = 0, untouched = 0, finished = 0;
    printf("seed: %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < KILLS; i++) {
        struct err e = {0};
        int status;
        if (i % FRESH_EVERY == 0)
            wipe(dir);
        bool was_store = aid_has(dir, "manifest.json");
        pid_t pid = spawn(dir);
        double wait = rng_unit_at(seed, i) * 1.2 * whole_seconds;
        sleep_for(wait);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            finished += !was_store;
            if (!was_store && wait < whole_seconds)
                whole_seconds = wait;
        }
        if (!aid_has(dir, "manifest.json")) {
            unfinished += aid_has(dir, "packing.journal");
            untouched += !aid_has(dir, "packing.journal");
            continue;
        }
        assert_ok(aid_verify(dir, &e), e); /* its bytes have the checksums of ... */
        aid_same_file(dir, whole, "checksums.bin");
        aid_same_file(dir, whole, "manifest.json");
        stores++;
    }
    printf("note: %d kills over %.2f s: %d found a whole store, %d an unfinished one, %d nothing "
           "yet; %d runs had ended\n",
           KILLS, whole_seconds, stores, unfinished, untouched, finished);
    assert_true(unfinished > 5);
    aid_pack_ok(source, dir, NULL);
    aid_same_store(dir, whole);
    mem_free(dir);
}

static void test_stop(void **state)
{
    (void)state;
    char *dir = file_join(tmp, "stopped");
    int status, stopped = 0;
    for (int i = 0; i < 4; i++) {
        pid_t pid = spawn(dir);
        sleep_for(whole_seconds * (0.15 + 0.1 * i));
        kill(pid, i % 2 ? SIGTERM : SIGINT);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        /* Before it catches signals the program just ends. */
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 130);
        assert_false(aid_has(dir, "manifest.json"));
        stopped++;
    }
    printf("note: %d of 4 runs were stopped\n", stopped);
    aid_pack_ok(source, dir, NULL);
    aid_same_store(dir, whole);
    mem_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kills), cmocka_unit_test(test_stop)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
