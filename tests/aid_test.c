/* Test aids: see aid_test.h. */
#include "tests/aid_test.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* Who runs the tests may ignore these, as nohup and a script's & do, and programs would too. */
__attribute__((constructor)) static void hear_signals(void)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
}

char *aid_tmpdir(void)
{
    const char *base = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/cherenkov-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(path))
        fail_msg("mkdtemp %s: %s", path, strerror(errno));
    return mem_strdup(path);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

void aid_rmdir(char *dir)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    mem_free(dir);
}

void aid_write(const char *path, const void *data, size_t n)
{
    struct err e = {0};
    struct file f;
    assert_ok(file_create(path, &f, &e), e);
    assert_ok(file_write_at(&f, 0, data, n, &e), e);
    assert_ok(file_close(&f, &e), e);
}

const char *aid_program(void)
{
    const char *p = getenv("CHERENKOV_BIN");
    return p ? p : "build/release/cherenkov";
}

static void pipe_or_fail(int fd[2])
{
    if (pipe(fd))
        fail_msg("pipe: %s", strerror(errno));
}

static void child(const char *const *argv, const int in[2], const int out[2], const int err[2])
{
    signal(SIGPIPE, SIG_DFL);
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    for (int i = 0; i < 2; i++) {
        close(in[i]);
        close(out[i]);
        close(err[i]);
    }
    const char *path = strcmp(argv[0], "cherenkov") == 0 ? aid_program() : argv[0];
    execvp(path, (char *const *)(uintptr_t)argv);
    fprintf(stderr, "cannot run %s: %s\n", path, strerror(errno));
    _exit(127);
}

static void shut(struct pollfd *p)
{
    close(p->fd);
    p->fd = -1;
}

/* Writes what fits; closes at the end, or when nobody reads. */
static void feed(struct pollfd *p, const char **in)
{
    size_t left = strlen(*in);
    ssize_t n = left ? write(p->fd, *in, left < PIPE_BUF ? left : PIPE_BUF) : 0;
    if (n > 0)
        *in += n;
    else if (n == 0 || errno != EINTR)
        shut(p);
}

/* Reads what is there; closes at the end. */
static void drain(struct pollfd *p, struct buf *b)
{
    char part[65536];
    ssize_t n = read(p->fd, part, sizeof part);
    if (n > 0) {
        buf_add(b, part, (size_t)n);
    } else if (n == 0 || errno != EINTR) {
        shut(p);
    }
}

void aid_run(const char *const *argv, const char *in, struct aid_output *o)
{
    int pin[2], pout[2], perr[2], status;
    *o = (struct aid_output){0};
    pipe_or_fail(pin);
    pipe_or_fail(pout);
    pipe_or_fail(perr);
    fflush(NULL);
    void (*was)(int) = signal(SIGPIPE, SIG_IGN);
    pid_t pid = fork();
    if (pid < 0)
        fail_msg("fork: %s", strerror(errno));
    if (pid == 0)
        child(argv, pin, pout, perr);
    close(pin[0]);
    close(pout[1]);
    close(perr[1]);
    struct pollfd p[3] = {{pout[0], POLLIN, 0}, {perr[0], POLLIN, 0}, {pin[1], POLLOUT, 0}};
    if (!in)
        shut(&p[2]);
    while (p[0].fd >= 0 || p[1].fd >= 0 || p[2].fd >= 0) {
        if (poll(p, 3, -1) < 0 && errno != EINTR)
            break;
        if (p[2].fd >= 0 && p[2].revents)
            feed(&p[2], &in);
        if (p[0].fd >= 0 && p[0].revents)
            drain(&p[0], &o->out);
        if (p[1].fd >= 0 && p[1].revents)
            drain(&p[1], &o->err);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    signal(SIGPIPE, was);
    o->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

double aid_slower(void)
{
    const char *wrapped = getenv("WRAP");
    if (wrapped && wrapped[0])
        return 100;
#if defined __OPTIMIZE__ && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    return 1;
#else
    return 20;
#endif
}

void aid_output_free(struct aid_output *o)
{
    buf_free(&o->out);
    buf_free(&o->err);
}

char *aid_quotes(const char *text)
{
    char *copy = mem_strdup(text);
    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    return copy;
}
