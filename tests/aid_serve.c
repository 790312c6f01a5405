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

bool aid_serve_control;

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
    if (!aid_serve_control) {
        argv[n++] = "--control";
        argv[n++] = "none";
    }
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

int aid_begin(const struct aid_server *s, const char *path, const char *body)
{
    struct buf text = BUF_INIT;
    char *quoted = aid_quotes(body);
    const int fd = aid_http_connect(s->url);
    buf_printf(&text, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", path,
               strlen(quoted), quoted);
    aid_http_send(fd, buf_str(&text));
    mem_free(quoted);
    buf_free(&text);
    return fd;
}

/* --- what answers say --- */

enum { CHOICES_MAX = 8 };

struct said {
    struct buf text[CHOICES_MAX];
    char finish[CHOICES_MAX][16];
    size_t n;
};

static void hear_string(struct said *s, size_t i, const json_t *v)
{
    if (json_is_string(v))
        buf_puts(&s->text[i], json_string_value(v));
}

/* The choices of one JSON text: of an answer, or of one event of it. */
static void hear(struct said *s, const char *text)
{
    json_t *v = json_loads(text, 0, NULL);
    const json_t *choices = aid_at(v, "choices");
    for (size_t k = 0; k < json_array_size(choices); k++) {
        const json_t *c = json_array_get(choices, k), *why = aid_at(c, "finish_reason");
        const size_t i = (size_t)json_integer_value(aid_at(c, "index"));
        if (i >= CHOICES_MAX)
            fail_msg("choice %zu", i);
        s->n = i < s->n ? s->n : i + 1;
        hear_string(s, i, aid_at(c, "text"));
        hear_string(s, i, aid_at(c, "message.content"));
        hear_string(s, i, aid_at(c, "delta.content"));
        if (json_is_string(why))
            snprintf(s->finish[i], sizeof s->finish[i], "%s", json_string_value(why));
    }
    json_decref(v);
}

void aid_said(const struct aid_answer *a, struct buf *out)
{
    static const char data[] = "data: ";
    struct said *s = mem_zalloc(1, sizeof *s);
    char *copy = mem_strdup(buf_str(&a->body)), *rest = NULL;
    if (copy[0] == '{')
        hear(s, copy);
    else
        for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            if (strncmp(line, data, strlen(data)) == 0)
                hear(s, line + strlen(data));
    for (size_t i = 0; i < s->n; i++) {
        buf_printf(out, "%s|%s\n", buf_str(&s->text[i]), s->finish[i]);
        buf_free(&s->text[i]);
    }
    mem_free(copy);
    mem_free(s);
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
