/* Packing: see pack.h. */
#include "pack/pack.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/units.h"
#include "pack/packing.h"
#include "pack/publish.h"
#include "pack/texts.h"
#include "store/store.h"

#define MARGIN_MAX   ((uint64_t)2000000000)
#define MARGIN_MIN   ((uint64_t)16 << 20)
#define MARGIN_SHARE 8 /* of the store's size, between those two */

static int look_for_store(const struct plan *p, const char *dir, const struct pack_options *o,
                          struct pack_report *r, struct err *e);
static int prepare(const struct plan *p, const char *dir, uint64_t also, struct err *e);
static int claim_new(const char *dir, struct file *lock, struct err *e);
static int write_store(const struct plan *p, const char *dir, int n_threads, struct pack_report *r,
                       struct err *e);

int pack_output(const struct plan *p, const char *output, char **dir, struct err *e)
{
    *dir = output ? mem_strdup(output) : file_join(p->checkpoint->dir, "packed");
    return *dir ? 0 : ERR(e, E_NOMEM, "out of memory naming the output");
}

int pack_run(const struct plan *p, const struct pack_options *o, struct pack_report *r,
             struct err *e)
{
    char *dir;
    uint64_t start = clock_ns();
    int n_threads = o->n_threads ? o->n_threads : os_cpu_count() < 2 ? 2 : os_cpu_count();
    *r = (struct pack_report){.store_bytes = plan_bytes(p)};
    for (int f = FATE_COPIED; f <= FATE_REQUANTISED; f++)
        r->source_bytes += p->fate[f].bytes;
    struct file lock = FILE_CLOSED;
    int rc = pack_output(p, o->output, &dir, e);
    if (!rc && file_is_dir(dir))
        rc = file_lock_dir(dir, &lock, e);
    if (!rc)
        rc = look_for_store(p, dir, o, r, e);
    if (!rc && !r->reused)
        rc = prepare(p, dir, o->also, e);
    if (!rc && lock.fd < 0)
        rc = claim_new(dir, &lock, e);
    if (!rc && !r->reused)
        rc = write_store(p, dir, n_threads, r, e);
    r->seconds = clock_seconds_since(start);
    file_drop(&lock);
    mem_free(dir);
    return rc;
}

/* Of a directory that was not there a moment ago: another program may have been as quick. */
static int claim_new(const char *dir, struct file *lock, struct err *e)
{
    char *path = file_join(dir, "manifest.json");
    int rc = path ? file_lock_dir(dir, lock, e) : ERR(e, E_NOMEM, "out of memory opening %s", dir);
    if (!rc && file_exists(path))
        rc = ERR(e, E_IO, "%s: another program has just made a store there", dir);
    mem_free(path);
    return rc;
}

/* The data files are unlinked, and not written over, so that a running engine keeps those that it
 * has: it may use them where they are mapped. */
static int remove_store(const char *dir, const char *manifest, struct err *e)
{
    int rc = file_remove(manifest, e);
    if (!rc)
        rc = journal_remove(dir, e);
    if (!rc)
        rc = file_sync_dir(dir, e);
    for (int i = 0; !rc && i < PIECE_FILES; i++) {
        char *path = file_join(dir, piece_file_names[i]);
        rc = path ? file_remove(path, e) : ERR(e, E_NOMEM, "out of memory opening %s", dir);
        mem_free(path);
    }
    return rc;
}

/* A valid store of the same source is used as it is, but that it gets back the texts that it lacks;
 * any other is refused, unless forced. */
static int use_store(const struct plan *p, const char *dir, const char *path, size_t *n_restored,
                     struct err *e)
{
    struct manifest there;
    struct store *s;
    int rc = manifest_read(path, &there, e);
    if (rc) {
        err_prefix(e, "%s holds a store that does not open (--force packs it again)", dir);
        return rc;
    }
    if (strcmp(there.source_dir, p->target.source_dir) != 0)
        rc = ERR(e, E_ARG,
                 "%s holds a store of %s, want one of %s: choose another --output, or pass --force "
                 "to replace it",
                 dir, there.source_dir, p->target.source_dir);
    manifest_free(&there);
    if (rc)
        return rc;
    rc = texts_restore(dir, p->checkpoint->dir, n_restored, e);
    rc = rc ? rc : store_open(dir, &s, e);
    if (rc)
        err_prefix(e, "%s holds a store that does not open (--force packs it again)", dir);
    else
        store_close(s);
    return rc ? rc : journal_remove(dir, e);
}

static int look_for_store(const struct plan *p, const char *dir, const struct pack_options *o,
                          struct pack_report *r, struct err *e)
{
    char *path = file_join(dir, "manifest.json");
    int rc = path ? 0 : ERR(e, E_NOMEM, "out of memory opening %s", dir);
    bool there = path && file_exists(path);
    r->reused = there && !o->force;
    if (there)
        rc = o->force ? remove_store(dir, path, e) : use_store(p, dir, path, &r->n_restored, e);
    mem_free(path);
    return rc;
}

/* The directory above, or "." or "/". */
static char *parent(const char *dir)
{
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    while (n && dir[n - 1] != '/')
        n--;
    while (n > 1 && dir[n - 1] == '/')
        n--;
    return n ? mem_strndup(dir, n) : mem_strdup(".");
}

uint64_t pack_margin(uint64_t total)
{
    uint64_t margin = total / MARGIN_SHARE;
    margin = margin > MARGIN_MAX ? MARGIN_MAX : margin;
    return margin < MARGIN_MIN ? MARGIN_MIN : margin;
}

int pack_space(const struct plan *p, const char *dir, struct pack_space *out, struct err *e)
{
    uint64_t total = plan_bytes(p), there = 0;
    for (int i = 0; i < PIECE_FILES; i++) {
        char *path = file_join(dir, piece_file_names[i]);
        if (!path)
            return ERR(e, E_NOMEM, "out of memory opening %s", dir);
        there += file_disk_bytes(path);
        mem_free(path);
    }
    out->needed = total > there ? total - there : 0;
    out->margin = pack_margin(total);
    char *above = file_is_dir(dir) ? mem_strdup(dir) : parent(dir);
    int rc = above ? os_disk_free(above, &out->free, e)
                   : ERR(e, E_NOMEM, "out of memory opening %s", dir);
    mem_free(above);
    return rc;
}

/* Everything that can be refused before the first byte is written. */
static int prepare(const struct plan *p, const char *dir, uint64_t also, struct err *e)
{
    char needed[UNITS_ROOM], margin[UNITS_ROOM], room[UNITS_ROOM];
    struct pack_space s;
    int rc = plan_check(p, e);
    if (rc || (rc = plan_check_constants(p, e)) || (rc = publish_check(p, dir, e)) ||
        (rc = pack_space(p, dir, &s, e)))
        return rc;
    s.needed += also;
    if (s.free < s.needed + s.margin)
        return ERR(e, E_SPACE,
                   "%s: the disk has %s free, want %s for the store and a margin of %s; free some, "
                   "or choose another --output",
                   dir, units_bytes(room, s.free), units_bytes(needed, s.needed),
                   units_bytes(margin, s.margin));
    return file_make_dir(dir, e);
}

static int write_store(const struct plan *p, const char *dir, int n_threads, struct pack_report *r,
                       struct err *e)
{
    struct packing k;
    uint64_t kept = 0, total = plan_bytes(p);
    int rc = packing_open(dir, p, n_threads, &k, e);
    if (rc)
        return rc;
    r->n_threads = k.n_lanes;
    rc = packing_recheck(&k, &kept, e);
    r->written_bytes = total - kept;
    progress_start(&k.progress, "packing", total - kept);
    if (!rc)
        rc = packing_write_all(&k, e);
    progress_end(&k.progress);
    if (!rc)
        rc = packing_sync(&k, e);
    if (!rc)
        rc = publish_metadata(p, dir, e);
    if (!rc)
        rc = publish_manifest(p, &k.pieces, k.journal.sum, dir, e);
    packing_close(&k);
    if (!rc)
        rc = journal_remove(dir, e);
    else if (e->code == E_INTERRUPTED || e->code == E_SPACE)
        err_prefix(e, "%s is unfinished; the same command goes on from here", dir);
    return rc;
}
