/* How far a long job is: a bar with rate and time left on a terminal, a plain line every ten
 * seconds elsewhere, both on stderr. Any thread may add; whoever adds when a line is due prints
 * it. */
#ifndef PACK_PROGRESS_H
#define PACK_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *label; /* "packing"; borrowed */
    uint64_t total;    /* bytes of the whole job; 0: prints nothing */
    atomic_uint_fast64_t done;
    atomic_uint_fast64_t due_ns; /* when the next line is due; UINT64_MAX while one is printed */
    uint64_t start_ns;
    bool terminal;
};

void progress_start(struct progress *p, const char *label, uint64_t total);
/* Says nothing until progress_end; for tests and callers that print their own. */
void progress_silence(struct progress *p);
void progress_add(struct progress *p, uint64_t bytes);
/* Clears the bar. Returns the seconds since the start. */
double progress_end(struct progress *p);
/* The text of a line, without control characters: a bar when width (columns) has room for one. */
void progress_line(const struct progress *p, double seconds, int width, char *room, int room_bytes);

#endif
