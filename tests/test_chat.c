/* cherenkov chat on the packed demonstration model: over a pipe and at a pseudo-terminal, with
 * state reused where the template lets it, and Ctrl-C that stops the answer only. */
#include "tests/aid_demo.h"
#include "tests/aid_terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static char *model, *store, *linear; /* linear: a template under which history only grows */

static const char linear_template[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

static int setup(void **state)
{
    (void)state;
    model = aid_demo_pack();
    store = file_join(model, "packed");
    linear = aid_demo_with(store, "chat_template.jinja", linear_template);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mem_free(store);
    aid_rmdir(model);
    aid_rmdir(linear);
    return 0;
}

/* On the engine whose every bit is known. */
static struct aid_output chat(const char *in, const char *const *words)
{
    const char *argv[32] = {"cherenkov", "chat", "--engine", "reference"};
    struct aid_output o;
    for (int i = 0; words[i]; i++)
        argv[4 + i] = words[i];
    aid_run(argv, in, &o);
    return o;
}

#define CHAT(in, ...) chat(in, (const char *const[]){__VA_ARGS__, NULL})

static void expect(struct aid_output o, int status, const char *out, const char *err)
{
    if (o.status != status || (out && strcmp(buf_str(&o.out), out) != 0) ||
        !strstr(buf_str(&o.err), err))
        fail_msg("status %d, want %d\nstdout: %s\nwant:   %s\nstderr: %s\nwant:   %s", o.status,
                 status, buf_str(&o.out), out ? out : "(any)", buf_str(&o.err), err);
    aid_output_free(&o);
}

static void test_pipe(void **state)
{
    (void)state;
    static const char hello[] = "Hello! Shall I tell you a story?\n";
    expect(CHAT("Hello!\n", store, "--greedy"), 0, hello, "prompt 19 tok (0 reused)");
    expect(CHAT("Hello!", store, "--greedy"), 0, hello, "finish stop"); /* no line end */
    expect(CHAT("", store, "--greedy"), 0, "", "");
    expect(CHAT("\n  \nHello!\n/quit\nHello!\n", store, "--greedy"), 0, hello, "answer 13 tok");
    expect(CHAT("Hello!\n/reset\nHello!\n", store, "--greedy"), 0,
           "Hello! Shall I tell you a story?\nHello! Shall I tell you a story?\n", "(0 reused)");
}

/* The tokens of earlier turns, those that were generated included, are not fed again. */
static void test_reuse(void **state)
{
    (void)state;
    static const char two[] = "Hello!\nTell me about a fox.\n";
    struct aid_output o = CHAT(two, linear, "--greedy", "--max-tokens", "12");
    int prompt = 0, reused = 0;
    assert_int_equal(o.status, 0);
    const char *figures = strstr(buf_str(&o.err), "prompt ");
    assert_non_null(figures);
    assert_int_equal(sscanf(figures, "prompt %d tok (%d reused)", &prompt, &reused), 2);
    assert_in_range(reused, 20, prompt);
    printf("note: %d of %d prompt tokens of two turns reused\n", reused, prompt);
    aid_output_free(&o);
    /* The demonstration model's own template drops the empty think block of earlier turns. */
    expect(CHAT(two, store, "--greedy", "--max-tokens", "12"), 0, NULL, "(0 reused)");
}

static void test_commands(void **state)
{
    (void)state;
    char *saved = file_join(model, "saved.json"), *in = NULL;
    json_error_t je;
    assert_true(asprintf(&in, "/system Be kind.\nHello!\n/save %s\n", saved) > 0);
    expect(CHAT(in, store, "--greedy", "--max-tokens", "3"), 0, NULL, "3 messages saved");
    json_t *messages = json_load_file(saved, 0, &je);
    assert_non_null(messages);
    static const char *const roles[] = {"system", "user", "assistant"};
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(json_string_value(json_object_get(json_array_get(messages, i), "role")),
                            roles[i]);
    json_decref(messages);

    expect(CHAT("/help\n", store), 0, "", "/system");
    expect(CHAT("/think on\nHello!\n", store, "--greedy", "--max-tokens", "1"), 0, NULL,
           "prompt 17 tok");
    expect(CHAT("/think maybe\n", store), 2, "", "wants on or off");
    expect(CHAT("/rest\n", store), 2, "", "did you mean /reset?");
    expect(CHAT("/save\n", store), 2, "", "wants the name of a file");
    expect(CHAT("/save /no/such/x.json\n", store), 3, "", "/no/such/x.json: cannot open");
    expect(CHAT("a\xff\n", store), 3, "", "not valid UTF-8 at byte 1");
    expect(CHAT("Hello!\n", store, "--max-ctx", "10"), 1, "", "the context holds 10");
    expect(CHAT("Hello!\n", store, "--greedy", "--top-k", "3"), 2, "", "--greedy excludes");
    expect(CHAT("Hello!\n", "/no/such/store"), 3, "", "/no/such/store");
    free(in);
    mem_free(saved);
}

/* --- at a pseudo-terminal --- */

static void open_chat(struct aid_terminal *t, const char *home)
{
    setenv("HOME", home, 1);
    aid_terminal_open(
        t, "xterm", 80, 24,
        (const char *const[]){"cherenkov", "chat", store, "--greedy", "--ignore-eos", NULL});
}

/* A prompt, and the keys behind it go to the editor: it is printed before the editor takes the
 * terminal over, and a Ctrl-C in between would be a signal. */
static void need_prompt(struct aid_terminal *t)
{
    struct termios mode;
    const struct timespec moment = {0, 1000000};
    aid_terminal_need(t, "> ");
    while (tcgetattr(t->fd, &mode) == 0 && (mode.c_lflag & ICANON))
        nanosleep(&moment, NULL);
}

static int close_chat(struct aid_terminal *t)
{
    const int status = aid_terminal_close(t, NULL);
    buf_free(&t->out);
    return status;
}

static void test_terminal(void **state)
{
    (void)state;
    struct aid_terminal t;
    struct stat st;
    struct err e = {0};
    struct buf history = BUF_INIT;
    char *home = aid_tmpdir(), *path = file_join(home, ".cherenkov_history");
    open_chat(&t, home);
    need_prompt(&t);
    aid_terminal_type(&t, "Helo!\x02\x02l\r"); /* back two characters, insert the one that lacks */
    aid_terminal_need(&t, "Shall I tell you a story?");
    aid_terminal_type(&t, "\x03\x03\x03"); /* stops the answer, which has no end, and only that */
    need_prompt(&t);
    aid_terminal_type(&t, "never sent\x03"); /* gives the line up */
    aid_terminal_need(&t, "^C");
    need_prompt(&t);
    aid_terminal_type(&t, "/nonsense\r"); /* told, and the conversation goes on */
    aid_terminal_need(&t, "no command /nonsense");
    need_prompt(&t);
    aid_terminal_type(&t, "\x1b[A\x1b[A\r"); /* two lines up in the history: the message again */
    aid_terminal_need(&t, "Shall I tell you a story?");
    aid_terminal_type(&t, "\x03");
    need_prompt(&t);
    aid_terminal_type(&t, "\x04");
    assert_int_equal(close_chat(&t), 0);

    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(file_read_all(path, 1 << 20, &history, &e), e);
    assert_non_null(strstr(buf_str(&history), "Hello!"));
    assert_null(strstr(buf_str(&history), "never"));
    buf_free(&history);
    mem_free(path);
    aid_rmdir(home);
}

static void expect_saved(const char *home, const char *line)
{
    struct err e = {0};
    struct buf history = BUF_INIT;
    char *path = file_join(home, ".cherenkov_history");
    assert_ok(file_read_all(path, 1 << 20, &history, &e), e);
    assert_non_null(strstr(buf_str(&history), line));
    buf_free(&history);
    mem_free(path);
}

/* A window that is closed, in the middle of an answer without an end or at the prompt, and a
 * request to end: the program saved nothing, and after SIGTERM left the terminal without echo. */
static void test_terminal_goes(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct aid_terminal t;
        char *home = aid_tmpdir();
        open_chat(&t, home);
        need_prompt(&t);
        aid_terminal_type(&t, "Hello!\r");
        aid_terminal_need(&t, "Shall I tell you a story?");
        if (how) {
            aid_terminal_type(&t, "\x03");
            need_prompt(&t);
        }
        if (how == 2) {
            assert_int_equal(kill(t.pid, SIGTERM), 0);
        } else {
            close(t.fd);
            t.fd = -1;
        }
        assert_int_equal(close_chat(&t), 130);
        expect_saved(home, "Hello!");
        aid_rmdir(home);
    }
}

/* A Ctrl-C while an answer is being written, to somebody who reads slowly, is no failure. */
static void test_interrupt_while_writing(void **state)
{
    (void)state;
    int in[2], out[2], status;
    char text[4096];
    assert_int_equal(pipe(in) | pipe(out), 0);
    assert_true(fcntl(out[1], F_SETPIPE_SZ, sizeof text) >= 0);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        execl(aid_program(), "cherenkov", "chat", store, "--greedy", "--ignore-eos", NULL);
        _exit(127);
    }
    assert_int_equal(write(in[1], "Hello!\n", 7), 7);
    close(in[1]);
    int there = 0;
    while (there < (int)sizeof text - 16) { /* until a token more does not fit */
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        assert_int_equal(ioctl(out[0], FIONREAD, &there), 0);
    }
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    kill(pid, SIGINT);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    close(out[1]);
    while (read(out[0], text, sizeof text) > 0)
        ;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(in[0]);
    close(out[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pipe),          cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_commands),      cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_terminal_goes), cmocka_unit_test(test_interrupt_while_writing)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
