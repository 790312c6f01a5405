/* cherenkov stats: what a running server has counted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/figures.h"
#include "cli/flags.h"
#include "cli/remote.h"

enum { LIMIT = 64, LIMIT_MAX = 100000, LAYER_DIGITS = 6 };

enum view { VIEW_SUMMARY, VIEW_LAYERS, VIEW_EXPERTS };

struct question {
    enum view view;
    const char *layer; /* VIEW_EXPERTS */
    int64_t offset, limit;
    bool json;
};

static int read_question(const struct flags *f, struct question *q, struct err *e)
{
    static const char *const words[] = {"summary", "layers", "experts"};
    const char *word = f->n_args ? f->args[0] : words[0];
    int i = 0;
    while (i < 3 && strcmp(word, words[i]) != 0)
        i++;
    q->view = (enum view)i;
    if (i == 3)
        return ERR(e, E_ARG, "stats: there is no view '%s': want summary, layers or experts N",
                   word);
    if ((f->n_args == 2) != (q->view == VIEW_EXPERTS))
        return ERR(e, E_ARG, "stats: %s",
                   q->view == VIEW_EXPERTS ? "experts wants the number of a layer"
                                           : "only experts has a number");
    q->layer = f->n_args == 2 ? f->args[1] : NULL;
    const size_t n = q->layer ? strspn(q->layer, "0123456789") : 0;
    if (q->layer && (!n || n > LAYER_DIGITS || q->layer[n]))
        return ERR(e, E_ARG, "stats: '%s' is not the number of a layer", q->layer);
    return 0;
}

static int print(const struct question *q, const json_t *v, struct err *e)
{
    const size_t offset = (size_t)q->offset, limit = (size_t)q->limit;
    struct buf out = BUF_INIT;
    int rc = 0;
    if (q->json) {
        rc = json_print(v, JSON_INDENT(2), &out, e);
        buf_putc(&out, '\n');
    } else if (q->view == VIEW_SUMMARY) {
        figures_summary(v, &out);
    } else if (q->view == VIEW_LAYERS) {
        figures_layers(v, offset, limit, &out);
    } else {
        figures_experts(v, offset, limit, &out);
    }
    rc = rc ? rc : buf_check(&out, e);
    if (!rc)
        fputs(buf_str(&out), stdout);
    buf_free(&out);
    return rc;
}

static int answer(const char *wanted, const struct question *q, struct err *e)
{
    char path[64];
    struct buf socket = BUF_INIT;
    json_t *v = NULL;
    snprintf(path, sizeof path, q->layer ? "/v1/stats/experts/%s" : "/v1/stats", q->layer);
    int rc = remote_find(wanted, &socket, e);
    rc = rc ? rc : remote_ask(buf_str(&socket), "GET", path, &v, e);
    if (!rc && strcmp(figure_word(v, "state"), "loading") == 0)
        rc = ERR(e, E_BUSY, "the server is still loading the model; try again later");
    rc = rc ? rc : print(q, v, e);
    json_decref(v);
    buf_free(&socket);
    return rc;
}

static int run(int argc, char **argv, struct err *e)
{
    const char *wanted = NULL;
    struct question q = {.limit = LIMIT};
    const struct flag flag[] = {
        {"socket", FLAG_STRING, &wanted, "PATH|PID", "which server, where several run", 0, 0},
        {"json", FLAG_BOOL, &q.json, NULL, "all the figures, as the server gives them", 0, 0},
        {"offset", FLAG_INT, &q.offset, "N", "layers or experts to pass over (0)", 0, LIMIT_MAX},
        {"limit", FLAG_INT, &q.limit, "N", "and to show at most (64)", 1, LIMIT_MAX},
        {0},
    };
    struct flags f = {.command = &cmd_stats, .flag = flag, .max_args = 2};
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    rc = read_question(&f, &q, e);
    return rc ? rc : answer(wanted, &q, e);
}

const struct command cmd_stats = {"stats", "[summary | layers | experts N]",
                                  "what a running server has counted", run};
