/* cherenkov pack: a published checkpoint becomes a store that the engine can run; a store gets its
 * experts in fewer bits. */
#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "pack/lowbit.h"
#include "pack/pack.h"
#include "runner/model.h"

/* What the flags say. */
struct wish {
    const char *output, *norms, *experts;
    int64_t threads;
    bool dry_run, requantise, skip_unknown, force;
};

static int parse_norms(const char *word, enum plan_norms *out, struct err *e)
{
    *out = PLAN_NORMS_DETECT;
    if (!word)
        return 0;
    if (strcmp(word, "raw") == 0)
        *out = PLAN_NORMS_RAW;
    else if (strcmp(word, "folded") == 0)
        *out = PLAN_NORMS_FOLDED;
    else
        return ERR(e, E_ARG, "pack: --norms wants raw or folded, found '%s'", word);
    return 0;
}

static void print_file(const struct plan *p, enum piece_file file, const char *what)
{
    char bytes[UNITS_ROOM];
    printf("%-12s %15s bytes  %s\n", piece_file_names[file], units_count(bytes, p->bytes[file]),
           what);
}

static void print_fates(const struct plan *p)
{
    char n[UNITS_ROOM], bytes[UNITS_ROOM];
    for (int f = 0; f < FATE_COUNT; f++)
        if (p->fate[f].tensors)
            printf("tensors      %15s        %s (%s bytes)\n", units_count(n, p->fate[f].tensors),
                   plan_fate_name((enum plan_fate)f), units_count(bytes, p->fate[f].bytes));
    if (p->n_derived)
        printf("tensors      %15s        not in the source, derived from config.json\n",
               units_count(n, p->n_derived));
}

static int print_plan(const struct plan *p, const char *output, struct err *e)
{
    const struct manifest *m = &p->target;
    struct pack_space space;
    char *dir, what[128], a[UNITS_ROOM], b[UNITS_ROOM], c[UNITS_ROOM];
    int rc = pack_output(p, output, &dir, e);
    if (rc)
        return rc;
    rc = pack_space(p, dir, &space, e);
    if (rc)
        goto out;
    printf("source       %s (%s, %s tensors, %s bytes)\n", p->checkpoint->dir, plan_encoding(p),
           units_count(a, p->checkpoint->n_tensors), units_count(b, p->checkpoint->nbytes));
    printf("output       %s\n", dir);
    printf("norms        %s: %s\n", p->norms.norms == NORMS_RAW ? "raw" : "folded",
           p->norms.because);
    print_fates(p);
    snprintf(what, sizeof what, "%s tensors", units_count(a, m->n_dense));
    print_file(p, PIECE_DENSE, what);
    snprintf(what, sizeof what, "%d layers of %d records of %s bytes", m->experts.n_layers,
             m->experts.E, units_count(a, m->experts.stride));
    print_file(p, PIECE_EXPERTS, what);
    snprintf(what, sizeof what, "%s rows of %d bytes", units_count(a, m->ngram.rows),
             m->ngram.row_bytes);
    if (m->ngram.rows)
        print_file(p, PIECE_NGRAM, what);
    printf("%-12s %15s bytes\n", "total", units_count(a, plan_bytes(p)));
    if (p->config_changed)
        printf("config.json  says 0 draft layers, as the source has none\n");
    printf("disk         %s bytes to write and %s to spare, %s free\n",
           units_count(a, space.needed), units_count(b, space.margin), units_count(c, space.free));
out:
    mem_free(dir);
    return rc;
}

static void report(const struct plan *p, const struct pack_report *r)
{
    char store[UNITS_ROOM], source[UNITS_ROOM], time[UNITS_ROOM], in[UNITS_ROOM], out[UNITS_ROOM],
        peak[UNITS_ROOM], kept[UNITS_ROOM + 24] = "", old[UNITS_ROOM];
    if (r->reused) {
        if (r->n_restored)
            snprintf(kept, sizeof kept, "texts that it lacked: %zu", r->n_restored);
        log_say(LOG_INFO,
                "the store is there already, from the same source; %s (`cherenkov verify` checks "
                "it, --force packs it again)",
                r->n_restored ? kept : "nothing to do");
        return;
    }
    double per_second = (double)r->written_bytes / (r->seconds > 1e-6 ? r->seconds : 1e-6);
    double ratio = (double)r->source_bytes / (double)r->store_bytes;
    if (r->written_bytes < r->store_bytes)
        snprintf(kept, sizeof kept, ", %s kept from before",
                 units_bytes(old, r->store_bytes - r->written_bytes));
    log_say(LOG_INFO,
            "packed %s from %s of %s in %s: %s/s read, %s/s written, %d threads, peak memory %s%s",
            units_bytes(store, r->store_bytes), units_bytes(source, r->source_bytes),
            plan_encoding(p), units_seconds(time, r->seconds),
            units_bytes(in, (uint64_t)(per_second * ratio)), units_bytes(out, (uint64_t)per_second),
            r->n_threads, units_bytes(peak, os_rss_peak_bytes()), kept);
}

static void report_lowbit(const struct lowbit_options *o, const struct lowbit_report *r)
{
    char written[UNITS_ROOM], time[UNITS_ROOM], in[UNITS_ROOM], out[UNITS_ROOM], peak[UNITS_ROOM];
    double seconds = r->seconds > 1e-6 ? r->seconds : 1e-6;
    for (int bits = 3; bits >= RECORDS_BITS_MIN; bits--)
        if (o->want[bits])
            log_say(LOG_INFO, "experts of %d bits: %s", bits,
                    r->made[bits] ? "made" : "are there already (--force makes them again)");
    if (!r->written_bytes)
        return;
    log_say(LOG_INFO, "wrote %s in %s: %s/s read, %s/s written, %d threads, peak memory %s",
            units_bytes(written, r->written_bytes), units_seconds(time, r->seconds),
            units_bytes(in, (uint64_t)((double)r->read_bytes / seconds)),
            units_bytes(out, (uint64_t)((double)r->written_bytes / seconds)), r->n_threads,
            units_bytes(peak, os_rss_peak_bytes()));
}

/* The experts of the store at path in fewer bits. */
static int reduce(const char *path, const struct lowbit_options *o, struct err *e)
{
    struct lowbit_report r;
    int rc = o->want[3] || o->want[2] ? lowbit_run(path, o, &r, e) : 0;
    if (!rc && (o->want[3] || o->want[2]))
        report_lowbit(o, &r);
    return rc;
}

static void print_lowbit(const struct expert_layout *x, const struct lowbit_options *o)
{
    for (int bits = 3; bits >= RECORDS_BITS_MIN; bits--) {
        struct records r;
        char bytes[UNITS_ROOM], stride[UNITS_ROOM];
        records_layout(x, bits, &r);
        if (o->want[bits])
            printf("%-12s %15s bytes  %d layers of %d records of %s bytes\n", records_file(bits),
                   units_count(bytes, r.n * r.stride), x->n_layers, x->E,
                   units_count(stride, r.stride));
    }
}

/* Texts are copied as they are: a store that `run` would refuse for them is not made. A source
 * without a tokenizer packs all the same, for `logits` and the like. */
static int check_text(const struct plan *p, struct err *e)
{
    const char *dir = p->checkpoint->dir;
    char *path = file_join(dir, "tokenizer.json");
    int rc = path ? 0 : ERR(e, E_NOMEM, "out of memory opening %s", dir);
    if (!rc && file_exists(path))
        rc = model_check_text(dir, p->config.vocab, e);
    mem_free(path);
    return rc;
}

static int pack_source(const char *source, const struct wish *w, const struct lowbit_options *low,
                       struct err *e)
{
    struct plan_choices choices = {.requantise = w->requantise, .skip_unknown = w->skip_unknown};
    struct pack_options options = {w->output, (int)w->threads, w->force, 0};
    struct pack_report r;
    struct plan *p;
    char *dir = NULL;
    int rc = parse_norms(w->norms, &choices.norms, e);
    if (!rc)
        rc = plan_open(source, &choices, &p, e);
    if (rc)
        return rc;
    options.also = lowbit_bytes_of(&p->target.experts, low);
    if (w->dry_run) {
        rc = print_plan(p, w->output, e);
        if (!rc)
            rc = plan_check(p, e);
        print_lowbit(&p->target.experts, low);
        rc = rc ? rc : check_text(p, e);
    } else {
        rc = check_text(p, e);
        rc = rc ? rc : pack_run(p, &options, &r, e);
        if (!rc)
            report(p, &r);
        if (!rc)
            rc = pack_output(p, w->output, &dir, e);
        if (!rc)
            rc = reduce(dir, low, e);
        mem_free(dir);
    }
    plan_close(p);
    return rc;
}

/* A store instead of a checkpoint: only its experts can be made in fewer bits. */
static int reduce_store(const char *path, const struct wish *w, const struct lowbit_options *low,
                        struct err *e)
{
    struct pack_space space;
    struct store *s;
    char a[UNITS_ROOM], b[UNITS_ROOM], c[UNITS_ROOM];
    if (w->output || w->norms || w->requantise || w->skip_unknown)
        return ERR(e, E_ARG,
                   "%s is a store: it takes --experts, --threads, --force and --dry-run, and no "
                   "flags for checkpoints",
                   path);
    if (!w->dry_run)
        return reduce(path, low, e);
    int rc = store_open(path, &s, e);
    if (rc)
        return rc;
    rc = lowbit_space(s, low, &space, e);
    print_lowbit(&s->manifest.experts, low);
    if (!rc)
        printf("disk         %s bytes to write and %s to spare, %s free\n",
               units_count(a, space.needed), units_count(b, space.margin),
               units_count(c, space.free));
    store_close(s);
    return rc;
}

static int run_wish(const char *source, const struct wish *w, struct err *e)
{
    struct lowbit_options low = {.n_threads = (int)w->threads, .force = w->force};
    char *manifest = file_join(source, "manifest.json");
    int rc = manifest ? 0 : ERR(e, E_NOMEM, "out of memory opening %s", source);
    if (!rc && w->experts)
        rc = lowbit_parse(w->experts, "pack: --experts", &low, e);
    if (!rc && file_exists(manifest) && !w->experts)
        rc = ERR(e, E_ARG,
                 "%s is a store already; `cherenkov pack %s --experts 3,2` makes its experts in "
                 "fewer bits",
                 source, source);
    else if (!rc && file_exists(manifest))
        rc = reduce_store(source, w, &low, e);
    else if (!rc)
        rc = pack_source(source, w, &low, e);
    mem_free(manifest);
    return rc;
}

static int run(int argc, char **argv, struct err *e)
{
    struct wish w = {0};
    const struct flag flag[] = {
        {"output", FLAG_STRING, &w.output, "DIR", "where the store goes (SRC/packed)", 0, 0},
        {"dry-run", FLAG_BOOL, &w.dry_run, NULL, "print the plan, write nothing", 0, 0},
        {"norms", FLAG_STRING, &w.norms, "raw|folded",
         "how SRC stores its norms, instead of finding out", 0, 0},
        {"requantise", FLAG_BOOL, &w.requantise, NULL,
         "quantise MLX weights in other groups a second time (lossy)", 0, 0},
        {"skip-unknown", FLAG_BOOL, &w.skip_unknown, NULL, "leave out tensors that no store has", 0,
         0},
        {"experts", FLAG_STRING, &w.experts, "4,3,2",
         "make experts of 3 or 2 bits besides those of 4; SRC may be a store", 0, 0},
        {"threads", FLAG_INT, &w.threads, "N", "threads (one per processor)", 1, 1024},
        {"force", FLAG_BOOL, &w.force, NULL, "pack again over a store that is there", 0, 0},
        {0},
    };
    struct flags f = {.command = &cmd_pack, .flag = flag, .min_args = 1, .max_args = 1};
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    interrupt_catch();
    return run_wish(f.args[0], &w, e);
}

const struct command cmd_pack = {"pack", "SRC", "turn a checkpoint into a store", run};
