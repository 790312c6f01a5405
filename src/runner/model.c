/* Opening all that a run needs: see model.h. */
#include "runner/model.h"

#include <string.h>

#include "base/env.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "runner/dump.h"
#include "runner/engines.h"
#include "runner/machine.h"
#include "stream/probe.h"

#define PROBE_SECONDS 0.5

enum { GENERATION_CONFIG_MAX = 1 << 20, PROBE_MEMORY = 128 << 20 };

static int open_parts(struct model *m, const char *path, const struct model_options *o,
                      struct err *e);
static int open_text(struct model *m, const char *dir, int vocab, struct err *e);
static int read_defaults(struct model *m, const char *path, int vocab, struct err *e);

int model_open(const char *path, const struct model_options *o, struct model **out, struct err *e)
{
    struct model *m = mem_zalloc(1, sizeof *m);
    if (!m)
        return ERR(e, E_NOMEM, "no memory to open %s", path);
    if (open_parts(m, path, o, e)) {
        model_close(m);
        return -e->code;
    }
    *out = m;
    return 0;
}

void model_close(struct model *m)
{
    if (!m)
        return;
    if (m->engine)
        m->engine->ops->close(m->engine);
    dump_close(m->dump);
    chat_close(m->chat);
    tokenizer_close(m->tokenizer);
    weights_free(&m->weights);
    store_close(m->store);
    mem_free(m);
}

int model_reopen(struct model *m, struct err *e)
{
    m->n_pending = 0;
    if (m->engine)
        m->engine->ops->close(m->engine);
    m->engine = NULL;
    return m->ops->open(&m->weights, &m->options, &m->engine, e);
}

int model_check_text(const char *dir, int vocab, struct err *e)
{
    struct model *m = mem_zalloc(1, sizeof *m);
    int rc = m ? open_text(m, dir, vocab, e) : ERR(e, E_NOMEM, "no memory to open %s", dir);
    model_close(m);
    return rc;
}

bool model_is_stop(const struct model *m, int32_t id)
{
    for (int i = 0; i < m->n_stop_ids; i++)
        if (m->stop_ids[i] == id)
            return true;
    return false;
}

int model_tokens(const struct model *m)
{
    const int vocab = m->weights.config.vocab;
    const int n = m->tokenizer ? tokenizer_count(m->tokenizer) : vocab;
    return n < vocab ? n : vocab;
}

int model_check_ids(const struct model *m, const struct tokens *ids, struct err *e)
{
    const int vocab = m->weights.config.vocab;
    for (size_t i = 0; i < ids->n; i++)
        if (ids->ids[i] < 0 || ids->ids[i] >= vocab)
            return ERR(e, E_ARG, "token %zu has the id %d; the model's ids are 0 to %d", i,
                       (int)ids->ids[i], vocab - 1);
    return 0;
}

static int set_ctx(struct model *m, int ctx, struct err *e)
{
    const int most = m->store->config.max_pos;
    if (ctx < 0 || ctx > most)
        return ERR(e, ctx < 0 ? E_ARG : E_LIMIT,
                   "%s: a context of %d tokens is asked for, and the model's positions end at %d",
                   m->store->dir, ctx, most);
    m->ctx = ctx ? ctx : most < MODEL_CTX_DEFAULT ? most : MODEL_CTX_DEFAULT;
    return 0;
}

/* Disk and memory; as many reads in flight as the disk gains from, unless o says how many. */
static int measure(struct model *m, struct engine_options *o, struct err *e)
{
    const int bits = o->expert_bits ? o->expert_bits : store_bits_best(m->store);
    const struct probe_wish wish = {bits, o->reads, o->read_depth, PROBE_SECONDS};
    struct probe disk;
    if (probe_store(m->store, &wish, &disk, e) ||
        machine_memory_rate(o->threads, PROBE_MEMORY, &m->rates.memory, e))
        return -e->code;
    m->rates.disk = disk.gbs * 1e9;
    m->rates.depth = disk.depth;
    o->read_depth = m->rates.depth;
    return 0;
}

/* The engine that was asked for; of "auto" the next best where the best cannot. */
static int open_engine(struct model *m, const char *name, const struct engine_ops *ops,
                       const struct engine_options *o, struct err *e)
{
    const bool automatic = !name || strcmp(name, "auto") == 0;
    const struct engine_ops *instead = automatic ? engines_instead(ops) : NULL;
    struct err why = {0};
    if (ops->open(&m->weights, o, &m->engine, instead ? &why : e) == 0)
        return 0;
    if (!instead)
        return -e->code;
    if (interrupt_check(e))
        return -e->code;
    log_say(LOG_WARN, "engine %s: %s; engine %s is taken instead", ops->name, why.msg,
            instead->name);
    return instead->open(&m->weights, o, &m->engine, e);
}

/* With model_close undoing whatever was reached. */
static int open_parts(struct model *m, const char *path, const struct model_options *o,
                      struct err *e)
{
    struct engine_options options = o->engine_options;
    struct weight_source source;
    const struct engine_ops *ops;
    if (engines_find(o->engine, &ops, e) || store_open(path, &m->store, e) || set_ctx(m, o->ctx, e))
        return -e->code;
    if (!o->without_text && open_text(m, m->store->dir, m->store->config.vocab, e))
        return -e->code;
    if (!options.expert_bits)
        options.expert_bits = store_bits_best(m->store);
    if (weights_source_bits(m->store, options.expert_bits, &source, e) ||
        weights_init(&m->store->config, &source, &m->weights, e))
        return -e->code;
    if (!options.observe && env_get(ENV_DUMP)) {
        if (dump_open(env_get(ENV_DUMP), &m->dump, e))
            return -e->code;
        options.observe = dump_observer(m->dump);
    }
    if (o->probe && measure(m, &options, e))
        return -e->code;
    if (interrupt_check(e))
        return -e->code;
    m->drafts = options.drafts && m->weights.config.n_mtp > 0;
    pace_init(&m->pace);
    m->options = options;
    if (open_engine(m, o->engine, ops, &options, e))
        return -e->code;
    m->ops = m->engine->ops;
    return 0;
}

static int add_stop(struct model *m, int64_t id, int vocab, const char *where, struct err *e)
{
    if (id < 0 || id >= vocab)
        return ERR(e, E_FORMAT, "%s: the end token %lld is not one of the model's %d", where,
                   (long long)id, vocab);
    if (model_is_stop(m, (int32_t)id))
        return 0;
    if (m->n_stop_ids == MODEL_STOP_MAX)
        return ERR(e, E_LIMIT, "%s: more than %d end tokens", where, MODEL_STOP_MAX);
    m->stop_ids[m->n_stop_ids++] = (int32_t)id;
    return 0;
}

/* The chat format is optional: base models have none, and run --raw does without. */
static int open_chat(struct model *m, const char *dir, struct err *e)
{
    if (chat_open(dir, &m->chat, e) && e->code == E_NOTFOUND)
        err_clear(e);
    return -e->code;
}

static int open_text(struct model *m, const char *dir, int vocab, struct err *e)
{
    static const char *const ends[] = {"<|im_end|>", "<|endoftext|>"};
    if (tokenizer_open(dir, &m->tokenizer, e) || open_chat(m, dir, e))
        return -e->code;
    char *path = file_join(dir, "generation_config.json");
    if (!path)
        return ERR(e, E_NOMEM, "no memory to open %s", dir);
    int rc = read_defaults(m, path, vocab, e);
    for (size_t i = 0; !rc && i < sizeof ends / sizeof ends[0]; i++) {
        int32_t id = tokenizer_id(m->tokenizer, ends[i]);
        if (id >= 0)
            rc = add_stop(m, id, vocab, "tokenizer.json", e);
    }
    mem_free(path);
    return rc;
}

/* eos_token_id: a number or a list of them. */
static int read_ends(struct model *m, const json_t *ends, int vocab, const char *where,
                     struct err *e)
{
    char found[64];
    const size_t n = json_is_array(ends) ? json_array_size(ends) : 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_is_array(ends) ? json_array_get(ends, i) : ends;
        if (!json_is_integer(id))
            return ERR(e, E_FORMAT, "%s: eos_token_id: want a token id or a list of them, found %s",
                       where, json_describe(id, found, sizeof found));
        if (add_stop(m, json_integer_value(id), vocab, where, e))
            return -e->code;
    }
    return 0;
}

/* As transformers reads it: without do_sample the settings are there but not used. */
static int read_settings(struct model *m, const json_t *root, const char *where, struct err *e)
{
    struct sample_options o = {.temperature = 1, .top_p = 1, .repetition = 1};
    int64_t top_k = 0;
    bool sampled = false;
    if (json_field_bool(root, where, "do_sample", false, &sampled, e) ||
        json_field_real(root, where, "temperature", false, 0, 100, &o.temperature, e) ||
        json_field_int(root, where, "top_k", false, 0, INT32_MAX, &top_k, e) ||
        json_field_real(root, where, "top_p", false, 0, 1, &o.top_p, e) ||
        json_field_real(root, where, "min_p", false, 0, 1, &o.min_p, e) ||
        json_field_real(root, where, "repetition_penalty", false, 0.01, 100, &o.repetition, e))
        return -e->code;
    o.top_k = (int)top_k;
    if (sampled)
        m->sample = o;
    else
        m->sample.repetition = o.repetition;
    return 0;
}

static int read_defaults(struct model *m, const char *path, int vocab, struct err *e)
{
    json_t *root = NULL;
    m->sample = SAMPLE_GREEDY;
    if (!file_exists(path))
        return 0;
    if (json_read_file(path, GENERATION_CONFIG_MAX, &root, e))
        return -e->code;
    int rc = read_settings(m, root, path, e);
    const json_t *ends = json_object_get(root, "eos_token_id");
    if (!rc && ends && !json_is_null(ends))
        rc = read_ends(m, ends, vocab, path, e);
    json_decref(root);
    return rc;
}
