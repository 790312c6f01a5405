/* cherenkov perplexity: how well the model predicts a text. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/input.h"
#include "cli/model_flags.h"
#include "cli/show.h"
#include "runner/model.h"
#include "runner/perplexity.h"

struct job {
    int64_t window, stride; /* 0: the context, half the window */
    bool json;
    struct model_flags model;
    struct model *m;
    struct sequence *seq;
    struct buf text;
    struct tokens ids;
    double *nll; /* [ids.n] */
};

struct totals {
    double nll;             /* nats */
    size_t n_scored, bytes; /* tokens scored, and the bytes they stand for */
};

static struct totals add_up(const struct job *j)
{
    struct totals t = {0};
    for (size_t i = 1; i < j->ids.n; i++) {
        size_t bytes;
        tokenizer_bytes(j->m->tokenizer, j->ids.ids[i], &bytes);
        t.nll += j->nll[i];
        t.bytes += bytes;
        t.n_scored++;
    }
    return t;
}

static double bits_per_byte(const struct totals *t)
{
    return t->bytes ? t->nll / log(2) / (double)t->bytes : 0;
}

static void print_json(const struct job *j, const struct totals *t)
{
    printf("{\"engine\":\"%s\",\"window\":%lld,\"stride\":%lld,\"tokens\":%zu,\"scored\":%zu,"
           "\"bytes\":%zu,\"nll\":%.9g,\"perplexity\":%.9g,\"bits_per_byte\":%.9g,\n\"ids\":[",
           j->m->engine->ops->name, (long long)j->window, (long long)j->stride, j->ids.n,
           t->n_scored, t->bytes, t->nll / (double)t->n_scored, exp(t->nll / (double)t->n_scored),
           bits_per_byte(t));
    for (size_t i = 0; i < j->ids.n; i++)
        printf("%s%d", i ? "," : "", (int)j->ids.ids[i]);
    printf("],\n\"token_nll\":[null");
    for (size_t i = 1; i < j->ids.n; i++)
        printf(",%.9g", j->nll[i]);
    printf("]}\n");
}

static int print_plain(const struct job *j, const struct totals *t, struct err *e)
{
    struct buf b = BUF_INIT;
    buf_puts(&b, "position       id      nll  token\n");
    for (size_t i = 0; i < j->ids.n; i++) {
        size_t n;
        const char *bytes = tokenizer_bytes(j->m->tokenizer, j->ids.ids[i], &n);
        buf_printf(&b, "%8zu %8d ", i, (int)j->ids.ids[i]);
        if (i)
            buf_printf(&b, "%8.4f  \"", j->nll[i]);
        else
            buf_printf(&b, "%8s  \"", "-");
        show_text(&b, bytes, n);
        buf_puts(&b, "\"\n");
    }
    buf_printf(&b,
               "windows of %lld tokens, stride %lld; %zu tokens scored, %zu bytes\n"
               "mean nll %.6f nats, perplexity %.4f, %.4f bits per byte\n",
               (long long)j->window, (long long)j->stride, t->n_scored, t->bytes,
               t->nll / (double)t->n_scored, exp(t->nll / (double)t->n_scored), bits_per_byte(t));
    int rc = buf_check(&b, e);
    if (!rc)
        fputs(buf_str(&b), stdout);
    buf_free(&b);
    return rc;
}

static bool interrupted(void *ctx)
{
    (void)ctx;
    return interrupt_asked();
}

static int compute(struct job *j, struct err *e)
{
    const uint64_t start = clock_ns();
    const struct perplexity_options o = {(int)j->window, (int)j->stride, NULL, interrupted};
    j->nll = mem_array(j->ids.n, sizeof *j->nll);
    if (!j->nll)
        return ERR(e, E_NOMEM, "no memory for %zu tokens", j->ids.n);
    if (perplexity_run(j->m->engine, j->seq, &j->ids, &o, j->nll, e))
        return -e->code;
    const struct totals t = add_up(j);
    if (j->json)
        print_json(j, &t);
    else if (print_plain(j, &t, e))
        return -e->code;
    const double s = clock_seconds_since(start);
    log_say(LOG_INFO, "%zu tokens in %.2f s, %.1f tok/s, engine %s", j->ids.n, s,
            s > 0 ? (double)j->ids.n / s : 0, j->m->engine->ops->name);
    return 0;
}

static int open_and_compute(struct job *j, const char *path, struct err *e)
{
    struct model_options o;
    if (model_flags_options(&j->model, "perplexity", &o, e))
        return -e->code;
    o.ctx = (int)j->window;
    if (model_open(path, &o, &j->m, e))
        return -e->code;
    j->window = j->m->ctx;
    j->stride = j->stride ? j->stride : (j->window + 1) / 2;
    model_flags_say_opening(j->m);
    int rc = tokenizer_encode(j->m->tokenizer, j->text.data, j->text.len, false, &j->ids, e);
    if (!rc)
        rc = model_check_ids(j->m, &j->ids, e);
    const int held = j->ids.n < (size_t)j->window ? (int)j->ids.n + 1 : (int)j->window;
    if (!rc)
        rc = j->m->engine->ops->sequence_open(j->m->engine, held, &j->seq, e);
    if (!rc)
        rc = compute(j, e);
    if (j->seq)
        j->m->engine->ops->sequence_close(j->seq);
    model_close(j->m);
    return rc;
}

static int run(int argc, char **argv, struct err *e)
{
    struct job j = {0};
    struct flag flag[4 + MODEL_FLAGS] = {
        {"window", FLAG_INT, &j.window, "N", "tokens seen at once (8192)", 2, INT32_MAX},
        {"stride", FLAG_INT, &j.stride, "N", "from window to window (half a window)", 1, INT32_MAX},
        {"json", FLAG_BOOL, &j.json, NULL, "one object, with the nll of every token", 0, 0},
    };
    struct flags f = {.command = &cmd_perplexity, .flag = flag, .min_args = 2, .max_args = 2};
    model_flags_init(&j.model, flag + 3);
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    rc = input_text(f.args[1], &j.text, e);
    interrupt_catch();
    if (!rc)
        rc = open_and_compute(&j, f.args[0], e);
    buf_free(&j.text);
    tokens_free(&j.ids);
    mem_free(j.nll);
    return rc;
}

const struct command cmd_perplexity = {
    "perplexity", "STORE TEXT", "how well the model predicts a text (a file, -, or words)", run};
