/* Files: whole positioned reads and writes, mappings, and the steps that make a write survive.
 *
 * Reads and writes retry EINTR and short counts; an end of file inside a read is an error that says
 * how many bytes were there. Tests inject faults with file_fault_at. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct file {
    int fd;           /* -1 when closed */
    char *path;       /* owned, for messages */
    uint64_t size;    /* at open; not kept up by writes */
    int64_t mtime_ns; /* last change of the contents, at open */
};

#define FILE_CLOSED ((struct file){.fd = -1})

int file_open(const char *path, struct file *f, struct err *e); /* existing regular file, to read */
int file_create(const char *path, struct file *f, struct err *e); /* new or truncated, to write */
int file_reopen(const char *path, struct file *f,
                struct err *e); /* existing or new, read and write */
int file_read_at(const struct file *f, uint64_t off, void *to, size_t n, struct err *e);
int file_write_at(const struct file *f, uint64_t off, const void *from, size_t n, struct err *e);
/* Cuts the file or extends it with zeros that take no room yet. */
int file_set_size(const struct file *f, uint64_t size, struct err *e);
int file_sync(const struct file *f, struct err *e);
/* Closing a written file can report what the system kept back; closing twice is fine. */
int file_close(struct file *f, struct err *e);
void file_drop(struct file *f); /* close, on an error path: no report */

/* The whole file, at most max bytes (else E_LIMIT), appended to out. */
int file_read_all(const char *path, uint64_t max, struct buf *out, struct err *e);
/* Replaces path by these bytes so that a crash leaves the old or the new contents, on disk:
 * path.tmp is written, synced, renamed, and the directory synced. E_ARG: path is a device, a pipe
 * or a folder, and stays what it is. */
int file_replace(const char *path, const void *data, size_t n, struct err *e);
/* The same with several pieces, one behind another. */
struct file_part {
    const void *data;
    size_t n;
};
int file_replace_parts(const char *path, const struct file_part *parts, int n, struct err *e);

bool file_exists(const char *path);
bool file_is_dir(const char *path);
uint64_t file_disk_bytes(const char *path); /* room it takes on disk; 0 when it is not there */
int file_make_dir(const char *path, struct err *e); /* one level; an existing directory is fine */
/* The same with mode 0700. E_ARG: what is there is no directory of this user's that nobody else may
 * enter. */
int file_make_private_dir(const char *path, struct err *e);
/* Claims a directory for one writer until lock is closed (file_drop) or the program ends, however
 * it does. E_IO when another has it. Only programs that ask are kept out; on a file system without
 * locks nobody is, and this is 0. */
int file_lock_dir(const char *path, struct file *lock, struct err *e);
int file_remove(const char *path, struct err *e); /* a missing file is fine */
int file_sync_dir(const char *path, struct err *e);
/* Calls fn with the name of every entry of a directory ("." and ".." left out), in no order, until
 * it returns something else than 0, which is then returned. */
int file_each(const char *dir, int (*fn)(void *ctx, const char *name, struct err *e), void *ctx,
              struct err *e);
/* "dir/name", or name alone if dir is "", to free with mem_free; NULL when memory is short. */
char *file_join(const char *dir, const char *name);
/* The path with symbolic links, "." and ".." resolved; to free with mem_free. */
char *file_canonical(const char *path, struct err *e);

/* A read-only mapping of a whole file. Empty files map to data NULL, size 0. */
struct map {
    const uint8_t *data;
    size_t size;
};
int map_open(const char *path, struct map *m, struct err *e);
void map_close(struct map *m);

/* Tests: what happens to the nth (1 is the next) operation of a kind; nth 0 switches it off. */
enum file_fault {
    FILE_FAULT_READ,   /* a read fails with EIO */
    FILE_FAULT_WRITE,  /* a write fails with ENOSPC, and all after it */
    FILE_FAULT_SYNC,   /* fails with EIO */
    FILE_FAULT_RENAME, /* file_replace's rename fails with EIO */
    FILE_FAULT_SHORT,  /* reads and writes move at most one byte a call, from the nth on */
    FILE_FAULT_INTR,   /* a read or write is interrupted by a signal before it moves anything */
    FILE_FAULT_KILL,   /* the process is killed before a write, a sync or a rename */
    FILE_FAULT_COUNT,
};
void file_fault_at(enum file_fault kind, long nth);

#endif
