/* A wish to stop. Ctrl-C (SIGINT), SIGTERM and a terminal that goes away (SIGHUP) raise a flag;
 * long work asks for it between two steps and ends with E_INTERRUPTED, so that files stay in a
 * state the program can go on from. One that was ignored from the start (nohup, the background of a
 * shell without job control) stays ignored. */
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

#include <stdbool.h>

#include "base/err.h"

/* From now on the first of these signals raises the flag; a second one ends the program at once. */
void interrupt_catch(void);
/* For a program that goes on after a Ctrl-C: every one raises the flag. The first of the other
 * signals raises it for good, whatever interrupt_set says, and makes interrupt_final true. */
void interrupt_catch_always(void);
/* For a service: the first SIGINT or SIGTERM raises the flag, a second one ends the program; SIGHUP
 * asks for a reload, even where it was ignored. interrupt_wait sleeps until one of them comes. */
void interrupt_catch_service(void);
enum interrupt_event { INTERRUPT_STOP, INTERRUPT_RELOAD };
enum interrupt_event interrupt_wait(void);
/* Sleeps until fd can be read (or has ended): true. False: the flag is up; a signal between a look
 * at it and the sleep is not lost, as it is before a plain read. */
bool interrupt_wait_readable(int fd);
bool interrupt_asked(void);
bool interrupt_final(void);     /* the program should not go on after this stop */
void interrupt_set(bool asked); /* tests, and commands that go on after a stop */
/* 0, or E_INTERRUPTED when the flag is up. */
int interrupt_check(struct err *e);

#endif
