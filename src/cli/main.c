/* The program: picks a command, reports its failure, sets the exit status. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/log.h"
#include "base/os.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/flags.h"

/* In the order in which a new user meets them; one a line. */
/* clang-format off */
static const struct command *const commands[] = {
    &cmd_pack,
    &cmd_inspect,
    &cmd_verify,
    &cmd_run,
    &cmd_chat,
    &cmd_serve,
    &cmd_status,
    &cmd_stats,
    &cmd_dash,
    &cmd_prompt,
    &cmd_tokenize,
    &cmd_logits,
    &cmd_perplexity,
    &cmd_check,
    &cmd_synth,
    &cmd_bench,
    &cmd_devices,
    &cmd_env,
    &cmd_version,
};
/* clang-format on */

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void usage(FILE *to)
{
    fprintf(to, "usage: cherenkov COMMAND [flags] ...\n\ncommands:\n");
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(to, "\n`cherenkov help COMMAND` explains one.\n");
}

static int unknown(const char *word, struct err *e)
{
    const char *names[N_COMMANDS];
    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i]->name;
    const char *near = flags_nearest(word, names, N_COMMANDS);
    return ERR(e, E_ARG, "there is no command '%s'%s%s%s; `cherenkov help` lists them", word,
               near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int run_command(const char *word, int argc, char **argv, struct err *e)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(word, commands[i]->name) == 0)
            return commands[i]->run(argc, argv, e);
    return unknown(word, e);
}

static int run(int argc, char **argv, struct err *e)
{
    char help[] = "--help";
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0)
        word = "version";
    if (strcmp(word, "help") != 0 && strcmp(word, "--help") != 0 && strcmp(word, "-h") != 0)
        return run_command(word, argc - 1, argv + 1, e);
    if (argc > 2 && strcmp(argv[2], "help") != 0)
        return run_command(argv[2], 2, (char *[]){argv[2], help, NULL}, e);
    usage(stdout);
    return 0;
}

/* What failed says how much it wanted; how to have it is the same everywhere. */
static void advise_memory(struct err *e)
{
    char most[UNITS_ROOM], has[UNITS_ROOM + 64] = "end other programs";
    const size_t n = strlen(e->msg);
    if (os_address_limit())
        snprintf(has, sizeof has, "this process may map %s at most: raise that (ulimit -v)",
                 units_bytes(most, os_address_limit()));
    snprintf(e->msg + n, sizeof e->msg - n,
             "; %s, or ask for less (--memory, --max-ctx, --threads, where the command has them)",
             has);
}

/* A signal handler. */
static void on_lost_file(const char *path)
{
    static const char before[] = "\ncherenkov: error: ",
                      behind[] = ": shrank, or its disk failed, while it was in use: was it "
                                 "written anew? `cherenkov verify` checks a store\n";
    if (write(STDERR_FILENO, before, sizeof before - 1) < 0 ||
        write(STDERR_FILENO, path, strlen(path)) < 0 ||
        write(STDERR_FILENO, behind, sizeof behind - 1) < 0)
        _exit(err_exit_status(E_IO));
    _exit(err_exit_status(E_IO));
}

int main(int argc, char **argv)
{
    struct err e = {0};
    os_prepare_program();
    guard_install(on_lost_file);
    if (argc < 2) {
        usage(stderr);
        return err_exit_status(E_ARG);
    }
    int rc = run(argc, argv, &e);
    if ((fflush(stdout) || ferror(stdout)) && !rc)
        rc = err_sys(&e, "writing to standard output failed");
    if (rc == -E_NOMEM)
        advise_memory(&e);
    if (rc)
        log_say(rc == -E_INTERRUPTED ? LOG_INFO : LOG_ERROR, "%s",
                e.msg[0] ? e.msg : "failed without saying why, which is a bug");
    return err_exit_status(rc);
}
