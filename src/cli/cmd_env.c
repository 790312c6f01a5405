/* cherenkov env: the environment switches of base/env.c; with --markdown, docs/env.md. */
#include <stdio.h>

#include "base/env.h"
#include "cli/flags.h"

static void print_markdown(void)
{
    printf(
        "# Environment switches\n\n"
        "Made by `make docs` from `src/base/env.c`; do not edit. Switches diagnose: none changes\n"
        "what the program means. `cherenkov env` prints their values.\n\n"
        "| switch | what it does |\n| --- | --- |\n");
    for (int i = 0; i < ENV_COUNT; i++)
        printf("| `%s` | %s |\n", env_name(i), env_help(i));
}

static void print_values(void)
{
    for (int i = 0; i < ENV_COUNT; i++) {
        const char *value = env_get(i);
        printf("%-16s %s\n%-16s %s\n", env_name(i), value ? value : "(not set)", "", env_help(i));
    }
}

static int run(int argc, char **argv, struct err *e)
{
    bool markdown = false;
    const struct flag flag[] = {
        {"markdown", FLAG_BOOL, &markdown, NULL, "print docs/env.md", 0, 0},
        {0},
    };
    struct flags f = {.command = &cmd_env, .flag = flag};
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    if (markdown)
        print_markdown();
    else
        print_values();
    return 0;
}

const struct command cmd_env = {"env", "", "list the environment switches", run};
