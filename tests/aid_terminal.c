/* A program at a pseudo-terminal: see aid_terminal.h. */
#include "tests/aid_terminal.h"

#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 60000 };

void aid_terminal_open(struct aid_terminal *t, const char *kind, int columns, int lines,
                       const char *const *argv)
{
    const struct winsize size = {.ws_col = (unsigned short)columns,
                                 .ws_row = (unsigned short)lines};
    *t = (struct aid_terminal){0};
    fflush(NULL);
    t->pid = forkpty(&t->fd, NULL, NULL, &size);
    assert_true(t->pid >= 0);
    if (t->pid == 0) {
        setenv("TERM", kind, 1);
        execv(aid_program(), (char *const *)(uintptr_t)argv);
        _exit(127);
    }
}

void aid_terminal_type(struct aid_terminal *t, const char *keys)
{
    assert_int_equal(write(t->fd, keys, strlen(keys)), (ssize_t)strlen(keys));
}

bool aid_terminal_read(struct aid_terminal *t, int ms)
{
    char room[4096];
    struct pollfd p = {.fd = t->fd, .events = POLLIN};
    if (poll(&p, 1, ms) <= 0)
        return false;
    const ssize_t n = read(t->fd, room, sizeof room);
    if (n > 0)
        buf_add(&t->out, room, (size_t)n);
    return n > 0;
}

void aid_terminal_need(struct aid_terminal *t, const char *text)
{
    const char *found;
    int silent_ms = 0;
    while (!(found = strstr(buf_str(&t->out) + t->at, text)))
        if (!aid_terminal_read(t, 100) && (silent_ms += 100) > WAIT_MS)
            fail_msg("'%s' did not come; the terminal shows: %s", text, buf_str(&t->out) + t->at);
    t->at = (size_t)(found - t->out.data) + strlen(text);
}

int aid_terminal_close(struct aid_terminal *t, struct termios *mode)
{
    int status = 0, silent_ms = 0;
    pid_t ended = 0;
    while (silent_ms < WAIT_MS && (ended = waitpid(t->pid, &status, WNOHANG)) == 0)
        if (!aid_terminal_read(t, 20)) {
            usleep(20000); /* a terminal that nobody has open any more makes no one wait */
            silent_ms += 20;
        }
    assert_int_equal(ended, t->pid);
    if (mode)
        assert_int_equal(tcgetattr(t->fd, mode), 0);
    while (aid_terminal_read(t, 100))
        ;
    if (t->fd >= 0)
        close(t->fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
