/* The program's commands: main.c holds the table, cmd_*.c one command each. Only cli/ may exit. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "base/err.h"

struct command {
    const char *name;
    const char *args;    /* "STORE [PROMPT | -]", for the usage line */
    const char *summary; /* one line for the list of commands */
    /* argv[0] is the command's name. 0, or a negative code with its message in e: main prints it
     * and turns it into the exit status (err_exit_status). */
    int (*run)(int argc, char **argv, struct err *e);
};

extern const struct command cmd_devices;
extern const struct command cmd_env;
extern const struct command cmd_tokenize;
extern const struct command cmd_inspect;
extern const struct command cmd_pack;
extern const struct command cmd_verify;
extern const struct command cmd_version;
extern const struct command cmd_chat, cmd_check, cmd_logits, cmd_perplexity, cmd_run;
extern const struct command cmd_prompt;
extern const struct command cmd_synth, cmd_bench, cmd_serve;
extern const struct command cmd_dash, cmd_stats, cmd_status;

#endif
