/* The program under test at a pseudo-terminal. */
#ifndef TESTS_AID_TERMINAL_H
#define TESTS_AID_TERMINAL_H

#include <sys/types.h>
#include <termios.h>

#include "tests/aid_test.h"

struct aid_terminal {
    pid_t pid;
    int fd;         /* our side; -1: whoever tests has closed it */
    struct buf out; /* what was shown; whoever tests frees it */
    size_t at;      /* in out, behind what was waited for last */
};

/* Starts argv (NULL at the end) in the foreground of a terminal of this kind ($TERM) and size. */
void aid_terminal_open(struct aid_terminal *t, const char *kind, int columns, int lines,
                       const char *const *argv);
void aid_terminal_type(struct aid_terminal *t, const char *keys);
/* Takes what is shown within so many ms; false: nothing, or the end. */
bool aid_terminal_read(struct aid_terminal *t, int ms);
/* Waits until text is shown behind what was waited for last; a test that waits too long fails. */
void aid_terminal_need(struct aid_terminal *t, const char *text);
/* The exit status, or 128 + signal, of a program that is about to end. mode: how it left the
 * terminal; NULL: nobody asks. */
int aid_terminal_close(struct aid_terminal *t, struct termios *mode);

#endif
