/* Mapped files that shrink, or whose disk fails, under a reader: the system sends SIGBUS, which
 * ends a program without a word. A program that asks for it gets the file's name instead; a library
 * does not ask, since signals are its user's. */
#ifndef BASE_GUARD_H
#define BASE_GUARD_H

#include <stddef.h>

enum { GUARD_PATH_MAX = 256 };

/* map_open and map_close: the bytes at data are those of a file. Any thread. What finds no room in
 * the table is not named. */
void guard_add(const void *data, size_t size, const char *path);
void guard_remove(const void *data);

/* From now on on_fault is called, on the thread that read, with the name of the file, cut to
 * GUARD_PATH_MAX bytes. It runs as a signal handler and must not return. A SIGBUS of anything else
 * does what it would have done. */
void guard_install(void (*on_fault)(const char *path));

#endif
