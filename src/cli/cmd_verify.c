/* cherenkov verify: checksums and structure of a store. */
#include <stdio.h>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "pack/verify.h"

static void report(const struct verify_report *r)
{
    char bytes[UNITS_ROOM], time[UNITS_ROOM], rate[UNITS_ROOM], n[UNITS_ROOM];
    double seconds = r->seconds > 1e-6 ? r->seconds : 1e-6;
    fputs(buf_str(&r->lines), stdout);
    if (r->n_damaged > VERIFY_LINES_MAX)
        printf("and %zu more\n", r->n_damaged - VERIFY_LINES_MAX);
    if (r->n_unsummed)
        log_say(LOG_WARN,
                "%zu pieces have no checksum (a store of the original engine has none): only "
                "their place was checked",
                r->n_unsummed);
    log_say(LOG_INFO, "verified %s pieces, %s, in %s: %s/s, %d threads, %zu damaged",
            units_count(n, r->n_pieces), units_bytes(bytes, r->bytes),
            units_seconds(time, r->seconds),
            units_bytes(rate, (uint64_t)((double)r->bytes / seconds)), r->n_threads, r->n_damaged);
}

static int run(int argc, char **argv, struct err *e)
{
    int64_t threads = 0;
    const struct flag flag[] = {
        {"threads", FLAG_INT, &threads, "N", "threads (one per processor)", 1, 1024},
        {0},
    };
    struct flags f = {.command = &cmd_verify, .flag = flag, .min_args = 1, .max_args = 1};
    struct verify_report r;
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    interrupt_catch();
    rc = verify_store(f.args[0], (int)threads, &r, e);
    if (!rc || e->code == E_DIFFER)
        report(&r);
    verify_free(&r);
    return rc;
}

const struct command cmd_verify = {"verify", "STORE", "check a store against its checksums", run};
