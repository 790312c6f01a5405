/* What might come over a control socket: an answer of HTTP with JSON, or anything else. What is
 * taken is shown in every form that the commands have. */
#include <stdint.h>
#include <stdlib.h>

#include "cli/dash.h"
#include "cli/figures.h"
#include "cli/remote.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void show(json_t *v)
{
    struct buf out = BUF_INIT;
    struct dash d = {0};
    struct canvas c = {0};
    struct err e = {0};
    figures_summary(v, &out);
    figures_layers(v, 1, 3, &out);
    figures_experts(v, 0, 5, &out);
    buf_free(&out);
    for (int i = 0; i < 2; i++)
        dash_take(&d, json_incref(v), json_incref(v), json_incref(v));
    for (const char *key = "123f"; *key; key++) {
        dash_key(&d, *key, 80, 24);
        if (canvas_open(&c, 80, 24, &e))
            abort();
        dash_draw(&d, &c);
        canvas_close(&c);
    }
    dash_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct err e = {0};
    json_t *v;
    if (remote_parse((const char *)data, n, "socket", &v, &e)) {
        if (!e.msg[0] || v)
            abort();
        return 0;
    }
    show(v);
    json_decref(v);
    return 0;
}
