/* Files: see file.h. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/mem.h"

static atomic_long fault[FILE_FAULT_COUNT]; /* calls left until the fault; 0 is off */

void file_fault_at(enum file_fault kind, long nth)
{
    atomic_store(&fault[kind], nth);
}

/* True when this call is the one that fails. A sticky fault stays at 1 once it is reached. */
static bool faulty(enum file_fault kind, bool sticky)
{
    long left = atomic_load_explicit(&fault[kind], memory_order_relaxed);
    while (left > 0 && !(left == 1 && sticky)) {
        if (atomic_compare_exchange_weak(&fault[kind], &left, left - 1))
            return left == 1;
    }
    return left == 1;
}

static void maybe_die(void)
{
    if (faulty(FILE_FAULT_KILL, false))
        raise(SIGKILL);
}

/* pread and pwrite with the faults that tests ask for. */
static ssize_t read_some(int fd, void *to, size_t n, uint64_t off)
{
    errno = faulty(FILE_FAULT_INTR, false) ? EINTR : faulty(FILE_FAULT_READ, false) ? EIO : 0;
    if (errno)
        return -1;
    return pread(fd, to, faulty(FILE_FAULT_SHORT, true) ? 1 : n, (off_t)off);
}

static ssize_t write_some(int fd, const void *from, size_t n, uint64_t off)
{
    maybe_die();
    errno = faulty(FILE_FAULT_INTR, false) ? EINTR : faulty(FILE_FAULT_WRITE, true) ? ENOSPC : 0;
    if (errno)
        return -1;
    return pwrite(fd, from, faulty(FILE_FAULT_SHORT, true) ? 1 : n, (off_t)off);
}

static int open_with(const char *path, int flags, struct file *f, struct err *e)
{
    struct stat st;
    *f = FILE_CLOSED;
    int fd = open(path, flags | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_sys(e, "%s: cannot open", path);
    if (fstat(fd, &st)) {
        int rc = err_sys(e, "%s: cannot look at it", path);
        close(fd);
        return rc;
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return ERR(e, E_FORMAT, "%s: want a regular file, found %s", path,
                   S_ISDIR(st.st_mode) ? "a directory" : "a device or pipe");
    }
    char *copy = mem_strdup(path);
    if (!copy) {
        close(fd);
        return ERR(e, E_NOMEM, "out of memory opening %s", path);
    }
    int64_t mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    *f = (struct file){fd, copy, (uint64_t)st.st_size, mtime_ns};
    return 0;
}

int file_open(const char *path, struct file *f, struct err *e)
{
    return open_with(path, O_RDONLY | O_NONBLOCK, f, e);
}

int file_create(const char *path, struct file *f, struct err *e)
{
    return open_with(path, O_RDWR | O_CREAT | O_TRUNC, f, e);
}

int file_reopen(const char *path, struct file *f, struct err *e)
{
    return open_with(path, O_RDWR | O_CREAT, f, e);
}

int file_read_at(const struct file *f, uint64_t off, void *to, size_t n, struct err *e)
{
    size_t done = 0;
    while (done < n) {
        ssize_t r = read_some(f->fd, (char *)to + done, n - done, off + done);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return err_sys(e, "%s: reading %zu bytes at %llu failed", f->path, n,
                           (unsigned long long)off);
        if (r == 0)
            return ERR(e, E_FORMAT,
                       "%s: ends at byte %llu, want %zu bytes at %llu: is it complete?", f->path,
                       (unsigned long long)(off + done), n, (unsigned long long)off);
        done += (size_t)r;
    }
    return 0;
}

int file_write_at(const struct file *f, uint64_t off, const void *from, size_t n, struct err *e)
{
    size_t done = 0;
    while (done < n) {
        ssize_t w = write_some(f->fd, (const char *)from + done, n - done, off + done);
        if (w < 0 && errno == EINTR)
            continue;
        if (w == 0)
            errno = EIO; /* never seen for a regular file; a loop would not end */
        if (w <= 0)
            return err_sys(e, "%s: writing %zu bytes at %llu failed", f->path, n,
                           (unsigned long long)off);
        done += (size_t)w;
    }
    return 0;
}

int file_set_size(const struct file *f, uint64_t size, struct err *e)
{
    if (ftruncate(f->fd, (off_t)size))
        return err_sys(e, "%s: setting its size to %llu bytes failed", f->path,
                       (unsigned long long)size);
    return 0;
}

int file_sync(const struct file *f, struct err *e)
{
    maybe_die();
    bool fail = faulty(FILE_FAULT_SYNC, false);
    if (fail)
        errno = EIO;
    if (fail || fsync(f->fd))
        return err_sys(e, "%s: flushing to disk failed", f->path);
    return 0;
}

int file_close(struct file *f, struct err *e)
{
    if (f->fd < 0)
        return 0;
    int rc = close(f->fd);
    if (rc && errno != EINTR)
        rc = err_sys(e, "%s: closing failed", f->path);
    else
        rc = 0;
    mem_free(f->path);
    *f = FILE_CLOSED;
    return rc;
}

void file_drop(struct file *f)
{
    struct err ignored = {0};
    file_close(f, &ignored);
}

int file_read_all(const char *path, uint64_t max, struct buf *out, struct err *e)
{
    struct file f;
    int rc = file_open(path, &f, e);
    if (rc)
        return rc;
    char *to = NULL;
    if (f.size > max)
        rc = ERR(e, E_LIMIT, "%s: is %llu bytes, want at most %llu", path,
                 (unsigned long long)f.size, (unsigned long long)max);
    else if (!(to = buf_reserve(out, (size_t)f.size)))
        rc = ERR(e, E_NOMEM, "%s: no memory for %llu bytes", path, (unsigned long long)f.size);
    else
        rc = file_read_at(&f, 0, to, (size_t)f.size, e);
    if (!rc) {
        out->len += (size_t)f.size;
        out->data[out->len] = '\0';
    }
    file_drop(&f);
    return rc;
}

/* A device, a pipe or a folder at path stays what it is. */
static int check_replaceable(const char *path, struct err *e)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return ERR(e, E_ARG, "%s: is there and is no ordinary file: name another", path);
    return 0;
}

int file_replace(const char *path, const void *data, size_t n, struct err *e)
{
    return file_replace_parts(path, &(struct file_part){data, n}, 1, e);
}

static int write_parts(const struct file *f, const struct file_part *parts, int n, struct err *e)
{
    uint64_t at = 0;
    int rc = 0;
    for (int i = 0; !rc && i < n; i++) {
        rc = file_write_at(f, at, parts[i].data, parts[i].n, e);
        at += parts[i].n;
    }
    return rc;
}

/* The file aside stands for the one that was meant. */
static int blame(const char *path, const char *tmp, const struct err *why, struct err *e)
{
    const size_t n = strlen(tmp);
    if (strncmp(why->msg, tmp, n) != 0)
        return ERR(e, why->code, "%s", why->msg);
    return ERR(e, why->code, "%s%s", path, why->msg + n);
}

int file_replace_parts(const char *path, const struct file_part *parts, int n, struct err *e)
{
    int rc = check_replaceable(path, e);
    if (rc)
        return rc;
    size_t len = strlen(path);
    char *tmp = mem_alloc(len + 5), *dir = mem_strdup(path);
    struct file f = FILE_CLOSED;
    struct err why = {0};
    if (!tmp || !dir) {
        rc = ERR(e, E_NOMEM, "out of memory writing %s", path);
        goto out;
    }
    memcpy(tmp, path, len);
    memcpy(tmp + len, ".tmp", 5);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0';
    if (file_create(tmp, &f, &why) || write_parts(&f, parts, n, &why) || file_sync(&f, &why) ||
        file_close(&f, &why)) {
        rc = blame(path, tmp, &why, e);
        goto fail;
    }
    maybe_die();
    if (faulty(FILE_FAULT_RENAME, false) ? (errno = EIO) : rename(tmp, path)) {
        rc = err_sys(e, "%s: renaming %s to it failed", path, tmp);
        goto fail;
    }
    rc = file_sync_dir(slash ? dir : ".", e);
    goto out;
fail:
    file_drop(&f);
    unlink(tmp);
out:
    mem_free(tmp);
    mem_free(dir);
    return rc;
}

bool file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool file_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

uint64_t file_disk_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

int file_make_dir(const char *path, struct err *e)
{
    if (mkdir(path, 0755) == 0 || (errno == EEXIST && file_is_dir(path)))
        return 0;
    if (errno == EEXIST)
        return ERR(e, E_ARG, "%s: want a directory, found something else there: name another place",
                   path);
    return err_sys(e, "%s: cannot make this directory", path);
}

int file_make_private_dir(const char *path, struct err *e)
{
    struct stat st;
    if (mkdir(path, 0700) && errno != EEXIST)
        return err_sys(e, "%s: cannot make this directory", path);
    if (lstat(path, &st))
        return err_sys(e, "%s: cannot look at this directory", path);
    if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077))
        return 0;
    return ERR(e, E_ARG,
               "%s: want a directory of user %u that nobody else may enter (mode 0700), found "
               "%s of user %u with mode %04o: use another place",
               path, (unsigned)geteuid(), S_ISDIR(st.st_mode) ? "one" : "something else",
               (unsigned)st.st_uid, (unsigned)st.st_mode & 07777);
}

int file_lock_dir(const char *path, struct file *lock, struct err *e)
{
    *lock = FILE_CLOSED;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "%s: cannot open this directory", path);
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(fd);
        return ERR(e, E_IO, "%s: another program is writing there: wait for its end", path);
    }
    lock->fd = fd;
    return 0;
}

int file_remove(const char *path, struct err *e)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return 0;
    return err_sys(e, "%s: cannot remove", path);
}

int file_sync_dir(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "%s: cannot open this directory", path);
    bool fail = faulty(FILE_FAULT_SYNC, false);
    if (fail)
        errno = EIO;
    /* Some file systems cannot sync a directory and say EINVAL: then there is nothing to do. */
    int rc = (fail || fsync(fd)) && errno != EINVAL
                 ? err_sys(e, "%s: flushing to disk failed", path)
                 : 0;
    close(fd);
    return rc;
}

int file_each(const char *dir, int (*fn)(void *ctx, const char *name, struct err *e), void *ctx,
              struct err *e)
{
    int rc = 0;
    DIR *d = opendir(dir);
    if (!d)
        return err_sys(e, "%s: cannot list this directory", dir);
    for (struct dirent *entry; !rc;) {
        errno = 0;
        entry = readdir(d);
        if (!entry) {
            if (errno)
                rc = err_sys(e, "%s: listing this directory failed", dir);
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = fn(ctx, entry->d_name, e);
    }
    closedir(d);
    return rc;
}

char *file_join(const char *dir, const char *name)
{
    size_t a = strlen(dir), b = strlen(name);
    while (a > 1 && dir[a - 1] == '/')
        a--;
    char *p = mem_alloc(a + b + 2);
    if (!p)
        return NULL;
    memcpy(p, dir, a);
    if (a && p[a - 1] != '/')
        p[a++] = '/';
    memcpy(p + a, name, b + 1);
    return p;
}

char *file_canonical(const char *path, struct err *e)
{
    char *real = realpath(path, NULL);
    if (!real) {
        err_sys(e, "%s: cannot resolve this path", path);
        return NULL;
    }
    char *p = mem_strdup(real);
    free(real);
    if (!p)
        ERR(e, E_NOMEM, "out of memory resolving %s", path);
    return p;
}

int map_open(const char *path, struct map *m, struct err *e)
{
    struct file f;
    *m = (struct map){0};
    int rc = file_open(path, &f, e);
    if (rc)
        return rc;
    if (f.size) {
        void *p = mmap(NULL, (size_t)f.size, PROT_READ, MAP_SHARED, f.fd, 0);
        if (p == MAP_FAILED)
            rc = err_sys(e, "%s: mapping %llu bytes failed", path, (unsigned long long)f.size);
        else
            *m = (struct map){p, (size_t)f.size};
        guard_add(m->data, m->size, path);
    }
    file_drop(&f);
    return rc;
}

void map_close(struct map *m)
{
    guard_remove(m->data);
    if (m->data)
        munmap((void *)(uintptr_t)m->data, m->size);
    *m = (struct map){0};
}
