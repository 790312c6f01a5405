/* cherenkov version */
#include <stdio.h>

#include "cherenkov.h"
#include "cli/flags.h"

#ifndef CHERENKOV_REVISION /* the Makefile knows it */
#define CHERENKOV_REVISION "unknown"
#endif

static int run(int argc, char **argv, struct err *e)
{
    static const struct flag none[] = {{0}};
    struct flags f = {.command = &cmd_version, .flag = none};
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    printf("cherenkov %s (%s)\n", CHERENKOV_VERSION, CHERENKOV_REVISION);
    return 0;
}

const struct command cmd_version = {"version", "", "print version and revision", run};
