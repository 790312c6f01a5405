/* The terminal, by ncurses: shows canvases, reads keys, and is left as it was. One at a time. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include "cli/canvas.h"

/* E_ARG: standard input or output is no terminal, or one nobody knows; E_UNSUPPORTED: the program
 * was built without ncurses. */
int screen_open(struct err *e);
void screen_close(void); /* also when it is not open */
void screen_size(int *w, int *h);
void screen_show(const struct canvas *c);
/* A key (cli/dash.h), DASH_KEY_NONE after so many milliseconds or a signal. */
int screen_key(int wait_ms);

#endif
