/* cherenkov verify: checksums and structure of a store. */
#include <stdio.h>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "pack/texts.h"
#include "pack/verify.h"
#include "store/store.h"

static void report(const struct verify_report *r)
{
    char bytes[UNITS_ROOM], time[UNITS_ROOM], rate[UNITS_ROOM], n[UNITS_ROOM];
    double seconds = r->seconds > 1e-6 ? r->seconds : 1e-6;
    fputs(buf_str(&r->lines), stdout);
    if (r->n_damaged > VERIFY_LINES_MAX)
        printf("and %zu more\n", r->n_damaged - VERIFY_LINES_MAX);
    if (r->n_unsummed)
        log_say(LOG_WARN,
                "%zu pieces have no checksum (a store of the original engine has none, one of an "
                "earlier version none of its texts): only their place was checked; --accept-texts "
                "notes those of texts as they are",
                r->n_unsummed);
    log_say(LOG_INFO, "verified %s pieces, %s, in %s: %s/s, %d threads, %zu damaged",
            units_count(n, r->n_pieces), units_bytes(bytes, r->bytes),
            units_seconds(time, r->seconds),
            units_bytes(rate, (uint64_t)((double)r->bytes / seconds)), r->n_threads, r->n_damaged);
}

/* Notes the checksums of the texts as they are, with nobody else writing there. */
static int accept_texts(const char *path, struct err *e)
{
    struct file lock = FILE_CLOSED;
    struct store *s;
    int rc = store_open(path, &s, e);
    if (rc)
        return rc;
    rc = file_lock_dir(s->dir, &lock, e);
    if (!rc)
        rc = texts_note(s->dir, e);
    file_drop(&lock);
    store_close(s);
    return rc;
}

static int run(int argc, char **argv, struct err *e)
{
    int64_t threads = 0;
    bool accept = false;
    const struct flag flag[] = {
        {"threads", FLAG_INT, &threads, "N", "threads (one per processor)", 1, 1024},
        {"accept-texts", FLAG_BOOL, &accept, NULL,
         "first note the checksums of texts (template, tokenizer, config) as they are now", 0, 0},
        {0},
    };
    struct flags f = {.command = &cmd_verify, .flag = flag, .min_args = 1, .max_args = 1};
    struct verify_report r;
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    interrupt_catch();
    if (accept && (rc = accept_texts(f.args[0], e)))
        return rc;
    rc = verify_store(f.args[0], (int)threads, &r, e);
    if (!rc || e->code == E_DIFFER)
        report(&r);
    verify_free(&r);
    return rc;
}

const struct command cmd_verify = {"verify", "STORE", "check a store against its checksums", run};
