/* Environment switches: the only getenv of the program. Each has a sentence, and docs/env.md is
 * made from them (`cherenkov env`). Switches diagnose; none changes what the program means. */
#ifndef BASE_ENV_H
#define BASE_ENV_H

enum env_switch {
    ENV_DUMP, /* CHERENKOV_DUMP */
    ENV_TRACE,
    ENV_CPU,
    ENV_DEVICE,
    ENV_DEVICE_CHECK,
    ENV_DEVICE_FAULT,
    ENV_DEVICE_NO_MATRIX,
    ENV_DEVICE_SECONDS,
    ENV_DEVICE_TIMES,
    ENV_NO_COLOR,    /* NO_COLOR, by its own convention */
    ENV_HOME,        /* HOME, for the chat history */
    ENV_API_KEY,     /* CHERENKOV_API_KEY */
    ENV_RUNTIME_DIR, /* XDG_RUNTIME_DIR, by its own convention */
    ENV_COUNT,
};

/* The value, or NULL when unset or empty; borrowed. */
const char *env_get(enum env_switch s);
const char *env_name(enum env_switch s);
const char *env_help(enum env_switch s); /* one sentence */

#endif
