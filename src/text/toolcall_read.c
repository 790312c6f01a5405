/* A whole answer at once: see toolcall_read in toolcall.h. */
#include <string.h>

#include "text/toolcall.h"

struct answer {
    struct buf *text;
    struct buf arguments;
    json_t *calls;
    bool failed;
};

static void take(void *ctx, const struct toolcall_event *event)
{
    struct answer *a = ctx;
    json_t *call;
    switch (event->kind) {
    case TOOLCALL_TEXT:
        buf_add(a->text, event->text, event->len);
        break;
    case TOOLCALL_BEGIN:
        buf_clear(&a->arguments);
        call = json_pack("{s:s%}", "name", event->text, event->len);
        a->failed |= !call || json_array_append_new(a->calls, call);
        break;
    case TOOLCALL_ARGUMENTS:
        buf_add(&a->arguments, event->text, event->len);
        break;
    case TOOLCALL_END:
        call = json_array_get(a->calls, (size_t)event->index);
        a->failed |= json_object_set_new(call, "arguments",
                                         json_stringn(a->arguments.data, a->arguments.len));
        a->failed |= json_object_set_new(call, "cut", json_boolean(event->cut));
        break;
    }
}

int toolcall_read(const struct toolset *tools, bool strict, const struct buf *text, struct buf *out,
                  json_t **calls, struct err *e)
{
    struct answer a = {.text = out, .calls = json_array()};
    const struct toolcall_options o = {
        .tools = tools, .strict = strict, .ctx = &a, .on_event = take};
    struct toolcall *c = NULL;
    int rc = a.calls ? 0 : ERR(e, E_NOMEM, "no memory to read calls");
    *calls = NULL;
    if (!rc)
        rc = toolcall_open(&o, &c, e);
    if (!rc)
        rc = toolcall_push(c, text->data, text->len, e);
    if (!rc)
        rc = toolcall_finish(c, e);
    if (!rc && (a.failed || a.arguments.failed))
        rc = ERR(e, E_NOMEM, "no memory to read calls");
    toolcall_close(c);
    buf_free(&a.arguments);
    if (rc)
        json_decref(a.calls);
    else
        *calls = a.calls;
    return rc;
}
