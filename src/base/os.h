/* What differs between systems: os.c is the file to port, with stream/reader_uring.c and
 * server/watch.c. */
#ifndef BASE_OS_H
#define BASE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

int os_cpu_count(void);           /* processors this process may use, at least 1 */
uint64_t os_memory_total(void);   /* bytes of memory in the machine */
uint64_t os_memory_limit(void);   /* the smaller of that and the control group's limit */
uint64_t os_address_limit(void);  /* bytes this process may map (ulimit -v); 0: any number */
uint64_t os_rss_bytes(void);      /* resident size of this process now */
uint64_t os_rss_peak_bytes(void); /* and the largest it ever was */
bool os_may_have_gpu(void);       /* false: this system shows no driver of one */
/* For main, before it opens anything. A write past the limit on file sizes (ulimit -f) will fail
 * with EFBIG instead of ending the program. Standard streams that are closed get a descriptor that
 * fails on use, so that no file of ours takes their number and is written into by messages. */
void os_prepare_program(void);
/* Raises the limit on open descriptors as far as the system lets us, and returns it. */
int os_raise_descriptors(void);
/* Bytes an ordinary user can still write to the file system that holds path. */
int os_disk_free(const char *path, uint64_t *bytes, struct err *e);
void os_random(void *to, size_t n); /* bytes nobody can guess */
/* Whose process is at the other end of a Unix socket; false: nobody knows. */
bool os_peer_user(int fd, unsigned *uid);
/* Bytes that ever came over a TCP connection; 0: it is none, or nobody knows. */
uint64_t os_received(int fd);
bool os_is_terminal(int fd);
int os_terminal_width(int fd); /* columns, 80 when unknown */
/* Tells the system that these bytes of an open file will not be read again soon. A hint. */
void os_drop_cache(int fd, uint64_t off, uint64_t n);
/* Starts reading these bytes of an open file without waiting. A hint that lets small reads inside
 * them find their bytes there. */
void os_will_need(int fd, uint64_t off, uint64_t n);
/* Starts writing these bytes back without waiting. A hint that keeps a later fsync short. */
void os_start_writeback(int fd, uint64_t off, uint64_t n);
/* Reads ahead of sequential use. A hint. */
void os_advise_sequential(int fd);

/* Opens an existing file so that reads go past the page cache. direct: false where its file system
 * does not do that (the file is then open in the ordinary way). E_IO, E_NOTFOUND. */
int os_open_direct(const char *path, int *fd, bool *direct, struct err *e);
void os_close(int fd);

/* Zeroed memory straight from the system, aligned to OS_PAGES_ALIGN: for what is large and stays.
 * In huge pages where the system has them; locked pages are locked as they are first touched. What
 * is not granted is not a failure: why_not says what the system answered. */
#define OS_PAGES_ALIGN ((size_t)2 << 20)
struct os_pages {
    uint8_t *data;
    size_t bytes; /* as asked for, rounded up to OS_PAGES_ALIGN */
    bool huge, locked;
    char why_not[120]; /* "" when both are true */
};
/* bytes 0: data NULL. E_NOMEM. */
int os_pages_take(size_t bytes, struct os_pages *out, struct err *e);
void os_pages_free(struct os_pages *p); /* zeros are fine */
/* Large memory that is about to be filled: in huge pages, which are a fault for 2 MiB where others
 * are one for 4 KiB. A hint. */
void os_prefer_huge(void *p, size_t bytes);

#endif
