/* A thousand requests of every kind of client, good and bad, two dozen at a time, against one
 * server: clients that leave, that read slowly or not at all, that cancel, that send half of a
 * request, nonsense, or too much. Whatever is answered whole is what the same request says alone;
 * afterwards the server has no thread or descriptor more than before, and hardly more memory. */
#include "tests/aid_serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/aid_demo.h"

enum {
    REQUESTS = 1000,
    REQUESTS_SLOW = 150, /* under sanitizers */
    AT_ONCE = 24,
    QUESTIONS = 24,
    GROWTH_MAX_MIB = 16,
    SEED = 7,
};

/* What a client does. */
enum kind {
    READS,   /* all of the answer, which must be right */
    SIPS,    /* the same, a few bytes at a time */
    LEAVES,  /* when some of the answer came, or none */
    STALLS,  /* asks for a long stream and does not read */
    HALF,    /* sends a part of its request, and leaves */
    CANCELS, /* on another connection; what it gets is right as far as it goes */
    NONSENSE,
    TOO_MUCH,
    KINDS,
};
static const char *const kind_names[] = {"read",          "sipped",       "left",
                                         "stalled",       "sent half",    "cancelled",
                                         "sent nonsense", "sent too much"};
/* Of a hundred clients so many. */
static const int shares[KINDS] = {38, 8, 15, 5, 6, 10, 12, 6};

struct client {
    int fd; /* -1: none */
    enum kind kind;
    int question;
    uint64_t act_ns; /* when it leaves or cancels; 0: not any more */
    uint64_t sip_ns; /* when it reads next */
    char name[32];
    struct buf got;
};

struct soak {
    struct aid_server server;
    struct buf want[QUESTIONS];
    struct client clients[AT_ONCE];
    uint64_t seed, n_drawn;
    int n_begun, n_kind[KINDS];
    int n_right, n_busy, n_refused;
    int n_gave_up, n_partial; /* connections that ended early; answers cut by their cancellation */
};

static uint64_t draw(struct soak *k, uint64_t below)
{
    return rng_splitmix64(k->seed + k->n_drawn++) % below;
}

/* --- questions --- */

static const char *const texts[] = {
    "Once upon a time",
    "The king had three daughters, and the youngest of them was so beautiful that the sun wondered",
    "There was once a fox",
    "In a deep wood there lived an old woman who had a cat and an owl, and in the night she flew ",
    "Hello!",
    "Tell me of the sea and of the ships that went out upon it and never came back again.",
};

static bool is_streamed(int q)
{
    return q % 2;
}

static const char *question(int q, const char *name, struct buf *body)
{
    const char *text = texts[q % 6];
    const bool chat = q % 4 >= 2;
    buf_puts(body, "{");
    if (chat)
        buf_printf(body, "'messages': [{'role': 'user', 'content': '%s'}], ", text);
    else
        buf_printf(body, "'prompt': '%s', ", text);
    if (name)
        buf_printf(body, "'request_id': '%s', ", name);
    buf_printf(body, "'max_tokens': %d, 'temperature': %s, 'seed': %d, 'n': %d, 'stream': %s}",
               3 + q * 7 % 23, q % 3 ? "0.8" : "0", q, q % 8 == 7 ? 2 : 1,
               is_streamed(q) ? "true" : "false");
    return chat ? "/v1/chat/completions" : "/v1/completions";
}

static void ask_alone(struct soak *k, const char *store)
{
    struct aid_server s;
    aid_serve(&s, store,
              (const char *const[]){"--threads", "1", "--sequences", "1", "--drafts", "0",
                                    "--prefix-entries", "0", NULL});
    for (int q = 0; q < QUESTIONS; q++) {
        struct buf body = BUF_INIT;
        struct aid_answer a;
        const char *path = question(q, NULL, &body);
        const int fd = aid_begin(&s, path, buf_str(&body));
        aid_http_read(fd, &a);
        close(fd);
        assert_int_equal(a.status, 200);
        aid_said(&a, &k->want[q]);
        aid_answer_free(&a);
        buf_free(&body);
    }
    assert_int_equal(aid_serve_stop(&s), 0);
}

/* --- what clients send --- */

static void request(const char *path, const char *body, struct buf *out)
{
    buf_printf(out,
               "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
               path, strlen(body), body);
}

static void nonsense(struct soak *k, struct buf *out)
{
    static const char *const bodies[] = {
        "{'prompt': ",
        "[]",
        "{'prompt': 'a', 'max_tokens': -1}",
        "{'prompt': 'a', 'no_such_field': 1}",
        "{'prompt': {'a': [[[[[[1]]]]]]}}",
        "{'prompt': '\\ud800'}",
        "{'prompt': '', 'temperature': 1e999}",
        "\xff\xfe{}",
    };
    static const char *const heads[] = {
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: no\r\n\r\n{}",
        "POST /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        "DELETE /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "\x16\x03\x01\x02\r\n\r\n",
    };
    const uint64_t i = draw(k, 12);
    if (i >= 8) {
        buf_puts(out, heads[i - 8]);
        return;
    }
    char *body = aid_quotes(bodies[i]);
    request("/v1/completions", body, out);
    mem_free(body);
}

/* A body over --request-size, or a prompt that does not fit the context. */
static void too_much(struct soak *k, struct buf *out)
{
    struct buf body = BUF_INIT;
    buf_puts(&body, "{\"prompt\": \"");
    const int n = draw(k, 2) ? 20000 : 9000;
    for (int i = 0; i < n / 2; i++)
        buf_puts(&body, "q ");
    buf_puts(&body, "\"}");
    request("/v1/completions", buf_str(&body), out);
    buf_free(&body);
}

static void fill(struct soak *k, struct client *c, struct buf *out)
{
    struct buf body = BUF_INIT;
    const char *path;
    switch (c->kind) {
    case NONSENSE:
        nonsense(k, out);
        return;
    case TOO_MUCH:
        too_much(k, out);
        return;
    case STALLS:
        path = "/v1/completions";
        buf_puts(&body, "{'prompt': 'A', 'ignore_eos': true, 'stream': true}");
        break;
    default:
        path = question(c->question, c->kind == CANCELS ? c->name : NULL, &body);
    }
    char *quoted = aid_quotes(buf_str(&body));
    request(path, quoted, out);
    mem_free(quoted);
    buf_free(&body);
    if (c->kind == HALF)
        out->len = draw(k, out->len), out->data[out->len] = '\0';
}

static enum kind draw_kind(struct soak *k)
{
    int at = (int)draw(k, 100), kind = 0;
    while (at >= shares[kind])
        at -= shares[kind++];
    return (enum kind)kind;
}

static void begin(struct soak *k, struct client *c)
{
    const int small = 2048;
    struct buf text = BUF_INIT;
    *c = (struct client){.kind = draw_kind(k), .question = (int)draw(k, QUESTIONS)};
    snprintf(c->name, sizeof c->name, "soak-%d", k->n_begun);
    const bool acts =
        c->kind == LEAVES || c->kind == STALLS || c->kind == HALF || c->kind == CANCELS;
    if (acts)
        c->act_ns = clock_ns() + draw(k, c->kind == STALLS ? 400 : 40) * 1000000 + 1;
    c->fd = aid_http_connect(k->server.url);
    if (c->kind == STALLS || c->kind == SIPS)
        setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    fill(k, c, &text);
    aid_http_send(c->fd, buf_str(&text));
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    buf_free(&text);
    k->n_begun++;
    k->n_kind[c->kind]++;
}

/* --- what they get --- */

static void wrong(const struct soak *k, const struct client *c, const char *what)
{
    fail_msg("%s, question %d: %s:\n%s\nwant '%s'", kind_names[c->kind], c->question, what,
             buf_str(&c->got), buf_str(&k->want[c->question]));
}

/* An answer that was cancelled says so, and is a beginning of what would have been said (of several
 * choices the first is looked at). */
static void check_cancelled(struct soak *k, const struct client *c, const struct buf *said)
{
    const char *all = buf_str(said), *end = strchr(all, '|');
    if (!strstr(all, "|cancelled\n") || !end ||
        strncmp(all, buf_str(&k->want[c->question]), (size_t)(end - all)) != 0)
        wrong(k, c, "another answer");
    k->n_partial++;
}

/* The connection has ended. */
static void check(struct soak *k, struct client *c)
{
    struct aid_answer a;
    struct buf said = BUF_INIT;
    aid_http_parse(&c->got, &a);
    if (a.status == 503) {
        k->n_busy++;
    } else if (c->kind == NONSENSE || c->kind == TOO_MUCH) {
        if (c->got.len && (a.status < 400 || a.status >= 500))
            wrong(k, c, "want a status of 4xx");
        k->n_refused++;
    } else if (c->kind == STALLS || c->kind == LEAVES || c->kind == HALF) {
        k->n_gave_up++; /* the server was quicker */
    } else if (a.status != 200 || a.cut) {
        wrong(k, c, "no whole answer");
    } else {
        aid_said(&a, &said);
        if (strcmp(buf_str(&said), buf_str(&k->want[c->question])) == 0)
            k->n_right++;
        else if (c->kind == CANCELS)
            check_cancelled(k, c, &said);
        else
            wrong(k, c, "another answer");
    }
    buf_free(&said);
    aid_answer_free(&a);
}

static void end(struct client *c)
{
    close(c->fd);
    c->fd = -1;
    buf_free(&c->got);
}

static void act(struct soak *k, struct client *c)
{
    char path[64];
    c->act_ns = 0;
    if (c->kind != CANCELS) {
        k->n_gave_up++;
        end(c);
        return;
    }
    struct aid_answer a;
    snprintf(path, sizeof path, "/v1/requests/%s/cancel", c->name);
    aid_http(k->server.url, "POST", path, "", "", &a);
    assert_true(a.status == 200 || a.status == 404);
    aid_answer_free(&a);
}

static void read_some(struct soak *k, struct client *c)
{
    char bytes[4096];
    const size_t most = c->kind == SIPS ? 100 : sizeof bytes;
    const ssize_t n = recv(c->fd, bytes, most, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        buf_add(&c->got, bytes, (size_t)n);
        c->sip_ns = clock_ns() + 1000000;
        return;
    }
    check(k, c);
    end(c);
}

static bool reads_now(const struct client *c, uint64_t now)
{
    return c->kind != STALLS && (c->kind != SIPS || now >= c->sip_ns);
}

/* Every client does what it has to do by now. */
static void turn(struct soak *k)
{
    struct pollfd p[AT_ONCE];
    uint64_t now = clock_ns();
    for (int i = 0; i < AT_ONCE; i++) {
        struct client *c = &k->clients[i];
        p[i] =
            (struct pollfd){.fd = c->fd >= 0 && reads_now(c, now) ? c->fd : -1, .events = POLLIN};
    }
    poll(p, AT_ONCE, 1);
    now = clock_ns();
    for (int i = 0; i < AT_ONCE; i++) {
        struct client *c = &k->clients[i];
        if (p[i].revents)
            read_some(k, c);
        if (c->fd >= 0 && c->act_ns && now >= c->act_ns)
            act(k, c);
    }
}

/* n more requests; returns when the last of them is over. */
static void run(struct soak *k, int n)
{
    const int until = k->n_begun + n;
    for (int left = 1; left;) {
        left = 0;
        for (int i = 0; i < AT_ONCE; i++) {
            struct client *c = &k->clients[i];
            if (c->fd < 0 && k->n_begun < until)
                begin(k, c);
            left += c->fd >= 0;
        }
        turn(k);
    }
}

/* --- the server, from outside --- */

struct size {
    double rss_mib;
    int threads, descriptors;
};

static double status_value(const struct aid_server *s, const char *name)
{
    char path[64];
    struct err e = {0};
    struct buf text = BUF_INIT;
    snprintf(path, sizeof path, "/proc/%d/status", (int)s->pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (int ch; (ch = fgetc(f)) != EOF;)
        buf_putc(&text, (char)ch);
    fclose(f);
    assert_ok(buf_check(&text, &e), e);
    const char *at = strstr(buf_str(&text), name);
    assert_non_null(at);
    const double v = strtod(at + strlen(name), NULL);
    buf_free(&text);
    return v;
}

static int count_one(void *ctx, const char *name, struct err *e)
{
    (void)name, (void)e;
    ++*(int *)ctx;
    return 0;
}

struct threads {
    char dir[32];
    int n;
};

/* A thread that is the server's: the system's own, of io_uring, come and go. */
static int count_thread(void *ctx, const char *name, struct err *e)
{
    char path[80], word[8] = "";
    (void)e;
    snprintf(path, sizeof path, "%s/%s/comm", ((struct threads *)ctx)->dir, name);
    FILE *f = fopen(path, "r");
    if (f) {
        ((struct threads *)ctx)->n += fgets(word, sizeof word, f) && strncmp(word, "iou-", 4);
        fclose(f);
    }
    return 0;
}

/* Once nothing runs and every connection is closed; one that was left in the middle of a request
 * when it has been idle for too long. */
static struct size size_of(const struct aid_server *s, int descriptors)
{
    char path[64];
    struct size z = {0};
    struct err e = {0};
    snprintf(path, sizeof path, "/proc/%d/fd", (int)s->pid);
    for (int ms = 0; ms < 20000; ms += 10) {
        z.descriptors = 0;
        assert_ok(file_each(path, count_one, &z.descriptors, &e), e);
        if (!descriptors || z.descriptors <= descriptors)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    z.rss_mib = status_value(s, "VmRSS:") / 1024;
    struct threads t = {0};
    snprintf(t.dir, sizeof t.dir, "/proc/%d/task", (int)s->pid);
    assert_ok(file_each(t.dir, count_thread, &t, &e), e);
    z.threads = t.n;
    return z;
}

static void nothing_runs(const struct soak *k)
{
    size_t n = 1;
    for (int ms = 0; n && ms < 20000; ms += 10) {
        struct aid_answer a;
        aid_http(k->server.url, "GET", "/v1/requests", "", NULL, &a);
        json_t *v = json_loads(buf_str(&a.body), 0, NULL);
        n = json_array_size(aid_at(v, "data"));
        json_decref(v);
        aid_answer_free(&a);
        if (n)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    assert_int_equal(n, 0);
}

static void report(const struct soak *k, const struct size *first, const struct size *last,
                   uint64_t start)
{
    print_message("seed: %d\nnote: %d requests in %.1f s:", SEED, k->n_begun,
                  clock_seconds_since(start));
    for (int i = 0; i < KINDS; i++)
        print_message(" %d %s%s", k->n_kind[i], kind_names[i], i + 1 < KINDS ? "," : "\n");
    print_message("note: %d answers right, %d cancelled, %d refused, %d busy\n", k->n_right,
                  k->n_partial, k->n_refused, k->n_busy);
    print_message("worst: %.1f MiB more than after a fifth of them, at most %d; %d threads, %d "
                  "descriptors\n",
                  last->rss_mib - first->rss_mib, GROWTH_MAX_MIB, last->threads, last->descriptors);
}

static void test_a_thousand_requests(void **state)
{
    struct soak *k = mem_zalloc(1, sizeof *k);
    const int n = aid_slower() > 1 ? REQUESTS_SLOW : REQUESTS;
    const uint64_t start = clock_ns();
    char *model = aid_demo_pack(), *store = file_join(model, "packed");
    (void)state;
    k->seed = SEED;
    for (int i = 0; i < AT_ONCE; i++)
        k->clients[i].fd = -1;
    ask_alone(k, store);
    aid_serve(&k->server, store,
              (const char *const[]){"--threads", "1", "--sequences", "4", "--queue", "40",
                                    "--idle-timeout", "5", "--max-ctx", "2048", "--stream-buffer",
                                    "8Ki", "--request-size", "16Ki", "--prefix-memory", "16Mi",
                                    NULL});
    const struct size fresh = size_of(&k->server, 0);
    run(k, n / 5);
    nothing_runs(k);
    const struct size first = size_of(&k->server, fresh.descriptors);
    run(k, n - n / 5);
    nothing_runs(k);
    const struct size last = size_of(&k->server, fresh.descriptors);
    report(k, &first, &last, start);
    assert_int_equal(last.threads, first.threads);
    assert_int_equal(last.descriptors, fresh.descriptors);
    if (aid_slower() < 2) /* sanitizers keep what was freed */
        assert_true(last.rss_mib - first.rss_mib < GROWTH_MAX_MIB);
    assert_true(k->n_right > n / 4);
    assert_int_equal(aid_serve_stop(&k->server), 0);
    for (int q = 0; q < QUESTIONS; q++)
        buf_free(&k->want[q]);
    mem_free(k);
    mem_free(store);
    aid_rmdir(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thousand_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
