/* System differences: see os.h. Linux; macOS where the comment says so. */
#include "base/os.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

int os_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

uint64_t os_memory_total(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

/* The number in a one-line file; 0 when it is absent, "max", or no number. */
static uint64_t read_number(const char *path)
{
    char line[64];
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    bool ok = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    return ok && strncmp(line, "max", 3) != 0 ? strtoull(line, NULL, 10) : 0;
}

/* The smallest limit on the way from our control group to the root of a hierarchy. `prefix` is what
 * our line in /proc/self/cgroup starts with behind the number: "::" (version 2), ":memory:" (1). */
static uint64_t group_limit(const char *prefix, const char *mount, const char *name, uint64_t best)
{
    char line[512], path[1200];
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f)
        return best;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *at = strchr(line, ':');
        if (!at || strncmp(at, prefix, strlen(prefix)) != 0)
            continue;
        at += strlen(prefix);
        for (;;) {
            snprintf(path, sizeof path, "%s%s/%s", mount, at, name);
            uint64_t n = read_number(path);
            if (n && n < best)
                best = n;
            char *slash = strrchr(at, '/');
            if (!slash)
                break;
            *slash = '\0';
        }
    }
    fclose(f);
    return best;
}

uint64_t os_memory_limit(void)
{
    uint64_t best = os_memory_total();
    best = group_limit("::", "/sys/fs/cgroup", "memory.max", best);
    return group_limit(":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", best);
}

uint64_t os_address_limit(void)
{
    struct rlimit most;
    if (getrlimit(RLIMIT_AS, &most) || most.rlim_cur == RLIM_INFINITY)
        return 0;
    return most.rlim_cur;
}

uint64_t os_rss_bytes(void)
{
    unsigned long long total = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f)
        return 0;
    int n = fscanf(f, "%llu %llu", &total, &resident);
    fclose(f);
    return n == 2 ? (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

uint64_t os_rss_peak_bytes(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) ? 0 : (uint64_t)u.ru_maxrss * 1024; /* macOS: bytes */
}

bool os_may_have_gpu(void)
{
    static const char *const nodes[] = {"/dev/dri", "/dev/nvidiactl", "/dev/dxg", "/dev/kgsl-3d0"};
    bool found = access("/proc/version", F_OK) != 0; /* not Linux: nobody knows */
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++)
        found |= access(nodes[i], F_OK) == 0;
    return found;
}

void os_prepare_program(void)
{
    signal(SIGXFSZ, SIG_IGN);
    for (int fd = 0; fd < 3; fd++) { /* open takes the lowest free number, so fd itself */
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd ? O_RDONLY : O_WRONLY);
    }
}

int os_disk_free(const char *path, uint64_t *bytes, struct err *e)
{
    struct statvfs s;
    if (statvfs(path, &s))
        return err_sys(e, "%s: cannot tell the free disk space", path);
    *bytes = (uint64_t)s.f_bavail * s.f_frsize;
    return 0;
}

void os_random(void *to, size_t n)
{
    for (size_t done = 0; done < n;) {
        const ssize_t got = getrandom((char *)to + done, n - done, 0);
        assert(got > 0 || errno == EINTR);
        done += got > 0 ? (size_t)got : 0;
    }
}

int os_raise_descriptors(void)
{
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most))
        return _POSIX_OPEN_MAX;
    const rlim_t was = most.rlim_cur;
    most.rlim_cur = most.rlim_max;
    if (was != most.rlim_max && setrlimit(RLIMIT_NOFILE, &most))
        most.rlim_cur = was;
    return most.rlim_cur < INT_MAX ? (int)most.rlim_cur : INT_MAX;
}

/* Linux. */
bool os_peer_user(int fd, unsigned *uid)
{
    struct ucred who;
    socklen_t n = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) || n != sizeof who)
        return false;
    *uid = who.uid;
    return true;
}

/* Linux. */
uint64_t os_received(int fd)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) ? 0 : info.tcpi_bytes_received;
}

bool os_is_terminal(int fd)
{
    return isatty(fd) == 1;
}

int os_terminal_width(int fd)
{
    struct winsize w;
    return ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 80;
}

void os_drop_cache(int fd, uint64_t off, uint64_t n)
{
    (void)posix_fadvise(fd, (off_t)off, (off_t)n, POSIX_FADV_DONTNEED);
}

void os_will_need(int fd, uint64_t off, uint64_t n)
{
    (void)posix_fadvise(fd, (off_t)off, (off_t)n, POSIX_FADV_WILLNEED);
}

void os_start_writeback(int fd, uint64_t off, uint64_t n)
{
    (void)sync_file_range(fd, (off_t)off, (off_t)n, SYNC_FILE_RANGE_WRITE);
}

void os_advise_sequential(int fd)
{
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

int os_open_direct(const char *path, int *fd, bool *direct, struct err *e)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT); /* macOS: fcntl(F_NOCACHE) */
    *direct = *fd >= 0;
    if (*fd < 0 && errno == EINVAL)
        *fd = open(path, O_RDONLY | O_CLOEXEC);
    return *fd >= 0 ? 0 : err_sys(e, "%s: cannot be opened for reading", path);
}

void os_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void note_refusal(struct os_pages *p, const char *what)
{
    struct err e = {0};
    (void)err_sys(&e, "%s", what);
    snprintf(p->why_not, sizeof p->why_not, "%.*s", (int)sizeof p->why_not - 1, e.msg);
}

int os_pages_take(size_t bytes, struct os_pages *out, struct err *e)
{
    *out = (struct os_pages){0};
    if (!bytes)
        return 0;
    if (bytes > SIZE_MAX / 2)
        return ERR(e, E_NOMEM, "no memory for %zu bytes", bytes);
    size_t size = (bytes + OS_PAGES_ALIGN - 1) / OS_PAGES_ALIGN * OS_PAGES_ALIGN;
    size_t room = size + OS_PAGES_ALIGN; /* an aligned part of it is kept */
    uint8_t *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return err_sys(e, "no memory for %zu bytes", bytes);
    size_t before = (OS_PAGES_ALIGN - (uintptr_t)p % OS_PAGES_ALIGN) % OS_PAGES_ALIGN;
    if (before)
        munmap(p, before);
    munmap(p + before + size, OS_PAGES_ALIGN - before);
    *out = (struct os_pages){.data = p + before, .bytes = size};
    out->huge = madvise(out->data, size, MADV_HUGEPAGE) == 0;
    if (!out->huge)
        note_refusal(out, "no huge pages");
    out->locked = mlock2(out->data, size, MLOCK_ONFAULT) == 0; /* macOS: mlock */
    if (!out->locked)
        note_refusal(out, "cannot be locked");
    return 0;
}

/* Whole pages inside of it alone: what is around them is another's. */
void os_prefer_huge(void *p, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = ((uintptr_t)p + page - 1) / page * page;
    const uintptr_t to = ((uintptr_t)p + bytes) / page * page;
    if (to > from && to - from >= OS_PAGES_ALIGN)
        madvise((void *)from, to - from, MADV_HUGEPAGE);
}

void os_pages_free(struct os_pages *p)
{
    if (p->data)
        munmap(p->data, p->bytes);
    *p = (struct os_pages){0};
}
