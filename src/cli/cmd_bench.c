/* cherenkov bench: how fast a model runs on this machine, and what it is limited by. */
#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/os.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/input.h"
#include "cli/model_flags.h"
#include "runner/batch.h"
#include "runner/bench.h"
#include "runner/machine.h"

#define PROBE_BYTES ((uint64_t)512 << 20)
enum { OWN_FLAGS = 12 };

struct job {
    struct model_flags model;
    int64_t prompt_tokens, tokens, sequences, repetitions, drafts, seed;
    const char *text;
    bool lookup, as_json, no_machine, phases;
    struct model *m;
    struct tokens prompt;
    int bits;                      /* of experts; 0: not known yet */
    double memory_rate, disk_rate; /* bytes a second; 0: not measured */
};

static bool interrupted(void *ctx)
{
    (void)ctx;
    return interrupt_asked();
}

/* Before the model takes the memory, and the disk's attention. */
static int measure_machine(struct job *j, const char *path, struct err *e)
{
    struct err why = {0};
    const struct records *r;
    struct store *s;
    int rc = store_open(path, &s, e);
    if (rc)
        return rc;
    j->bits = model_flags_bits(&j->model) ? model_flags_bits(&j->model) : store_bits_best(s);
    rc = store_records(s, j->bits, &r, e);
    if (!rc && !j->no_machine)
        rc = machine_memory_rate((int)j->model.threads, PROBE_BYTES, &j->memory_rate, e);
    if (!rc && !j->no_machine && machine_disk_rate(s, j->bits, 1.5, &j->disk_rate, &why) &&
        why.code != E_INTERRUPTED)
        log_say(LOG_WARN, "%s", why.msg); /* the rest can be measured all the same */
    store_close(s);
    return rc ? rc : interrupt_check(e);
}

/* The text's tokens, cut to the prompt's length. */
static int read_prompt(struct job *j, struct err *e)
{
    struct buf text = BUF_INIT;
    int rc = input_text(j->text, &text, e);
    if (!rc)
        rc = tokenizer_encode(j->m->tokenizer, text.data, text.len, false, &j->prompt, e);
    if (!rc && j->prompt.n < (size_t)j->prompt_tokens)
        j->prompt_tokens = (int64_t)j->prompt.n;
    buf_free(&text);
    return rc;
}

/* The other engines have no clock of their own. */
static int check_phases(const struct job *j, const char *engine, struct err *e)
{
    if (!j->phases || strcmp(engine, "gpu") == 0)
        return 0;
    return ERR(e, E_ARG,
               "bench: --phases is for engine gpu, and engine %s is to be measured: "
               "leave it out, or ask for --engine gpu",
               engine);
}

static int open_and_run(struct job *j, const char *path, struct bench_result *r, struct err *e)
{
    struct model_options mo;
    if (model_flags_options(&j->model, "bench", &mo, e))
        return -e->code;
    mo.without_text = !j->text;
    mo.engine_options.drafts = j->drafts > 0 && !j->lookup;
    mo.ctx = (int)(j->prompt_tokens + j->tokens + ENGINE_DRAFTS_MAX + 1);
    mo.engine_options.ctx = mo.ctx;
    mo.engine_options.phases = j->phases;
    mo.engine_options.n_sequences = (int)j->sequences;
    if (model_open(path, &mo, &j->m, e))
        return -e->code;
    model_flags_say_opening(j->m);
    int rc = check_phases(j, j->m->engine->ops->name, e);
    rc = rc || !j->text ? rc : read_prompt(j, e);
    const struct bench_options o = {
        .prompt_tokens = (int)j->prompt_tokens,
        .tokens = (int)j->tokens,
        .sequences = (int)j->sequences,
        .repetitions = (int)j->repetitions,
        .answers = j->drafts || (j->text && j->tokens && j->prompt_tokens),
        .drafts = (int)j->drafts,
        .lookup = j->lookup,
        .seed = (uint64_t)j->seed,
        .prompt = j->text ? &j->prompt : NULL,
        .cancelled = interrupted,
    };
    return rc ? rc : bench_run(j->m, &o, r, e);
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static double per_token(const struct bench_part *p, uint64_t n)
{
    return p->tokens ? (double)n / (double)p->tokens : 0;
}

/* Of how many experts one was there already: on the device, or anywhere. */
static double device_hit_rate(const struct bench_part *p)
{
    return share((double)p->device_hits, (double)(p->device_hits + p->hits + p->misses));
}

static double hit_rate(const struct bench_part *p)
{
    const uint64_t there = p->device_hits + p->hits;
    return share((double)there, (double)(there + p->misses));
}

/* What the best repetition took of memory (nothing of it is known for a device's), and what reads
 * had of the disk while they were open. */
static double memory_share(const struct job *j, const struct bench_part *p)
{
    const struct engine *g = j->m->engine;
    const struct counters *c = g->ops->counters ? g->ops->counters(g) : NULL;
    return c && c->on_device ? 0 : share(p->best * per_token(p, p->touched_bytes), j->memory_rate);
}

static double disk_share(const struct job *j, const struct bench_part *p)
{
    return share(share((double)p->read_bytes, p->reading_s), j->disk_rate);
}

/* Of a rate that was not measured there is no share. */
static void print_share(const char *before, double rate, double value)
{
    if (rate > 0)
        printf("%s %.3f of its rate", before, value);
}

/* Microseconds of a step, or of a token of a prefill. */
static void print_phases(const struct bench_part *p)
{
    const double n = (double)(p->steps ? p->steps : p->tokens);
    printf("%-10s us a %s:", "", p->steps ? "step" : "token");
    for (int i = 0; i < PHASE_COUNT; i++)
        printf(" %s %.1f%s", device_phase_name((enum device_phase)i),
               share((double)p->phase_ns[i] / 1e3, n), i + 1 < PHASE_COUNT ? "," : "\n");
}

static void print_part(const struct job *j, const char *name, const struct bench_part *p,
                       const struct bench_result *r)
{
    const struct engine *g = j->m->engine;
    const bool on_device = r->counted && g->ops->counters(g)->on_device;
    char touched[UNITS_ROOM], read[UNITS_ROOM], copied[UNITS_ROOM];
    printf("%-10s %9.2f tok/s best, %.2f median of %d\n", name, p->best, p->median, r->repetitions);
    if (!r->counted)
        return;
    printf("%-10s %9s of weights a token in memory", "",
           units_bytes(touched, (uint64_t)per_token(p, p->touched_bytes)));
    print_share(":", on_device ? 0 : j->memory_rate, memory_share(j, p));
    printf("\n%-10s %9s from disk a token", "",
           units_bytes(read, (uint64_t)per_token(p, p->read_bytes)));
    print_share(", while waited for", j->disk_rate, disk_share(j, p));
    printf("; hit rate %.3f", hit_rate(p));
    if (on_device)
        printf(" (%.3f on the device), %s copied there a token", device_hit_rate(p),
               units_bytes(copied, (uint64_t)per_token(p, p->copied_bytes)));
    if (p->host_experts)
        printf("\n%-10s %9.1f experts a token computed by the processor, in place of copies", "",
               per_token(p, p->host_experts));
    if (p->brought)
        printf("\n%-10s %9.1f experts a token copied before they were asked for: %.3f were", "",
               per_token(p, p->brought), share((double)p->brought_used, (double)p->brought));
    printf("\n");
    if (j->phases)
        print_phases(p);
}

/* Where dense weights and experts are. */
static void print_places(const struct job *j, const struct counters *c)
{
    const struct expert_layout *x = &j->m->store->manifest.experts;
    const uint64_t all = (uint64_t)x->n_layers * (uint64_t)x->E;
    char dense[UNITS_ROOM], pool[UNITS_ROOM], device[UNITS_ROOM];
    printf("%-10s dense %s, ", "", units_bytes(dense, c->dense_bytes));
    if (c->device_slots == all)
        printf("all %llu experts on the device, %s\n", (unsigned long long)all,
               units_bytes(device, c->device_bytes));
    else if (c->device_slots)
        printf("%llu of %llu experts on the device, %s, pool %llu, %s\n",
               (unsigned long long)c->device_slots, (unsigned long long)all,
               units_bytes(device, c->device_bytes), (unsigned long long)c->pool_slots,
               units_bytes(pool, c->pool_bytes));
    else
        printf("pool %llu of %llu experts, %s\n", (unsigned long long)c->pool_slots,
               (unsigned long long)all, units_bytes(pool, c->pool_bytes));
}

static void print_text(const struct job *j, const struct bench_result *r)
{
    const struct engine_ops *ops = j->m->engine->ops;
    const struct counters *c = r->counted ? ops->counters(j->m->engine) : NULL;
    char rss[UNITS_ROOM], memory[UNITS_ROOM], disk[UNITS_ROOM];
    if (!j->no_machine)
        printf("%-10s memory %s/s, disk %s/s read\n", "machine",
               units_bytes(memory, (uint64_t)j->memory_rate),
               units_bytes(disk, (uint64_t)j->disk_rate));
    printf("%-10s engine %s, experts of %d bits, %d sequence%s, peak memory %s\n", "model",
           ops->name, j->bits, (int)j->sequences, j->sequences == 1 ? "" : "s",
           units_bytes(rss, os_rss_peak_bytes()));
    if (c)
        print_places(j, c);
    if (j->prompt_tokens)
        print_part(j, "prefill", &r->prefill, r);
    if (j->tokens)
        print_part(j, "decode", &r->decode, r);
    if (j->drafts)
        printf("%-10s %llu drafted, %.3f accepted\n", "drafts", (unsigned long long)r->drafted,
               share((double)r->accepted, (double)r->drafted));
    printf("%-10s %016llx\n", "logits", (unsigned long long)r->logits_hash);
}

static json_t *part_json(const struct job *j, const struct bench_part *p, int repetitions)
{
    json_t *rates = json_array();
    for (int i = 0; i < repetitions; i++)
        json_array_append_new(rates, json_real(p->rate[i]));
    return json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "rates",
                     rates, "best", p->best, "median", p->median, "touched_bytes_a_token",
                     per_token(p, p->touched_bytes), "memory_share", memory_share(j, p),
                     "read_bytes_a_token", per_token(p, p->read_bytes), "disk_share",
                     disk_share(j, p), "hit_rate", hit_rate(p), "device_hit_rate",
                     device_hit_rate(p), "copied_bytes_a_token", per_token(p, p->copied_bytes),
                     "host_experts_a_token", per_token(p, p->host_experts), "brought_a_token",
                     per_token(p, p->brought), "brought_used",
                     share((double)p->brought_used, (double)p->brought));
}

static int print_json(const struct job *j, const struct bench_result *r, struct err *e)
{
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)r->logits_hash);
    json_t *root = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:I, s:o, s:o, s:I, s:I, s:s}", "engine",
        j->m->engine->ops->name, "expert_bits", j->bits, "prompt_tokens", (int)j->prompt_tokens,
        "tokens", (int)j->tokens, "sequences", (int)j->sequences, "repetitions", r->repetitions,
        "memory_rate", j->memory_rate, "disk_rate", j->disk_rate, "peak_memory",
        (json_int_t)os_rss_peak_bytes(), "prefill", part_json(j, &r->prefill, r->repetitions),
        "decode", part_json(j, &r->decode, r->repetitions), "drafted", (json_int_t)r->drafted,
        "accepted", (json_int_t)r->accepted, "logits", hash);
    struct buf text = BUF_INIT;
    int rc = json_print(root, JSON_INDENT(2), &text, e);
    if (!rc)
        printf("%s\n", buf_str(&text));
    buf_free(&text);
    json_decref(root);
    return rc;
}

static int check(const struct job *j, struct err *e)
{
    if (!j->prompt_tokens && !j->tokens)
        return ERR(e, E_ARG, "bench: --prompt-tokens 0 and --tokens 0 leave nothing to measure");
    if (j->drafts && (!j->prompt_tokens || !j->tokens))
        return ERR(e, E_ARG, "bench: --drafts wants a prompt and tokens behind it");
    if (j->lookup && !j->drafts)
        return ERR(e, E_ARG, "bench: --lookup says where drafts come from: give --drafts too");
    const char *engine = j->model.engine;
    if (engine && strcmp(engine, "auto") != 0)
        return check_phases(j, engine, e);
    return 0;
}

static int run(int argc, char **argv, struct err *e)
{
    struct job j = {.prompt_tokens = 512, .tokens = 64, .sequences = 1, .repetitions = 5};
    const struct flag own[OWN_FLAGS] = {
        {"prompt-tokens", FLAG_INT, &j.prompt_tokens, "N", "tokens of a prompt (512)", 0, 1 << 20},
        {"tokens", FLAG_INT, &j.tokens, "N", "tokens decoded behind it (64)", 0, 1 << 20},
        {"sequences", FLAG_INT, &j.sequences, "N", "sequences that share each step (1)", 1,
         BATCH_MAX},
        {"repetitions", FLAG_INT, &j.repetitions, "N", "behind one that is not counted (5)", 1,
         BENCH_REPETITIONS_MAX},
        {"drafts", FLAG_INT, &j.drafts, "N", "drafts of a step (0); answers are then the model's",
         0, ENGINE_DRAFTS_MAX},
        {"lookup", FLAG_BOOL, &j.lookup, NULL, "drafts from the text, not from the head", 0, 0},
        {"text", FLAG_STRING, &j.text, "TEXT", "the prompt: a file or words (random tokens)", 0, 0},
        {"seed", FLAG_INT, &j.seed, "N", "other random tokens (0)", 0, 1e15},
        {"no-machine", FLAG_BOOL, &j.no_machine, NULL, "do not measure memory and disk first", 0,
         0},
        {"phases", FLAG_BOOL, &j.phases, NULL,
         "what the time of a device goes into; costs a little", 0, 0},
        {"json", FLAG_BOOL, &j.as_json, NULL, "print one JSON object", 0, 0},
        {0},
    };
    struct flag flag[MODEL_FLAGS + OWN_FLAGS];
    struct flags f = {.command = &cmd_bench, .flag = flag, .min_args = 1, .max_args = 1};
    struct bench_result r = {0};
    model_flags_init(&j.model, flag);
    memcpy(flag + MODEL_FLAGS, own, sizeof own);
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    rc = check(&j, e);
    interrupt_catch();
    if (!rc)
        rc = measure_machine(&j, f.args[0], e);
    if (!rc)
        rc = open_and_run(&j, f.args[0], &r, e);
    if (!rc && j.as_json)
        rc = print_json(&j, &r, e);
    else if (!rc)
        print_text(&j, &r);
    tokens_free(&j.prompt);
    model_close(j.m);
    return rc;
}

const struct command cmd_bench = {"bench", "STORE", "measure how fast a model runs here", run};
