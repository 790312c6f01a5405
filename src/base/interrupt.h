/* A person's wish to stop. Ctrl-C (SIGINT) and SIGTERM raise a flag; long work asks for it
 * between two steps and ends with E_INTERRUPTED, so that files stay in a state the program can go
 * on from. */
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

#include <stdbool.h>

#include "base/err.h"

/* From now on the first of these signals raises the flag; a second one ends the program at once. */
void interrupt_catch(void);
/* For a program that goes on after a stop: every Ctrl-C raises the flag, SIGTERM is left as it
 * is. */
void interrupt_catch_always(void);
bool interrupt_asked(void);
void interrupt_set(bool asked); /* tests, and commands that go on after a stop */
/* 0, or E_INTERRUPTED when the flag is up. */
int interrupt_check(struct err *e);

#endif
