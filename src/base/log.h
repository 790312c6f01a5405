/* Remarks to the person at the terminal, on stderr, one line each, in whole lines. Results go to
 * stdout and never through here. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level); /* LOG_INFO at start */
/* "cherenkov: " and, for errors and warnings, "error: " or "warning: " in front. */
void log_say(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
