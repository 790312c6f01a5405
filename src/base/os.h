/* What differs between systems: os.c is the one file to port (with stream/reader_uring.c). */
#ifndef BASE_OS_H
#define BASE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

int os_cpu_count(void);           /* processors this process may use, at least 1 */
uint64_t os_memory_total(void);   /* bytes of memory in the machine */
uint64_t os_memory_limit(void);   /* the smaller of that and the control group's limit */
uint64_t os_rss_bytes(void);      /* resident size of this process now */
uint64_t os_rss_peak_bytes(void); /* and the largest it ever was */
/* A write past the limit on file sizes (ulimit -f) fails with EFBIG instead of ending the
 * program. */
void os_ignore_size_signal(void);
/* Bytes an ordinary user can still write to the file system that holds path. */
int os_disk_free(const char *path, uint64_t *bytes, struct err *e);
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

#endif
