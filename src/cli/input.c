/* Reading what commands are given: see input.h. */
#include "cli/input.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

enum { INPUT_MAX = 64 << 20 };

int input_stdin(struct buf *out, struct err *e)
{
    const size_t start = out->len;
    for (;;) {
        char *to = buf_reserve(out, 65536);
        if (!to)
            return buf_check(out, e);
        size_t n = fread(to, 1, 65536, stdin);
        out->len += n;
        out->data[out->len] = '\0';
        if (out->len - start > INPUT_MAX)
            return ERR(e, E_LIMIT, "standard input has more than %d bytes", INPUT_MAX);
        if (n == 0)
            break;
    }
    if (ferror(stdin))
        return err_sys(e, "reading standard input failed");
    return 0;
}

int input_text(const char *arg, struct buf *out, struct err *e)
{
    if (strcmp(arg, "-") == 0)
        return input_stdin(out, e);
    if (!*arg)
        return ERR(e, E_ARG, "an empty text is given, want a file, - or words");
    if (file_exists(arg))
        return file_read_all(arg, INPUT_MAX, out, e);
    if (!strpbrk(arg, " \t\n"))
        return ERR(e, E_NOTFOUND,
                   "%s: no such file (a text given in place of a file must have a blank in it)",
                   arg);
    buf_puts(out, arg);
    return buf_check(out, e);
}

static bool is_list(const char *arg)
{
    return *arg && arg[strspn(arg, "0123456789, \t\n")] == '\0';
}

static size_t skip_blanks(const struct buf *text, size_t at)
{
    while (at < text->len && isspace((unsigned char)text->data[at]))
        at++;
    return at;
}

static int unexpected(const char *where, const struct buf *text, size_t at, struct err *e)
{
    if (at >= text->len)
        return ERR(e, E_FORMAT, "%s: ends where a token id should come", where);
    return ERR(e, E_FORMAT, "%s: byte %zu: want a token id from 0 to %d, found '%.10s'", where, at,
               INT32_MAX, text->data + at);
}

/* One number at *at, which is moved behind it and what parts it from the next. *more: a comma
 * came, so a next one must. */
static int read_id(const char *where, const struct buf *text, size_t *at, bool *more, int32_t *id,
                   struct err *e)
{
    const size_t start = *at;
    int64_t n = 0;
    size_t i = start;
    for (; i < text->len && isdigit((unsigned char)text->data[i]) && n <= INT32_MAX; i++)
        n = 10 * n + (text->data[i] - '0');
    if (i == start || n > INT32_MAX)
        return unexpected(where, text, start, e);
    const size_t end = i;
    i = skip_blanks(text, i);
    *more = i < text->len && text->data[i] == ',';
    if (*more)
        i = skip_blanks(text, i + 1);
    if (i == end && i < text->len && text->data[i] != ']')
        return unexpected(where, text, i, e);
    *id = (int32_t)n;
    *at = i;
    return 0;
}

static int parse_ids(const char *where, const struct buf *text, struct tokens *out, struct err *e)
{
    size_t at = skip_blanks(text, 0);
    const bool array = at < text->len && text->data[at] == '[';
    bool more = true;
    if (array)
        at = skip_blanks(text, at + 1);
    while (more || (at < text->len && text->data[at] != ']')) {
        int32_t id = 0;
        if (read_id(where, text, &at, &more, &id, e) || tokens_push(out, id, e))
            return -e->code;
    }
    if (array && at < text->len && text->data[at] == ']')
        at = skip_blanks(text, at + 1);
    else if (array)
        return ERR(e, E_FORMAT, "%s: the array of token ids is not closed", where);
    return at == text->len ? 0 : unexpected(where, text, at, e);
}

int input_ids(const char *arg, struct tokens *out, struct err *e)
{
    const bool list = is_list(arg), standard = strcmp(arg, "-") == 0;
    const char *where = list ? "list of ids" : standard ? "standard input" : arg;
    struct buf text = BUF_INIT;
    int rc;
    if (!*arg)
        return ERR(e, E_ARG, "the list of ids is empty, want one like 1,2,3 or a file of ids");
    if (list)
        buf_puts(&text, arg);
    if (list)
        rc = buf_check(&text, e);
    else
        rc = standard ? input_stdin(&text, e) : file_read_all(arg, INPUT_MAX, &text, e);
    struct err why = {0};
    if (!rc && parse_ids(where, &text, out, &why)) /* a list is part of the command line */
        rc = ERR(e, list && why.code == E_FORMAT ? E_ARG : why.code, "%s", why.msg);
    else if (rc && e->code == E_NOTFOUND)
        err_prefix(e, "want a list like 1,2,3 or a file of ids");
    buf_free(&text);
    return rc;
}
