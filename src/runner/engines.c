/* The list of engines: see engines.h. */
#include "runner/engines.h"

#include <string.h>

#include "base/buf.h"
#include "base/os.h"
#include "cpu/cpu.h"
#include "gpu/device.h"
#include "gpu/gpu.h"
#include "reference/reference.h"

static const struct engine_ops *const engines[] = {
    &reference_engine,
    &cpu_engine,
    &gpu_engine,
};

enum { N_ENGINES = sizeof engines / sizeof engines[0] };

const struct engine_ops *engines_at(int i)
{
    return i >= 0 && i < N_ENGINES ? engines[i] : NULL;
}

/* Asking for devices loads drivers, so a system that shows none is not asked. */
static const struct engine_ops *best(void)
{
    struct device_info device;
    struct err none = {0};
    bool gpu = os_may_have_gpu() && device_pick(NULL, &device, &none) == 0;
    return gpu ? &gpu_engine : &cpu_engine;
}

const struct engine_ops *engines_instead(const struct engine_ops *ops)
{
    return ops == &gpu_engine ? &cpu_engine : NULL;
}

int engines_find(const char *name, const struct engine_ops **out, struct err *e)
{
    if (!name || strcmp(name, "auto") == 0) {
        *out = best();
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
