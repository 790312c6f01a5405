/* cherenkov dash: what a running server does, live. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "cli/dash.h"
#include "cli/flags.h"
#include "cli/remote.h"
#include "cli/screen.h"

enum { REFRESH_MS = 1000, KEY_WAIT_MS = 200 };

/* One that has gone may have been started again: without --socket it is looked for anew. */
static int find(const char *wanted, struct buf *socket, struct err *e)
{
    if (socket->len && wanted)
        return 0;
    buf_clear(socket);
    return remote_find(wanted, socket, e);
}

static int ask_all(const char *socket, const struct dash *d, json_t *got[3], struct err *e)
{
    char path[64];
    struct err why = {0}; /* a server that is still loading has no experts */
    int rc = remote_ask(socket, "GET", "/v1/stats", &got[0], e);
    rc = rc ? rc : remote_ask(socket, "GET", "/v1/requests", &got[1], e);
    snprintf(path, sizeof path, "/v1/stats/experts/%d", d->layer);
    if (!rc && d->view == DASH_EXPERTS)
        (void)remote_ask(socket, "GET", path, &got[2], &why);
    return rc;
}

static int ask(struct dash *d, const char *wanted, struct buf *socket, struct err *e)
{
    json_t *got[3] = {NULL};
    int rc = find(wanted, socket, e);
    rc = rc ? rc : ask_all(buf_str(socket), d, got, e);
    if (!rc) {
        dash_take(d, got[0], got[1], got[2]);
        return 0;
    }
    for (int i = 0; i < 3; i++)
        json_decref(got[i]);
    buf_clear(socket);
    return rc;
}

static int show(const struct dash *d, struct err *e)
{
    struct canvas c;
    int w, h;
    screen_size(&w, &h);
    if (canvas_open(&c, w, h, e))
        return -e->code;
    dash_draw(d, &c);
    screen_show(&c);
    canvas_close(&c);
    return 0;
}

/* Until a key or a signal ends it. */
static int watch(struct dash *d, const char *wanted, struct buf *socket, struct err *e)
{
    uint64_t asked = clock_ns();
    while (!d->quit && !interrupt_asked()) {
        if (d->refresh || clock_seconds_since(asked) * 1000 >= REFRESH_MS) {
            struct err why = {0};
            d->refresh = false;
            asked = clock_ns();
            if (ask(d, wanted, socket, &why))
                dash_lose(d, why.msg);
        }
        if (show(d, e))
            return -e->code;
        const int key = screen_key(d->refresh ? 0 : KEY_WAIT_MS);
        int w, h;
        screen_size(&w, &h);
        dash_key(d, key, w, h);
    }
    return interrupt_final() ? interrupt_check(e) : 0;
}

static int run(int argc, char **argv, struct err *e)
{
    const char *wanted = NULL;
    const struct flag flag[] = {
        {"socket", FLAG_STRING, &wanted, "PATH|PID", "which server, where several run", 0, 0},
        {0},
    };
    struct flags f = {.command = &cmd_dash, .flag = flag};
    struct dash d = {0};
    struct buf socket = BUF_INIT;
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    rc = ask(&d, wanted, &socket, e);
    rc = rc ? rc : screen_open(e);
    if (!rc) {
        interrupt_catch_always();
        rc = watch(&d, wanted, &socket, e);
        screen_close();
    }
    buf_free(&socket);
    dash_free(&d);
    return rc;
}

const struct command cmd_dash = {"dash", "", "watch a running server", run};
