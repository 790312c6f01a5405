/* Over HTTP, on the demonstration model and the cpu engine, a request says the same to the byte
 * alone and among others, cold, from a state kept in memory and from one on disk, with any drafts,
 * and also when the server was killed while it saved, or finds its files damaged.
 * Runs in release alone. */
#include "tests/aid_serve.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "server/saves.h"
#include "tests/aid_demo.h"

#define STORY                                                                                      \
    "Once upon a time there was a little girl who lived with her mother in a wood. One day the "   \
    "mother said to her: take this basket and bring it to your grandmother, who is old and ill, "  \
    "but do not leave the path. So the girl went into the wood, and there she met "

struct question {
    const char *path, *fields;
    bool stream;
};

static const char completions[] = "/v1/completions", chat[] = "/v1/chat/completions";

static const struct question questions[] = {
    {completions, "'prompt': 'Once upon a time', 'max_tokens': 40, 'temperature': 0", false},
    {completions, "'prompt': 'Once upon a time', 'max_tokens': 60, 'temperature': 0.8, 'seed': 5",
     true},
    {completions, "'prompt': '" STORY "', 'max_tokens': 25, 'temperature': 0", true},
    {completions, "'prompt': '" STORY "', 'max_tokens': 30, 'temperature': 1, 'seed': 1, 'n': 3",
     false},
    {completions,
     "'prompt': 'The king', 'max_tokens': 70, 'temperature': 1, 'top_p': 0.9, "
     "'min_p': 0.02, 'seed': 9, 'n': 2, 'stop': ' the ', 'ignore_eos': true",
     true},
    {completions, "'prompt': '" STORY STORY "a', 'max_tokens': 1, 'temperature': 0", false},
    {chat, "'messages': [{'role': 'user', 'content': 'Hello!'}], 'temperature': 0", true},
    {chat,
     "'messages': [{'role': 'system', 'content': '" STORY "'}, {'role': 'user', 'content': "
     "'And then?'}], 'temperature': 0.9, 'seed': 3, 'max_tokens': 50",
     false},
    {chat,
     "'messages': [{'role': 'system', 'content': '" STORY "'}, {'role': 'user', 'content': "
     "'Who?'}], 'temperature': 0.7, 'seed': 4, 'n': 2, 'presence_penalty': 0.5, "
     "'max_tokens': 45",
     true},
    {chat,
     "'messages': [{'role': 'user', 'content': 'Tell me a story.'}], 'temperature': 1, "
     "'top_k': 20, 'seed': 8, 'frequency_penalty': 0.3, 'max_tokens': 90",
     true},
};
enum { QUESTIONS = sizeof questions / sizeof questions[0], ROUNDS = 2, KILLS = 9 };

static int begin(const struct aid_server *s, const struct question *q)
{
    struct buf body = BUF_INIT;
    buf_printf(&body, "{%s, 'stream': %s}", q->fields, q->stream ? "true" : "false");
    const int fd = aid_begin(s, q->path, buf_str(&body));
    buf_free(&body);
    return fd;
}

static void answer(int fd, struct buf *out)
{
    struct aid_answer a;
    aid_http_read(fd, &a);
    close(fd);
    if (a.status != 200 || a.cut)
        fail_msg("%d: %s", a.status, buf_str(&a.body));
    aid_said(&a, out);
    aid_answer_free(&a);
}

/* Each question alone, with nothing that could make a difference. */
static void ask_alone(struct buf *want)
{
    struct aid_server s;
    aid_serve(&s, aid_demo_store,
              (const char *const[]){"--threads", "1", "--sequences", "1", "--drafts", "0",
                                    "--prefix-entries", "0", NULL});
    for (int i = 0; i < QUESTIONS; i++)
        answer(begin(&s, &questions[i]), &want[i]);
    assert_int_equal(aid_serve_stop(&s), 0);
}

static void test_together_as_alone(void **state)
{
    struct aid_server s;
    struct buf want[QUESTIONS] = {{0}}, got = BUF_INIT;
    int fds[ROUNDS][QUESTIONS];
    (void)state;
    ask_alone(want);
    aid_serve(&s, aid_demo_store,
              (const char *const[]){"--threads", "1", "--sequences", "5", NULL});
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < QUESTIONS; i++)
            fds[r][i] = begin(&s, &questions[(i + 3 * r) % QUESTIONS]);
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < QUESTIONS; i++) {
            const int q = (i + 3 * r) % QUESTIONS;
            buf_clear(&got);
            answer(fds[r][i], &got);
            if (strcmp(buf_str(&got), buf_str(&want[q])) != 0)
                fail_msg("question %d: alone '%s', among others '%s'", q, buf_str(&want[q]),
                         buf_str(&got));
        }
    assert_int_equal(aid_serve_stop(&s), 0);
    buf_free(&got);
    for (int i = 0; i < QUESTIONS; i++)
        buf_free(&want[i]);
}

/* --- kept states --- */

static void start(struct aid_server *s, const char *dir, int drafts)
{
    char word[8];
    snprintf(word, sizeof word, "%d", drafts);
    aid_serve(s, aid_demo_store,
              (const char *const[]){"--threads", "1", "--save-dir", dir, "--drafts", word, NULL});
}

#define MESSAGES                                                                                   \
    "{'role': 'system', 'content': '" STORY "'}, {'role': 'user', 'content': 'And then?'}"
#define SAMPLED "'temperature': 0.9, 'seed': 3, 'max_tokens': 50"

/* The answer, for mem_free; how much of the prompt was there already goes to *cached. */
static char *ask(const struct aid_server *s, const char *messages, int *cached)
{
    struct buf body = BUF_INIT;
    buf_printf(&body, "{'messages': [%s], " SAMPLED "}", messages);
    json_t *v = aid_ask(s, chat, buf_str(&body), 200);
    char *text = mem_strdup(aid_string(v, "choices.0.message.content"));
    *cached = (int)json_integer_value(aid_at(v, "usage.prompt_tokens_details.cached_tokens"));
    json_decref(v);
    buf_free(&body);
    return text;
}

/* want NULL: it becomes what is said. cached: whether a state must have been used. */
static void expect(const struct aid_server *s, const char *messages, char **want, bool cached)
{
    int n;
    char *text = ask(s, messages, &n);
    assert_int_equal(n > 0, cached);
    if (!*want)
        *want = mem_strdup(text);
    assert_string_equal(text, *want);
    mem_free(text);
}

/* What follows the first answer. */
static char *second_turn(const char *first)
{
    struct buf b = BUF_INIT;
    json_t *v = json_string(first);
    char *quoted = json_dumps(v, JSON_ENCODE_ANY);
    buf_puts(&b, MESSAGES ", {'role': 'assistant', 'content': ");
    for (const char *c = quoted; *c; c++)
        buf_puts(&b, *c == '\'' ? "\\u0027" : (const char[]){*c, '\0'});
    buf_puts(&b, "}, {'role': 'user', 'content': 'And the mother?'}");
    free(quoted);
    json_decref(v);
    return b.data;
}

static void test_cold_memory_disk(void **state)
{
    struct aid_server s;
    char *want = NULL, *want_next = NULL;
    (void)state;
    for (int drafts = 0; drafts <= 3; drafts++) {
        char *dir = aid_tmpdir();
        start(&s, dir, drafts);
        expect(&s, MESSAGES, &want, false);
        expect(&s, MESSAGES, &want, true);
        char *next = second_turn(want);
        expect(&s, next, &want_next, true);
        assert_int_equal(aid_serve_stop(&s), 0);
        start(&s, dir, drafts);
        expect(&s, MESSAGES, &want, true);
        expect(&s, next, &want_next, true);
        assert_int_equal(aid_serve_stop(&s), 0);
        mem_free(next);
        aid_rmdir(dir);
    }
    mem_free(want);
    mem_free(want_next);
}

struct looked {
    const char *dir;
    bool read; /* files that are done must be whole */
    int whole, half;
};

static int look_at(void *ctx, const char *name, struct err *e)
{
    struct looked *l = ctx;
    struct save_head h = {0};
    const char *dot = strrchr(name, '.');
    l->half += dot && strcmp(dot, ".tmp") == 0;
    if (!dot || strcmp(dot, ".keep") != 0)
        return 0;
    char *path = file_join(l->dir, name);
    if (l->read)
        assert_ok(saves_read_head(path, "cpu", &h, e), *e);
    mem_free(h.tokens);
    mem_free(path);
    l->whole++;
    return 0;
}

static struct looked look(const char *dir, bool read)
{
    struct err e = {0};
    struct looked l = {.dir = dir, .read = read};
    assert_ok(file_each(dir, look_at, &l, &e), e);
    return l;
}

static void log_lacks(const struct aid_server *s, const char *text)
{
    struct err e = {0};
    struct buf log = BUF_INIT;
    assert_ok(file_read_all(s->log, 1 << 20, &log, &e), e);
    if (strstr(buf_str(&log), text))
        fail_msg("the server said '%s':\n%s", text, buf_str(&log));
    buf_free(&log);
}

static void pause_us(int us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000L}, NULL);
}

/* Killed a moment after so many files were there or begun. */
static void kill_at(struct aid_server *s, const char *dir, int files, int us)
{
    const int fd = aid_begin(s, chat, "{'messages': [" MESSAGES "], 'stream': true, " SAMPLED "}");
    struct looked l = {0};
    for (int i = 0; l.whole + l.half < files && i < 100000; i++) {
        pause_us(100);
        l = look(dir, false);
    }
    assert_true(l.whole + l.half >= files);
    pause_us(us);
    kill(s->pid, SIGKILL);
    assert_int_equal(aid_serve_stop(s), 128 + SIGKILL);
    close(fd);
}

static void test_killed_while_it_saves(void **state)
{
    struct aid_server s;
    char *want = NULL;
    int whole = 0, half = 0;
    (void)state;
    aid_serve(&s, aid_demo_store, (const char *const[]){"--threads", "1", NULL});
    expect(&s, MESSAGES, &want, false);
    assert_int_equal(aid_serve_stop(&s), 0);
    for (int i = 0; i < KILLS; i++) {
        char *dir = aid_tmpdir();
        start(&s, dir, 2);
        kill_at(&s, dir, i % 3, i * 300);
        const struct looked l = look(dir, true);
        whole += l.whole > 0;
        half += l.half > 0;
        start(&s, dir, 2);
        expect(&s, MESSAGES, &want, l.whole > 0);
        log_lacks(&s, "used");
        assert_int_equal(aid_serve_stop(&s), 0);
        assert_int_equal(look(dir, true).half, 0);
        aid_rmdir(dir);
    }
    print_message("note: of %d servers killed, %d had saved, %d were at it\n", KILLS, whole, half);
    mem_free(want);
}

struct damage {
    const char *dir;
    bool at_end;
};

static int damage_one(void *ctx, const char *name, struct err *e)
{
    const struct damage *d = ctx;
    struct file f;
    const char *dot = strrchr(name, '.');
    if (!dot || strcmp(dot, ".keep") != 0)
        return 0;
    char byte, *path = file_join(d->dir, name);
    assert_ok(file_reopen(path, &f, e), *e);
    const uint64_t at = d->at_end ? f.size - 1 : 70;
    assert_ok(file_read_at(&f, at, &byte, 1, e), *e);
    byte ^= 1;
    assert_ok(file_write_at(&f, at, &byte, 1, e), *e);
    assert_ok(file_close(&f, e), *e);
    mem_free(path);
    return 0;
}

static void test_damaged_files_are_told_of(void **state)
{
    struct aid_server s;
    char *want = NULL;
    (void)state;
    for (int at_end = 0; at_end <= 1; at_end++) {
        struct err e = {0};
        char *dir = aid_tmpdir();
        struct damage d = {dir, at_end};
        start(&s, dir, 2);
        expect(&s, MESSAGES, &want, false);
        assert_int_equal(aid_serve_stop(&s), 0);
        assert_ok(file_each(dir, damage_one, &d, &e), e);
        start(&s, dir, 2);
        expect(&s, MESSAGES, &want, false);
        aid_serve_said(&s, at_end ? "is of no use" : "it is damaged; it is not used");
        expect(&s, MESSAGES, &want, true); /* saved anew */
        assert_int_equal(aid_serve_stop(&s), 0);
        aid_rmdir(dir);
    }
    mem_free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together_as_alone),
        cmocka_unit_test(test_cold_memory_disk),
        cmocka_unit_test(test_killed_while_it_saves),
        cmocka_unit_test(test_damaged_files_are_told_of),
    };
    return cmocka_run_group_tests(tests, aid_demo_open, aid_demo_close);
}
