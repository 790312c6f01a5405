/* The list of engines, best last: see engines.h. */
#include "runner/engines.h"

#include <string.h>

#include "base/buf.h"
#include "cpu/cpu.h"
#include "reference/reference.h"

static const struct engine_ops *const engines[] = {
    &reference_engine,
    &cpu_engine,
};

enum { N_ENGINES = sizeof engines / sizeof engines[0] };

const struct engine_ops *engines_at(int i)
{
    return i >= 0 && i < N_ENGINES ? engines[i] : NULL;
}

int engines_find(const char *name, const struct engine_ops **out, struct err *e)
{
    if (!name || strcmp(name, "auto") == 0) {
        *out = engines[N_ENGINES - 1];
        return 0;
    }
    struct buf names = BUF_INIT;
    for (int i = 0; i < N_ENGINES; i++) {
        if (strcmp(engines[i]->name, name) == 0) {
            *out = engines[i];
            buf_free(&names);
            return 0;
        }
        buf_printf(&names, "%s%s", i ? ", " : "", engines[i]->name);
    }
    int rc = ERR(e, E_ARG, "there is no engine '%s'; there is: auto, %s", name, buf_str(&names));
    buf_free(&names);
    return rc;
}
