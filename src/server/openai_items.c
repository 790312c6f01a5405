/* GET /v1/responses/{id}/input_items: what a stored response answered, page by page; see openai.h.
 * An item is as the client sent it, but that it has a type and an id, and a message's text is a
 * part. */
#include "server/openai.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/items.h"
#include "server/server_inside.h"

enum { PAGE_DEFAULT = 20, PAGE_MAX = 100 };

/* What the query asks for. */
struct page {
    size_t limit;
    bool ascending;
    const char *after; /* the id of the last item that the client has, or NULL */
};

static int read_page(const struct exchange *x, struct page *p, struct wrong *w)
{
    const char *limit = exchange_query(x, "limit"), *order = exchange_query(x, "order");
    char *end = NULL;
    const long n = limit ? strtol(limit, &end, 10) : PAGE_DEFAULT;
    if (limit && (!*limit || *end || n < 1 || n > PAGE_MAX))
        return WRONG(w, E_FORMAT, "limit", "limit: want a whole number from 1 to %d, found '%.40s'",
                     PAGE_MAX, limit);
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return WRONG(w, E_FORMAT, "order", "order: want asc or desc, found '%.40s'", order);
    *p = (struct page){.limit = (size_t)n,
                       .ascending = order && strcmp(order, "asc") == 0,
                       .after = exchange_query(x, "after")};
    return 0;
}

/* An item as it is shown; for json_decref. */
static json_t *show(const json_t *item, const char *response_id, size_t place)
{
    json_t *v = json_copy((json_t *)item), *content = json_object_get(v, "content");
    const char *role = json_string_value(json_object_get(v, "role"));
    char id[ITEM_ID_ROOM];
    if (!json_is_string(json_object_get(v, "type")))
        json_object_set_new(v, "type", json_string("message"));
    if (!json_is_string(json_object_get(v, "id"))) {
        items_id("in", response_id, (int)place, id);
        json_object_set_new(v, "id", json_string(id));
    }
    if (json_is_string(content))
        json_object_set_new(
            v, "content",
            json_pack("[{s:s, s:O}]", "type",
                      role && strcmp(role, "assistant") == 0 ? "output_text" : "input_text", "text",
                      content));
    return v;
}

static const char *id_at(const json_t *list, size_t i)
{
    return json_string_value(json_object_get(json_array_get(list, i), "id"));
}

/* The page of all items in order. */
static int answer_page(struct exchange *x, const json_t *all, const struct page *p, struct wrong *w)
{
    const size_t n = json_array_size(all);
    json_t *data = json_array();
    size_t from = 0;
    if (p->after)
        while (from < n && strcmp(id_at(all, p->ascending ? from : n - 1 - from), p->after) != 0)
            from++;
    if (p->after && from++ == n) {
        json_decref(data);
        return WRONG(w, E_ARG, "after", "after: there is no item '%.80s' in this response's input",
                     p->after);
    }
    for (size_t i = from; i < n && i - from < p->limit; i++)
        json_array_append(data, json_array_get(all, p->ascending ? i : n - 1 - i));
    const size_t shown = json_array_size(data);
    api_reply(x, 200,
              json_pack("{s:s, s:o, s:s?, s:s?, s:b}", "object", "list", "data", data, "first_id",
                        id_at(data, 0), "last_id", shown ? id_at(data, shown - 1) : NULL,
                        "has_more", from + shown < n));
    return 0;
}

static json_t *input_of(const json_t *stored, const char *response_id)
{
    const json_t *items = json_object_get(stored, "items");
    json_t *list = json_array();
    for (size_t i = 0; i < items_n_input(stored); i++)
        json_array_append_new(list, show(json_array_get(items, i), response_id, i));
    return list;
}

void openai_response_items(struct server *s, struct exchange *x)
{
    const char *path = exchange_path(x) + strlen("/v1/responses/");
    struct wrong w = {0};
    struct page p;
    char id[ID_ROOM];
    json_t *stored = NULL, *all = NULL;
    snprintf(id, sizeof id, "%.*s", (int)strcspn(path, "/"), path);
    if (!read_page(x, &p, &w) && !kept_get(s->responses, id, &stored, &w.e)) {
        all = input_of(stored, id);
        if (json_starved())
            (void)ERR(&w.e, E_NOMEM, "no memory for the items");
        else
            (void)answer_page(x, all, &p, &w);
    }
    if (w.e.code)
        api_fail(x, &w);
    json_decref(all);
    json_decref(stored);
}
