/* Feeds files, or every file of folders, to a fuzz target once each, without a fuzzing engine:
 * linked with fuzz_STEM.c it becomes replay_STEM, so that `make test` runs the seeds (and the
 * crashes kept among them) in every build and with every compiler. Exits 1 if a file cannot be
 * read or none was given; a crash is a crash. */
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/file.h"

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

static int replay(const char *path, int *n, struct err *e)
{
    char name[4096];
    if (!file_is_dir(path)) {
        (*n)++;
        return replay_file(path, e);
    }
    DIR *dir = opendir(path);
    if (!dir)
        return err_sys(e, "%s: cannot list", path);
    int rc = 0;
    for (struct dirent *d; !rc && (d = readdir(dir));) {
        if (d->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, d->d_name);
        rc = replay(name, n, e);
    }
    closedir(dir);
    return rc;
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
