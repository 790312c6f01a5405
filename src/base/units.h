/* Numbers as people read them. */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stdint.h>

enum { UNITS_ROOM = 32 };

/* These write into room and return it, so that several fit one printf, each with its own room. */
const char *units_count(char room[UNITS_ROOM], uint64_t n); /* "2,930,271,040" */
const char *units_bytes(char room[UNITS_ROOM], uint64_t n); /* "2.93 GB", "14.4 MB", "812 bytes" */
const char *units_seconds(char room[UNITS_ROOM],
                          double time); /* "4.2 s", "1 min 28 s", "2 h 5 min" */
/* "0.1", "1e+20", "7": the fewest digits, of 15 to 17 where the last may be zeros that are left
 * out, that read back as x. */
const char *units_real(char room[UNITS_ROOM], double x);

#endif
