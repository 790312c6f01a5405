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
    [ENV_DEVICE] =
        {"CHERENKOV_DEVICE",
         "The GPU to use: a number or part of a name from `cherenkov devices`; discrete, "
         "integrated or software; any takes software too where there is nothing else."},
    [ENV_DEVICE_CHECK] = {"CHERENKOV_DEVICE_CHECK",
                          "Any value: Vulkan's validation layer, where it is installed, watches "
                          "every call; its first complaint ends the run."},
    [ENV_DEVICE_FAULT] = {"CHERENKOV_DEVICE_FAULT",
                          "For tests: memory:N, kernel:N, lost:N or late:N (several with commas): "
                          "the Nth allocation, compilation, start or wait on a GPU fails."},
    [ENV_DEVICE_NO_MATRIX] = {"CHERENKOV_DEVICE_NO_MATRIX",
                              "Any value: no cooperative matrices on a GPU; results are the same, "
                              "and prompts take longer."},
    [ENV_DEVICE_SECONDS] = {"CHERENKOV_DEVICE_SECONDS",
                            "How long a GPU may be at one submission before it counts as hung: 60, "
                            "and 600 for a software device."},
    [ENV_DEVICE_TIMES] = {"CHERENKOV_DEVICE_TIMES",
                          "Any value: what the kernels took by a GPU's own clock is said at the "
                          "end; the run is slower for it."},
    [ENV_NO_COLOR] = {"NO_COLOR", "Any value: no colour on the terminal."},
    [ENV_HOME] = {"HOME", "Where `cherenkov chat` keeps .cherenkov_history."},
    [ENV_API_KEY] = {"CHERENKOV_API_KEY",
                     "A key that clients of `cherenkov serve` must show, besides those of "
                     "--api-key-file."},
    [ENV_RUNTIME_DIR] = {"XDG_RUNTIME_DIR",
                         "Where control sockets of servers are, in cherenkov/; without it in "
                         "/tmp/cherenkov-UID."},
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
