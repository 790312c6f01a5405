/* cherenkov tokenize: what a text is to the model, and back. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/flags.h"
#include "cli/input.h"
#include "cli/show.h"

struct options {
    bool plain, ids, json;
    const char *decode;
    double load_seconds;
};

/* Opens the tokenizer of a folder, of a store, of the store in a folder's packed/, or a file. */
static int open_tokenizer(const char *path, struct tokenizer **t, struct err *e)
{
    char *own = file_join(path, "tokenizer.json"), *packed = file_join(path, "packed");
    char *inner = packed ? file_join(packed, "tokenizer.json") : NULL;
    int rc = own && inner ? 0 : ERR(e, E_NOMEM, "%s: out of memory", path);
    if (!rc)
        rc = tokenizer_open(!file_exists(own) && file_exists(inner) ? packed : path, t, e);
    mem_free(own);
    mem_free(packed);
    mem_free(inner);
    return rc;
}

static int print_table(const struct tokenizer *t, const struct tokens *ids, struct err *e)
{
    struct buf b = BUF_INIT;
    for (size_t i = 0; i < ids->n; i++) {
        size_t n;
        const char *s = tokenizer_bytes(t, ids->ids[i], &n);
        buf_printf(&b, "%d\t", ids->ids[i]);
        show_text(&b, s, n);
        buf_putc(&b, '\n');
    }
    int rc = buf_check(&b, e);
    if (!rc)
        fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
    return rc;
}

static void print_ids(const struct tokens *ids)
{
    for (size_t i = 0; i < ids->n; i++)
        printf("%s%d", i ? "," : "", ids->ids[i]);
    printf("\n");
}

static int print_json(const struct tokenizer *t, const struct tokens *ids, struct err *e)
{
    json_t *list = json_array(), *pieces = json_array();
    int rc = 0;
    for (size_t i = 0; i < ids->n && !rc; i++) {
        struct buf b = BUF_INIT;
        rc = tokenizer_decode(t, &ids->ids[i], 1, false, &b, e);
        json_array_append_new(list, json_integer(ids->ids[i]));
        json_array_append_new(pieces, json_stringn(buf_str(&b), b.len));
        buf_free(&b);
    }
    json_t *all = json_pack("{s:o, s:o}", "ids", list, "pieces", pieces);
    char *text = all && !rc ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    if (!text)
        return rc ? rc : ERR(e, E_NOMEM, "out of memory for %zu tokens", ids->n);
    printf("%s\n", text);
    free(text);
    return 0;
}

/* The closing line. */
static void say_figures(const struct tokenizer *t, const struct options *o, size_t n_tokens,
                        size_t n_bytes)
{
    log_say(LOG_INFO, "%zu tokens, %zu bytes; %d ids loaded in %.3f s", n_tokens, n_bytes,
            tokenizer_count(t), o->load_seconds);
}

static int encode(const struct tokenizer *t, const struct options *o, const char *arg,
                  struct err *e)
{
    struct buf text = BUF_INIT;
    struct tokens ids = {0};
    int rc = 0;
    if (strcmp(arg, "-") == 0)
        rc = input_stdin(&text, e);
    else
        buf_puts(&text, arg);
    rc = rc ? rc : buf_check(&text, e);
    rc = rc ? rc : tokenizer_encode(t, buf_str(&text), text.len, o->plain, &ids, e);
    if (!rc && o->json)
        rc = print_json(t, &ids, e);
    else if (!rc && o->ids)
        print_ids(&ids);
    else if (!rc)
        rc = print_table(t, &ids, e);
    if (!rc)
        say_figures(t, o, ids.n, text.len);
    tokens_free(&ids);
    buf_free(&text);
    return rc;
}

static int decode(const struct tokenizer *t, const struct options *o, struct err *e)
{
    struct buf text = BUF_INIT;
    struct tokens ids = {0};
    int rc = input_ids(o->decode, &ids, e);
    for (size_t i = 0, n; i < ids.n && !rc; i++)
        if (!tokenizer_bytes(t, ids.ids[i], &n))
            rc = ERR(e, E_ARG, "--decode: there is no token with id %d; ids in use are below %d",
                     ids.ids[i], tokenizer_count(t));
    rc = rc ? rc : tokenizer_decode(t, ids.ids, ids.n, false, &text, e);
    if (!rc) {
        fwrite(buf_str(&text), 1, text.len, stdout);
        printf("\n");
        say_figures(t, o, ids.n, text.len);
    }
    tokens_free(&ids);
    buf_free(&text);
    return rc;
}

static int run(int argc, char **argv, struct err *e)
{
    struct options o = {0};
    const struct flag flags[] = {
        {.name = "plain",
         .to = &o.plain,
         .help = "take markers such as <|im_end|> as ordinary text"},
        {.name = "ids", .to = &o.ids, .help = "print the ids alone, with commas between"},
        {.name = "json", .to = &o.json, .help = "print one object with ids and pieces"},
        {.name = "decode",
         FLAG_STRING,
         &o.decode,
         "LIST",
         "print the text of these ids (1,2,3, a file of them, or -)",
         0,
         0},
        {0}};
    struct flags f = {.command = &cmd_tokenize, .flag = flags, .min_args = 1, .max_args = 2};
    struct tokenizer *t = NULL;
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    if (!o.decode == (f.n_args == 1))
        return ERR(e, E_ARG, "tokenize: give a TEXT, or - for standard input, or --decode LIST");
    if (o.decode && (o.plain || o.ids || o.json))
        return ERR(e, E_ARG, "tokenize: --decode prints text; it goes with no other flag");
    uint64_t start = clock_ns();
    rc = open_tokenizer(f.args[0], &t, e);
    if (rc)
        return rc;
    o.load_seconds = clock_seconds_since(start);
    rc = o.decode ? decode(t, &o, e) : encode(t, &o, f.args[1], e);
    tokenizer_close(t);
    return rc;
}

const struct command cmd_tokenize = {"tokenize", "STORE|FOLDER|tokenizer.json [TEXT | -]",
                                     "show the tokens of a text, or the text of tokens", run};
