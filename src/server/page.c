/* The web page: see page.h. */
#include "server/page.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static const char index_name[] = "index.html";

/* The page may load its own files and talk to its own server, and nothing else: no other origin, no
 * script or style inside the document, and no text that becomes HTML. */
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

static const char *type_of(const char *name)
{
    static const struct {
        const char *end, *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".svg", "image/svg+xml"},
    };
    const char *end = strrchr(name, '.');
    for (size_t i = 0; end && i < sizeof types / sizeof types[0]; i++)
        if (strcmp(end, types[i].end) == 0)
            return types[i].type;
    return "application/octet-stream";
}

static const struct page_file *find(const char *name)
{
    const struct page_file *f = page_files;
    while (f->name && strcmp(f->name, name) != 0)
        f++;
    return f->name ? f : NULL;
}

/* Browsers keep the file and ask each time whether it is still this one. */
static void answer(struct exchange *x, const struct page_file *f)
{
    struct buf body = BUF_INIT;
    char tag[24];
    assert(f);
    snprintf(tag, sizeof tag, "\"%016" PRIx64 "\"", (uint64_t)XXH3_64bits(f->data, f->bytes));
    const char *have = exchange_header(x, "If-None-Match");
    const bool same = have && (strcmp(have, "*") == 0 || strstr(have, tag));
    exchange_set_header(x, "ETag", tag);
    exchange_set_header(x, "Content-Security-Policy", policy);
    exchange_set_header(x, "X-Content-Type-Options", "nosniff");
    exchange_set_header(x, "Referrer-Policy", "no-referrer");
    if (!same)
        buf_add(&body, f->data, f->bytes);
    exchange_reply(x, same ? 304 : 200, type_of(f->name), &body);
}

void page_index(struct server *s, struct exchange *x)
{
    (void)s;
    answer(x, find(index_name));
}

void page_part(struct server *s, struct exchange *x)
{
    struct wrong w = {0};
    const char *name = exchange_path(x) + strlen("/page/");
    const struct page_file *f = strcmp(name, index_name) == 0 ? NULL : find(name);
    (void)s;
    if (f) {
        answer(x, f);
        return;
    }
    (void)ERR(&w.e, E_NOTFOUND, "the page has no file '%.80s'", name);
    api_fail(x, &w);
}
