/* A configuration file of any bytes: refused with a message, or read; and what is then printed can
 * be read again and prints the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/flags_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct command command = {"serve", "STORE", "", NULL};
static const char *const none[] = {NULL};

struct values {
    bool on;
    const char *word;
    int64_t n;
    double real;
    uint64_t bytes;
    int choice;
    struct flag_list list;
    struct flag rows[8];
    struct flags flags;
    struct flags_file file;
};

static void init(struct values *v)
{
    const struct flag table[8] = {
        {"is-on", FLAG_BOOL, &v->on, NULL, "a switch", 0, 0},
        {"word", FLAG_STRING, &v->word, "W", "a word", 0, 0},
        {"n-things", FLAG_INT, &v->n, "N", "a number", 0, 1e12},
        {"real", FLAG_REAL, &v->real, "R", "a fraction", 0, 10},
        {"bytes", FLAG_SIZE, &v->bytes, "SIZE", "a size", 1, 1e15},
        {"choice", FLAG_WORD, &v->choice, "one|two", "a choice", 0, 0},
        {"list", FLAG_LIST, &v->list, "X", "words", 0, 0},
    };
    *v = (struct values){.n = -1, .real = -1};
    memcpy(v->rows, table, sizeof table);
    v->flags = (struct flags){.command = &command, .flag = v->rows, .max_args = 1};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct values v, w;
    struct err e = {0};
    struct buf out = BUF_INIT, twice = BUF_INIT;
    char *text = mem_strndup((const char *)data, n);
    init(&v);
    init(&w);
    if (!text)
        return 0;
    if (flags_file_parse(&v.flags, text, "file", &v.file, &e)) {
        if (!e.code || !e.msg[0])
            abort();
    } else {
        flags_file_print(&v.flags, none, &out);
        if (flags_file_parse(&w.flags, buf_str(&out), "again", &w.file, &e))
            abort();
        flags_file_print(&w.flags, none, &twice);
        if (strcmp(buf_str(&out), buf_str(&twice)) != 0)
            abort();
    }
    flags_file_free(&v.file);
    flags_file_free(&w.file);
    buf_free(&out);
    buf_free(&twice);
    mem_free(text);
    return 0;
}
