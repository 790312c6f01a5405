/* Names that the server makes up: "req-1f0c...", "call_...". */
#ifndef SERVER_ID_H
#define SERVER_ID_H

enum { ID_SHORT = 16, ID_LONG = 32, ID_ROOM = 64 };

/* prefix and so many random hex digits into to, which has ID_ROOM bytes. Returns to. */
char *id_make(const char *prefix, int digits, char *to);

#endif
