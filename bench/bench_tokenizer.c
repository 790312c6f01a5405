/* Tokenizer: load time, and megabytes of text a second, one thread.
 *
 *   bench_tokenizer [TOKENIZER.JSON [TEXT]]
 *
 * Times are of the processor, not of the clock on the wall: all of it is one thread's work, and
 * other programs on the machine then matter less. A short text is repeated to 8 MB; without one
 * this project's own documents are used. */
#include <stdio.h>
#include <time.h>

#include "base/file.h"
#include "base/mem.h"
#include "text/tokenizer.h"

enum { TEXT_MIN = 8 << 20, RUNS = 5 };

static double seconds_since(clock_t start)
{
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

static int read_text(int argc, char **argv, struct buf *text, struct err *e)
{
    static const char *const own[] = {"README.md", "LICENSE", "CONTRIBUTING.md"};
    struct buf once = BUF_INIT;
    int rc = 0;
    for (size_t i = 0; argc < 3 && i < sizeof own / sizeof own[0] && !rc; i++)
        if (file_exists(own[i]))
            rc = file_read_all(own[i], TEXT_MIN, &once, e);
    if (argc >= 3)
        rc = file_read_all(argv[2], 1 << 30, &once, e);
    if (!rc && !once.len)
        rc = ERR(e, E_ARG, "there is no text to measure with");
    while (!rc && text->len < TEXT_MIN && !text->failed)
        buf_add(text, once.data, once.len);
    buf_free(&once);
    return rc ? rc : buf_check(text, e);
}

static int measure_load(const char *path, struct err *e)
{
    double best = 1e9;
    struct tokenizer *t;
    for (int i = 0; i < RUNS; i++) {
        clock_t start = clock();
        int rc = tokenizer_open(path, &t, e);
        if (rc)
            return rc;
        double took = seconds_since(start);
        best = took < best ? took : best;
        if (i + 1 == RUNS)
            printf("%s: %d ids, loaded in %.3f s\n", path, tokenizer_count(t), best);
        tokenizer_close(t);
    }
    return 0;
}

static int measure_encode(const struct tokenizer *t, const char *name, const struct buf *text,
                          struct err *e)
{
    double best = 1e9;
    size_t n = 0;
    for (int i = 0; i < RUNS; i++) {
        struct tokens ids = {0};
        clock_t start = clock();
        int rc = tokenizer_encode(t, text->data, text->len, false, &ids, e);
        double took = seconds_since(start);
        best = took < best ? took : best;
        n = ids.n;
        tokens_free(&ids);
        if (rc)
            return rc;
    }
    printf("%-14s %9zu bytes %8zu tokens %8.1f MB/s %7.3f s\n", name, text->len, n,
           (double)text->len / best / 1e6, best);
    return 0;
}

/* A million bytes of the same thing. */
static int measure_runs(const struct tokenizer *t, struct err *e)
{
    static const char *const units[][2] = {{"letters", "a"},
                                           {"blanks", " "},
                                           {"emoji", "😀"},
                                           {"line ends", "\n"},
                                           {"marks", "\u0301\u0323"},
                                           {"digits", "7"},
                                           {"hangul", "\u1112\u1161\u11ab"}};
    int rc = 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0] && !rc; i++) {
        struct buf b = BUF_INIT;
        while (b.len < 1000000 && !b.failed)
            buf_puts(&b, units[i][1]);
        rc = buf_check(&b, e);
        rc = rc ? rc : measure_encode(t, units[i][0], &b, e);
        buf_free(&b);
    }
    return rc;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "models/demo";
    struct buf text = BUF_INIT;
    struct err e = {0};
    struct tokenizer *t = NULL;
    int rc = measure_load(path, &e);
    rc = rc ? rc : read_text(argc, argv, &text, &e);
    rc = rc ? rc : tokenizer_open(path, &t, &e);
    rc = rc ? rc : measure_encode(t, "text", &text, &e);
    rc = rc ? rc : measure_runs(t, &e);
    if (rc)
        fprintf(stderr, "%s\n", e.msg);
    tokenizer_close(t);
    buf_free(&text);
    return rc != 0;
}
