/* Flags of every command that runs a model: see model_flags.h. */
#include "cli/model_flags.h"

#include <string.h>

#include "base/log.h"
#include "base/units.h"

#define GB 1e9

void model_flags_init(struct model_flags *f, struct flag *rows)
{
    const struct flag table[MODEL_FLAGS] = {
        {"engine", FLAG_STRING, &f->engine, "NAME", "which engine computes (auto)", 0, 0},
        {"threads", FLAG_INT, &f->threads, "N", "threads that compute (one per processor)", 1,
         ENGINE_THREADS_MAX},
        {"memory", FLAG_SIZE, &f->memory, "SIZE",
         "for everything: 8G, 512M (what the machine has, less headroom)", 1 << 20, 0x1p60},
        {"device-memory", FLAG_SIZE, &f->device_memory, "SIZE",
         "of the memory of a GPU (what its driver gives, less a sixteenth)", 1 << 20, 0x1p60},
        {"host-experts", FLAG_WORD, &f->host_experts, "auto|on|off",
         "experts that are not in a GPU's memory: computed by the processor (auto)", 0, 0},
        {"pool-gb", FLAG_REAL, &f->pool_gb, "G",
         "of it for cached experts, in GB (what is left over)", 0.001, 1e6},
        {"pool-slots", FLAG_INT, &f->pool_slots, "N", "the same as a number of experts", 1,
         INT32_MAX},
        {"pool", FLAG_WORD, &f->pool, "copy|map",
         "experts read into memory of our own, or used from the page cache (copy)", 0, 0},
        {"prefill-chunk", FLAG_INT, &f->chunk, "N", "tokens of a prompt at once (as memory allows)",
         1, ENGINE_CHUNK_MAX},
        {"experts", FLAG_WORD, &f->experts, "auto|4|3|2",
         "bits of expert weights; changes answers (the most that the store has)", 0, 0},
        {"miss-experts", FLAG_WORD, &f->miss_experts, "3|2",
         "bits of experts that must be waited for; answers depend on the cache", 0, 0},
        {"cut-weak", FLAG_REAL, &f->cut_weak, "W",
         "leave out late experts below this weight; answers depend on the cache", 0, 1},
        {"probe", FLAG_BOOL, &f->probe, NULL,
         "measure disk and memory first, and say what they give", 0, 0},
        {"reads", FLAG_WORD, &f->reads, "auto|uring|pread", "how experts are read (auto)", 0, 0},
    };
    *f = (struct model_flags){.miss_experts = -1};
    memcpy(rows, table, sizeof table);
}

int model_flags_bits(const struct model_flags *f)
{
    return f->experts ? 5 - f->experts : 0;
}

static int check(const struct model_flags *f, const char *command, struct err *e)
{
    const bool map = f->pool == ENGINE_POOL_MAP;
    const int bits = model_flags_bits(f) ? model_flags_bits(f) : 4;
    if (f->pool_gb > 0 && f->pool_slots)
        return ERR(e, E_ARG, "%s: --pool-gb and --pool-slots say the same thing: leave one out",
                   command);
    if (map && (f->pool_gb > 0 || f->pool_slots))
        return ERR(e, E_ARG,
                   "%s: --pool map uses the page cache and has no size: leave --pool-%s "
                   "out",
                   command, f->pool_slots ? "slots" : "gb");
    if (map && (bits < 4 || f->miss_experts >= 0))
        return ERR(e, E_ARG, "%s: --pool map takes experts of 4 bits only: leave --%sexperts out",
                   command, bits < 4 ? "" : "miss-");
    if (f->miss_experts >= 0 && 4 - bits > f->miss_experts)
        return ERR(e, E_ARG, "%s: --miss-experts %d: want fewer bits than --experts %d", command,
                   3 - f->miss_experts, bits);
    return 0;
}

static void warn(const struct model_flags *f)
{
    const char *name = f->miss_experts >= 0 ? "--miss-experts" : "--cut-weak";
    if (f->miss_experts >= 0 || f->cut_weak > 0)
        log_say(LOG_WARN,
                "with %s answers depend on what is cached: the same prompt may get another one",
                name);
}

int model_flags_options(const struct model_flags *f, const char *command, struct model_options *out,
                        struct err *e)
{
    if (check(f, command, e))
        return -e->code;
    *out = MODEL_OPTIONS;
    out->engine = f->engine;
    out->probe = f->probe;
    out->engine_options = (struct engine_options){
        .mtp_norm = -1,
        .expert_bits = model_flags_bits(f),
        .threads = (int)f->threads,
        .memory = f->memory,
        .device_memory = f->device_memory,
        .host_experts = (enum engine_host)f->host_experts,
        .pool_bytes = (uint64_t)(f->pool_gb * GB),
        .pool_slots = (int)f->pool_slots,
        .pool = (enum engine_pool)f->pool,
        .chunk = (int)f->chunk,
        .reads = (enum engine_reads)f->reads,
        .no_ranking = true, /* what measures leaves a store as it is */
        .miss_bits = f->miss_experts < 0 ? 0 : 3 - f->miss_experts,
        .cut_weak = f->cut_weak,
    };
    warn(f);
    return 0;
}

void model_flags_say_opening(const struct model *m)
{
    char disk[UNITS_ROOM], memory[UNITS_ROOM];
    const struct model_rates *r = &m->rates;
    if (r->depth)
        log_say(LOG_INFO, "this machine: disk %s/s with %d reads in flight, memory %s/s",
                units_bytes(disk, (uint64_t)r->disk), r->depth,
                units_bytes(memory, (uint64_t)r->memory));
    if (store_bits_best(m->store) < 4)
        log_say(LOG_INFO, "%s holds experts of %d bits at most: answers are those of fewer bits",
                m->store->dir, store_bits_best(m->store));
    if (m->engine->remark)
        log_say(LOG_INFO, "%s", m->engine->remark);
}
