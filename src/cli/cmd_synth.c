/* cherenkov synth: a made-up store of any shape, for measurements. */
#include <string.h>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/os.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "pack/synth.h"

static void report(const struct synth_report *r)
{
    char bytes[UNITS_ROOM], time[UNITS_ROOM], rate[UNITS_ROOM], peak[UNITS_ROOM];
    double seconds = r->seconds > 1e-6 ? r->seconds : 1e-6;
    log_say(LOG_INFO, "made up %s in %s: %s/s, %d threads, peak memory %s",
            units_bytes(bytes, r->bytes), units_seconds(time, r->seconds),
            units_bytes(rate, (uint64_t)((double)r->bytes / seconds)), r->n_threads,
            units_bytes(peak, os_rss_peak_bytes()));
}

static int run(int argc, char **argv, struct err *e)
{
    struct synth_options o = {.seed = 1};
    struct synth_report r;
    const char *bits = "4", *mtp = "yes";
    int64_t layers = 0, experts = 0, threads = 0, base = 0, seed = 1;
    const struct flag flag[] = {
        {"layers", FLAG_INT, &layers, "N", "layers of the trunk (as CONFIG says)", 1, 512},
        {"experts", FLAG_INT, &experts, "N", "experts of a layer (as CONFIG says)", 1, 4096},
        {"experts-bits", FLAG_STRING, &bits, "4,3,2", "precisions of the experts (4)", 0, 0},
        {"ngram-base", FLAG_INT, &base, "N", "ngram_vocab_size_base (as CONFIG says)", 2, 1e9},
        {"mtp", FLAG_STRING, &mtp, "yes|no", "a draft head, if CONFIG has one (yes)", 0, 0},
        {"skew", FLAG_REAL, &o.skew, "A", "how unequal the experts are: 0 not at all", 0, 4},
        {"seed", FLAG_INT, &seed, "N", "another seed, other weights (1)", 0, 1e15},
        {"tokenizer", FLAG_STRING, &o.tokenizer, "DIR", "copy tokenizer and template from there", 0,
         0},
        {"threads", FLAG_INT, &threads, "N", "threads (one per processor)", 1, 64},
        {"force", FLAG_BOOL, &o.bits.force, NULL, "replace a store that is there", 0, 0},
        {0},
    };
    struct flags f = {.command = &cmd_synth, .flag = flag, .min_args = 2, .max_args = 2};
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    if (strcmp(mtp, "yes") != 0 && strcmp(mtp, "no") != 0)
        return ERR(e, E_ARG, "synth: --mtp wants yes or no, found '%s'", mtp);
    rc = lowbit_parse(bits, "synth: --experts-bits", &o.bits, e);
    if (rc)
        return rc;
    o.config = f.args[0];
    o.n_layers = (int)layers;
    o.E = (int)experts;
    o.ngram_base = base;
    o.seed = (uint64_t)seed;
    o.without_mtp = strcmp(mtp, "no") == 0;
    o.bits.n_threads = (int)threads;
    interrupt_catch();
    rc = synth_run(f.args[1], &o, &r, e);
    if (!rc)
        report(&r);
    return rc;
}

const struct command cmd_synth = {"synth", "CONFIG DIR", "make up a store of random weights", run};
