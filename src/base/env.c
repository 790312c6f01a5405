/* Environment switches: see env.h. */
#include "base/env.h"

#include <stdlib.h>

static const struct {
    const char *name, *help;
} switches[ENV_COUNT] = {
    [ENV_DUMP] = {"CHERENKOV_DUMP",
                  "A directory: every block's output is written there, for `cherenkov check`."},
    [ENV_TRACE] = {"CHERENKOV_TRACE",
                   "A file: a timeline of the run is written there (reserved: no "
                   "engine writes one yet)."},
    [ENV_CPU] = {"CHERENKOV_CPU",
                 "The widest instructions kernels may use: ref, avx2, avx512, neon or best "
                 "(the default)."},
    [ENV_NO_COLOR] = {"NO_COLOR", "Any value: no colour on the terminal."},
    [ENV_HOME] = {"HOME", "Where `cherenkov chat` keeps .cherenkov_history."},
};

const char *env_get(enum env_switch s)
{
    const char *v = getenv(switches[s].name);
    return v && *v ? v : NULL;
}

const char *env_name(enum env_switch s)
{
    return switches[s].name;
}

const char *env_help(enum env_switch s)
{
    return switches[s].help;
}
