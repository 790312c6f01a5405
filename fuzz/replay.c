/* Feeds files, or every file of folders, to a fuzz target once each, without a fuzzing engine:
 * linked with fuzz_STEM.c it becomes replay_STEM, so that `make test` runs the seeds (and the
 * crashes kept among them) in every build and with every compiler. Exits 1 if a file cannot be
 * read or none was given; a crash is a crash. */
#include <stdio.h>

#include "base/file.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEED_BYTES_MAX = 64 << 20 };

static int replay_file(const char *path, struct err *e)
{
    struct buf b = BUF_INIT;
    int rc = file_read_all(path, SEED_BYTES_MAX, &b, e);
    if (!rc)
        LLVMFuzzerTestOneInput((const uint8_t *)buf_str(&b), b.len);
    buf_free(&b);
    return rc;
}

struct folder {
    const char *path;
    int *n;
};

static int replay(const char *path, int *n, struct err *e);

static int replay_entry(void *ctx, const char *name, struct err *e)
{
    struct folder *f = ctx;
    char *path = file_join(f->path, name);
    int rc = path ? replay(path, f->n, e) : ERR(e, E_NOMEM, "no memory for a path");
    mem_free(path);
    return rc;
}

static int replay(const char *path, int *n, struct err *e)
{
    struct folder f = {path, n};
    if (file_is_dir(path))
        return file_each(path, replay_entry, &f, e);
    (*n)++;
    return replay_file(path, e);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    int n = 0, rc = 0;
    for (int i = 1; i < argc && !rc; i++)
        rc = replay(argv[i], &n, &e);
    if (!rc && !n)
        rc = ERR(&e, E_NOTFOUND, "no seeds were given");
    if (rc)
        fprintf(stderr, "%s: %s\n", argv[0], e.msg);
    else
        printf("%d inputs\n", n);
    return rc ? 1 : 0;
}
