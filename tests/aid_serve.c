/* A running server: see aid_serve.h. */
#include "tests/aid_serve.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { FLAGS_MAX = 32, LOG_BYTES_MAX = 1 << 20, WAIT_MS = 30000 };

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void read_log(const struct aid_server *s, struct buf *out)
{
    struct err e = {0};
    buf_clear(out);
    if (file_read_all(s->log, LOG_BYTES_MAX, out, &e))
        fail_msg("%s", e.msg);
}

void aid_serve_said(const struct aid_server *s, const char *text)
{
    struct buf log = BUF_INIT;
    for (int ms = 0; ms < WAIT_MS; ms += 10) {
        read_log(s, &log);
        if (strstr(buf_str(&log), text)) {
            buf_free(&log);
            return;
        }
        if (waitpid(s->pid, NULL, WNOHANG) != 0)
            break;
        pause_ms(10);
    }
    fail_msg("the server did not say '%s' but:\n%s", text, buf_str(&log));
}

static void find_url(struct aid_server *s)
{
    struct buf log = BUF_INIT;
    static const char before[] = "listening on ";
    read_log(s, &log);
    const char *at = strstr(buf_str(&log), before) + strlen(before);
    s->url = mem_strndup(at, strcspn(at, ";"));
    buf_free(&log);
}

void aid_serve(struct aid_server *s, const char *store, const char *const *flags)
{
    const char *argv[FLAGS_MAX] = {aid_program(), "serve",       store,
                                   "--listen",    "127.0.0.1:0", "--no-ranking"};
    int n = 6;
    for (int i = 0; flags && flags[i]; i++)
        argv[n++] = flags[i];
    *s = (struct aid_server){.dir = aid_tmpdir()};
    s->log = file_join(s->dir, "log");
    s->pid = fork();
    if (s->pid == 0) {
        const int fd = open(s->log, O_CREAT | O_WRONLY | O_TRUNC, 0600);
        dup2(fd, 2);
        execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    pause_ms(20);
    while (!file_exists(s->log))
        pause_ms(1);
    aid_serve_said(s, "cherenkov: ready");
    find_url(s);
}

int aid_serve_stop(struct aid_server *s)
{
    int status = 0;
    kill(s->pid, SIGTERM);
    waitpid(s->pid, &status, 0);
    mem_free(s->log);
    mem_free(s->url);
    aid_rmdir(s->dir);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

json_t *aid_ask(const struct aid_server *s, const char *path, const char *body, int status)
{
    struct aid_answer a;
    json_error_t je;
    char *text = aid_quotes(body);
    aid_http(s->url, "POST", path, "", text, &a);
    if (a.status != status || a.cut)
        fail_msg("%s %s: %d, want %d: %s", path, text, a.status, status, buf_str(&a.body));
    json_t *v = json_loads(buf_str(&a.body), 0, &je);
    if (!v)
        fail_msg("%s: no JSON: %s", path, buf_str(&a.body));
    mem_free(text);
    aid_answer_free(&a);
    return v;
}

const json_t *aid_at(const json_t *v, const char *path)
{
    while (v && *path) {
        char word[64];
        const size_t n = strcspn(path, ".");
        snprintf(word, sizeof word, "%.*s", (int)n, path);
        v = json_is_array(v) ? json_array_get(v, strtoul(word, NULL, 10))
                             : json_object_get(v, word);
        path += n + (path[n] == '.');
    }
    return v;
}

const char *aid_string(const json_t *v, const char *path)
{
    const char *s = json_string_value(aid_at(v, path));
    if (!s)
        fail_msg("no string at %s", path);
    return s;
}
