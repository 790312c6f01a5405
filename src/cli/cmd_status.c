/* cherenkov status: how a running server does, on one screen. */
#include <stdio.h>

#include "base/json.h"
#include "cli/figures.h"
#include "cli/flags.h"
#include "cli/remote.h"

static int run(int argc, char **argv, struct err *e)
{
    const char *wanted = NULL;
    bool json = false;
    const struct flag flag[] = {
        {"socket", FLAG_STRING, &wanted, "PATH|PID", "which server, where several run", 0, 0},
        {"json", FLAG_BOOL, &json, NULL, "all the figures, as /v1/stats gives them", 0, 0},
        {0},
    };
    struct flags f = {.command = &cmd_status, .flag = flag};
    struct buf socket = BUF_INIT, out = BUF_INIT;
    json_t *v = NULL;
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    rc = remote_find(wanted, &socket, e);
    rc = rc ? rc : remote_ask(buf_str(&socket), "GET", "/v1/stats", &v, e);
    if (!rc && json)
        rc = json_print(v, JSON_INDENT(2), &out, e);
    else if (!rc)
        figures_status(v, &out);
    rc = rc ? rc : buf_check(&out, e);
    if (!rc)
        printf("%s%s", buf_str(&out), json ? "\n" : "");
    json_decref(v);
    buf_free(&out);
    buf_free(&socket);
    return rc;
}

const struct command cmd_status = {"status", "", "how a running server does", run};
