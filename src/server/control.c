/* The control socket's place: see control.h. */
#include "server/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "base/file.h"
#include "base/mem.h"
#include "server/listen.h"

enum { LOCK_TRIES = 100 };

static int remove_stale(void *folder, const char *name, struct err *e);

void control_folder(struct buf *out)
{
    const char *dir = env_get(ENV_RUNTIME_DIR);
    if (dir)
        buf_printf(out, "%s/cherenkov", dir);
    else
        buf_printf(out, "/tmp/cherenkov-%u", (unsigned)geteuid());
}

/* Servers that start together look and listen one after another. */
static int lock_folder(const char *path, struct file *lock, struct err *e)
{
    for (int i = 0;; i++) {
        struct err why = {0};
        if (file_lock_dir(path, lock, &why) == 0)
            return 0;
        if (i == LOCK_TRIES)
            return ERR(e, why.code, "%s", why.msg);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

static int listen_in(const char *folder, const char *path, bool tidy, int *fd, struct err *e)
{
    struct file lock;
    struct buf address = BUF_INIT, shown = BUF_INIT;
    if (file_make_private_dir(folder, e) || lock_folder(folder, &lock, e))
        return -e->code;
    int rc = tidy ? file_each(folder, remove_stale, (void *)folder, e) : 0;
    buf_printf(&address, "unix:%s", path);
    rc = rc ? rc : buf_check(&address, e);
    rc = rc ? rc : listen_open(buf_str(&address), fd, &shown, e);
    file_drop(&lock);
    buf_free(&address);
    buf_free(&shown);
    return rc;
}

int control_listen(const char *path, struct buf *where, int *fd, struct err *e)
{
    struct buf folder = BUF_INIT;
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (!path)
        control_folder(&folder);
    else if (slash)
        buf_add(&folder, path, slash == path ? 1 : (size_t)(slash - path));
    else
        buf_puts(&folder, ".");
    if (path)
        buf_puts(where, path);
    else
        buf_printf(where, "%s/%d%s", buf_str(&folder), (int)getpid(), CONTROL_ENDING);
    int rc = buf_check(&folder, e);
    rc = rc ? rc : buf_check(where, e);
    rc = rc ? rc : listen_in(buf_str(&folder), buf_str(where), !path, fd, e);
    buf_free(&folder);
    return rc;
}

/* 0, or what connect said. */
static int try_connect(const char *path, int *fd)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path)
        return ENAMETOOLONG;
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd >= 0 && connect(*fd, (struct sockaddr *)&a, sizeof a) == 0)
        return 0;
    const int why = errno;
    if (*fd >= 0)
        close(*fd);
    return why;
}

int control_connect(const char *path, int *fd, struct err *e)
{
    const int why = try_connect(path, fd);
    if (!why)
        return 0;
    if (why == ECONNREFUSED || why == ENOENT)
        return ERR(e, E_NOTFOUND, "%s: no server listens there", path);
    errno = why;
    return err_sys(e, "%s: cannot reach the server", path);
}

bool control_is_live(const char *path)
{
    int fd;
    if (try_connect(path, &fd))
        return false;
    close(fd);
    return true;
}

static int remove_stale(void *folder, const char *name, struct err *e)
{
    const char *ending = strrchr(name, '.');
    int fd, rc = 0;
    if (!ending || strcmp(ending, CONTROL_ENDING) != 0)
        return 0;
    char *path = file_join(folder, name);
    if (!path)
        return ERR(e, E_NOMEM, "no memory for the name of a socket");
    const int why = try_connect(path, &fd);
    if (!why)
        close(fd);
    else if (why == ECONNREFUSED)
        rc = file_remove(path, e);
    mem_free(path);
    return rc;
}
