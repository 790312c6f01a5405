/* What `run` and `chat` share: see answer.h. */
#include "cli/answer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/units.h"

void answer_flags_init(struct answer_flags *a, struct flag *rows)
{
    const struct flag table[ANSWER_FLAGS - MODEL_FLAGS] = {
        {"max-tokens", FLAG_INT, &a->max_tokens, "N",
         "stop after N tokens (until the context is full)", 1, INT32_MAX},
        {"max-ctx", FLAG_INT, &a->ctx, "N",
         "tokens of prompt and answer together (8192, or what the model was made for)", 1,
         INT32_MAX},
        {"temperature", FLAG_REAL, &a->temperature, "T", "0 always takes the likeliest token", 0,
         100},
        {"top-k", FLAG_INT, &a->top_k, "N", "only among the N likeliest; 0: all", 0, INT32_MAX},
        {"top-p", FLAG_REAL, &a->top_p, "P", "only the likeliest that add up to P", 0, 1},
        {"min-p", FLAG_REAL, &a->min_p, "P", "only those P times as likely as the first", 0, 1},
        {"presence-penalty", FLAG_REAL, &a->presence, "X", "off the logit of every token seen",
         -100, 100},
        {"frequency-penalty", FLAG_REAL, &a->frequency, "X", "the same, each time it was seen",
         -100, 100},
        {"repetition-penalty", FLAG_REAL, &a->repetition, "X", "divides the logits of tokens seen",
         0.01, 100},
        {"seed", FLAG_INT, &a->seed, "N", "the same seed draws the same answer", 0, 0x1p53},
        {"greedy", FLAG_BOOL, &a->greedy, NULL, "the likeliest token always, no penalties", 0, 0},
        {"stop", FLAG_LIST, &a->stop, "TEXT", "end before this text (may be repeated)", 0, 0},
        {"ignore-eos", FLAG_BOOL, &a->ignore_eos, NULL, "go on behind end tokens, shown as text", 0,
         0},
        {"system", FLAG_STRING, &a->system, "TEXT", "a system message in front", 0, 0},
        {"think", FLAG_BOOL, &a->think, NULL, "let the model think first", 0, 0},
        {"no-think", FLAG_BOOL, &a->no_think, NULL, "answer at once (the default)", 0, 0},
        {"effort", FLAG_STRING, &a->effort, "NAME",
         "think with this effort, a word of the template", 0, 0},
        {"drafts", FLAG_INT, &a->drafts, "N",
         "tokens guessed for each step, at most; 0: none (2). The text stays the same", 0,
         ENGINE_DRAFTS_MAX},
        {"draft-source", FLAG_WORD, &a->draft_source, "auto|head|lookup",
         "guesses of the draft head, or from what the text says elsewhere (auto)", 0, 0},
        {"draft-always", FLAG_BOOL, &a->draft_always, NULL,
         "N guesses for every step, whether they pay or not", 0, 0},
        {"no-ranking", FLAG_BOOL, &a->no_ranking, NULL,
         "do not keep, for the next start, which experts were used", 0, 0},
    };
    *a = (struct answer_flags){.top_k = -1, .seed = -1, .temperature = NAN, .top_p = NAN};
    a->min_p = a->presence = a->frequency = a->repetition = NAN;
    a->drafts = DRAFTS_DEFAULT;
    memcpy(rows, table, sizeof table);
    model_flags_init(&a->model, rows + ANSWER_FLAGS - MODEL_FLAGS);
}

static bool any_sampling(const struct answer_flags *a)
{
    return a->top_k >= 0 || a->seed >= 0 || !isnan(a->temperature) || !isnan(a->top_p) ||
           !isnan(a->min_p) || !isnan(a->presence) || !isnan(a->frequency) || !isnan(a->repetition);
}

int answer_flags_check(const struct answer_flags *a, const char *command, struct err *e)
{
    if (a->greedy && any_sampling(a))
        return ERR(e, E_ARG, "%s: --greedy excludes all sampling flags: leave one or the other out",
                   command);
    if (a->no_think && (a->think || a->effort))
        return ERR(e, E_ARG, "%s: --no-think excludes --%s: leave one of them out", command,
                   a->think ? "think" : "effort");
    return 0;
}

int answer_model_options(const struct answer_flags *a, const char *command,
                         struct model_options *out, struct err *e)
{
    if (model_flags_options(&a->model, command, out, e))
        return -e->code;
    out->ctx = (int)a->ctx;
    out->engine_options.no_ranking = a->no_ranking;
    out->engine_options.drafts = a->drafts > 0 && a->draft_source != DRAFTS_LOOKUP;
    return 0;
}

/* Not by stdio: a Ctrl-C in the middle of its write is an error that it remembers. */
int answer_print(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    if (fflush(stdout))
        return 1;
    while (len) {
        const ssize_t n = write(STDOUT_FILENO, text, len);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return 1;
        text += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static bool interrupted(void *ctx)
{
    (void)ctx;
    return interrupt_asked();
}

static void override(double *to, double given)
{
    if (!isnan(given))
        *to = given;
}

int answer_options(const struct answer_flags *a, const struct model *m,
                   struct generate_options *out, struct err *e)
{
    struct sample_options s = a->greedy ? SAMPLE_GREEDY : m->sample;
    override(&s.temperature, a->temperature);
    override(&s.top_p, a->top_p);
    override(&s.min_p, a->min_p);
    override(&s.presence, a->presence);
    override(&s.frequency, a->frequency);
    override(&s.repetition, a->repetition);
    if (a->top_k >= 0)
        s.top_k = (int)a->top_k;
    s.seed = a->seed >= 0 ? (uint64_t)a->seed : rng_splitmix64(clock_ns()) % 1000000;
    *out = (struct generate_options){
        .sample = s,
        .draft = {(int)a->drafts, (enum draft_source)a->draft_source, a->draft_always, NULL},
        .max_tokens = (int)a->max_tokens,
        .stop = a->stop.at,
        .n_stop = a->stop.n,
        .ignore_stop_ids = a->ignore_eos,
        .on_text = answer_print,
        .cancelled = interrupted,
    };
    return sample_options_check(&s, e);
}

int answer_variables(const struct answer_flags *a, json_t **out, struct err *e)
{
    json_t *set = json_pack("{s:b, s:s*}", "enable_thinking", a->think || a->effort,
                            "reasoning_effort", a->effort);
    *out = set;
    return set ? 0 : ERR(e, E_ARG, "--effort: not valid UTF-8");
}

static double rate(double n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

static double share(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* How fast bytes came while the engine stood waiting for them. */
static void add_read_rate(const struct model *m, const struct counters *c, struct buf *line)
{
    char room[UNITS_ROOM];
    const double bytes = (double)(c->bytes[CAUSE_DEMAND] + c->bytes[CAUSE_PREFILL]);
    const double r = rate(bytes, (double)c->read_ns * 1e-9);
    if (r <= 0)
        return;
    buf_printf(line, ", %s/s while waited for", units_bytes(room, (uint64_t)r));
    if (m->rates.depth)
        buf_printf(line, " (%.0f %% of the disk)", share(r, m->rates.disk));
}

/* How fast weights went through products, where --probe measured what memory gives. */
static void add_memory_rate(const struct model *m, const struct counters *c, double seconds,
                            struct buf *line)
{
    char room[UNITS_ROOM];
    const double r = rate((double)c->touched_bytes, seconds);
    if (r > 0 && m->rates.depth && !c->on_device)
        buf_printf(line, ", weights at %s/s (%.0f %% of the memory)",
                   units_bytes(room, (uint64_t)r), share(r, m->rates.memory));
}

/* What the engine counted in so many seconds of computing; what it did not is left out. */
static void add_counters(const struct model *m, const struct counters *c, double seconds,
                         struct buf *line)
{
    char room[UNITS_ROOM];
    const struct counters_sum sum = counters_sum(c);
    const uint64_t there = sum.device_hits + sum.hits, uses = there + sum.misses;
    if (sum.read_bytes)
        buf_printf(line, "; read %s", units_bytes(room, sum.read_bytes));
    add_read_rate(m, c, line);
    if (uses)
        buf_printf(line, ", experts cached %.1f %%", share((double)there, (double)uses));
    add_memory_rate(m, c, seconds, line);
}

void answer_figures(const struct model *m, const struct generate_result *r,
                    const struct generate_options *o)
{
    const struct counters *c = m->engine->ops->counters(m->engine);
    const int fed = r->n_prompt - r->n_cached;
    struct buf line = BUF_INIT;
    buf_printf(&line,
               "prompt %d tok (%d reused) in %.2f s, %.1f tok/s; answer %d tok in %.2f s, %.1f "
               "tok/s",
               r->n_prompt, r->n_cached, r->prefill_s, rate(fed, r->prefill_s), r->n_generated,
               r->decode_s, rate(r->n_generated - 1, r->decode_s));
    if (r->n_drafted)
        buf_printf(&line, ", %d of %d drafts right (%.0f %%)", r->n_accepted, r->n_drafted,
                   share(r->n_accepted, r->n_drafted));
    if (c)
        add_counters(m, c, r->prefill_s + r->decode_s, &line);
    buf_printf(&line, "; engine %s, finish %s", m->engine->ops->name, finish_name(r->finish));
    if (o->sample.temperature > 0)
        buf_printf(&line, ", seed %llu", (unsigned long long)o->sample.seed);
    buf_printf(&line, ", logits %016llx", (unsigned long long)r->logits_hash);
    log_say(LOG_INFO, "%s", buf_str(&line));
    buf_free(&line);
}
