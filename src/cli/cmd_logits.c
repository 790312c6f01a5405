/* cherenkov logits: what the model computes for given token ids, for evaluation and scripts. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/input.h"
#include "cli/model_flags.h"
#include "runner/model.h"
#include "runner/score.h"

enum { BEST = 5 };

struct job {
    struct model_flags model;
    const char *ids_arg, *f32;
    int64_t last, greedy; /* last -1: all */
    bool drafts, json;
    struct model *m;
    struct sequence *seq;
    struct tokens ids, argmax, continuation, draft_argmax;
    size_t from;           /* first position shown */
    struct buf draft_rows; /* floats of the draft rows, which are printed behind the others */
    struct file file;
    uint64_t end; /* of the file */
    bool listed;  /* a row was printed */
};

/* --- rows --- */

static void print_json_row(const float *x, int n)
{
    for (int i = 0; i < n; i++)
        printf("%s%.9g", i ? "," : "[", (double)x[i]);
    putchar(']');
}

/* Position, token, and the best tokens with their logits. */
static void print_best(size_t pos, int32_t id, const float *x, int n)
{
    int32_t best[BEST];
    int n_best = 0;
    for (int i = 0; i < n; i++) {
        int at = n_best;
        while (at > 0 && x[i] > x[best[at - 1]])
            at--;
        if (at == BEST)
            continue;
        if (n_best < BEST)
            n_best++;
        memmove(&best[at + 1], &best[at], (size_t)(n_best - 1 - at) * sizeof best[0]);
        best[at] = i;
    }
    printf("%8zu %8d ", pos, (int)id);
    for (int i = 0; i < n_best; i++)
        printf("  %6d %8.4f", (int)best[i], (double)x[best[i]]);
    putchar('\n');
}

static int write_row(struct job *j, const float *x, struct err *e)
{
    const size_t bytes = (size_t)j->m->weights.config.vocab * sizeof *x;
    if (!j->f32)
        return 0;
    if (file_write_at(&j->file, j->end, x, bytes, e))
        return -e->code;
    j->end += bytes;
    return 0;
}

static int on_row(void *ctx, size_t pos, const float *logits, struct err *e)
{
    struct job *j = ctx;
    const int vocab = j->m->weights.config.vocab;
    if (interrupt_check(e) || tokens_push(&j->argmax, engine_argmax(logits, vocab), e))
        return -e->code;
    if (pos < j->from)
        return 0;
    if (j->json) {
        fputs(j->listed ? "," : "", stdout);
        print_json_row(logits, vocab);
    } else {
        print_best(pos, j->ids.ids[pos], logits, vocab);
    }
    j->listed = true;
    return write_row(j, logits, e);
}

static int on_draft(void *ctx, size_t pos, const float *logits, struct err *e)
{
    struct job *j = ctx;
    const int vocab = j->m->weights.config.vocab;
    if (pos < j->from)
        return 0;
    buf_add(&j->draft_rows, logits, (size_t)vocab * sizeof *logits);
    if (tokens_push(&j->draft_argmax, engine_argmax(logits, vocab), e))
        return -e->code;
    return buf_check(&j->draft_rows, e);
}

/* --- output around the rows --- */

static void print_ids(const char *name, const struct tokens *t, size_t from)
{
    printf("%s", name);
    for (size_t i = from; i < t->n; i++)
        printf("%s%d", i > from ? "," : "", (int)t->ids[i]);
}

static void print_head(const struct job *j)
{
    if (!j->json) {
        printf("%8s %8s   best next tokens and their logits\n", "position", "token");
        return;
    }
    printf("{\"engine\":\"%s\",\"vocab\":%d,\"positions\":[", j->m->engine->ops->name,
           j->m->weights.config.vocab);
    for (size_t pos = j->from; pos < j->ids.n; pos++)
        printf("%s%zu", pos > j->from ? "," : "", pos);
    fputs("],\n\"logits\":[", stdout);
}

static const float *draft_row(const struct job *j, size_t i)
{
    return (const float *)(const void *)j->draft_rows.data + i * (size_t)j->m->weights.config.vocab;
}

/* argmax holds one entry before `from` when only the last row's successor was wanted. */
static void print_tail(const struct job *j)
{
    const size_t skip = j->argmax.n - (j->ids.n - j->from);
    if (!j->json) {
        if (j->drafts)
            printf("drafts of the token after the next\n");
        for (size_t i = 0; i < j->draft_argmax.n; i++)
            print_best(j->from + i, j->ids.ids[j->from + i], draft_row(j, i),
                       j->m->weights.config.vocab);
        if (j->greedy)
            print_ids("greedy ", &j->continuation, 0);
        fputs(j->greedy ? "\n" : "", stdout);
        return;
    }
    print_ids("],\n\"argmax\":[", &j->argmax, skip);
    print_ids("],\n\"greedy\":[", &j->continuation, 0);
    print_ids("],\n\"draft_argmax\":[", &j->draft_argmax, 0);
    fputs("],\n\"drafts\":[", stdout);
    for (size_t i = 0; i < j->draft_argmax.n; i++) {
        fputs(i ? "," : "", stdout);
        print_json_row(draft_row(j, i), j->m->weights.config.vocab);
    }
    fputs("]}\n", stdout);
}

/* --- the command --- */

static bool interrupted(void *ctx)
{
    (void)ctx;
    return interrupt_asked();
}

/* The last row is computed in any case when a continuation hangs on it. */
static int compute(struct job *j, struct err *e)
{
    const size_t n = j->ids.n, last = j->last < 0 || (size_t)j->last > n ? n : (size_t)j->last;
    j->from = n - last;
    const struct score s = {.engine = j->m->engine,
                            .seq = j->seq,
                            .ids = j->ids.ids,
                            .n = n,
                            .n_known = n,
                            .from = last ? j->from : n - 1,
                            .drafts = j->drafts,
                            .ctx = j,
                            .cancelled = interrupted,
                            .row = on_row,
                            .draft = on_draft};
    print_head(j);
    if (score_run(&s, e))
        return -e->code;
    if (j->greedy && score_greedy(j->m->engine, j->seq, j->argmax.ids[j->argmax.n - 1],
                                  (size_t)j->greedy, &j->continuation, e))
        return -e->code;
    for (size_t i = 0; i < j->draft_argmax.n; i++)
        if (write_row(j, draft_row(j, i), e))
            return -e->code;
    if (j->f32 && file_close(&j->file, e))
        return -e->code;
    print_tail(j);
    return 0;
}

static int open_and_compute(struct job *j, const char *path, struct err *e)
{
    struct model_options o;
    const uint64_t start = clock_ns();
    if (model_flags_options(&j->model, "logits", &o, e))
        return -e->code;
    o.engine_options.drafts = j->drafts;
    o.without_text = true;
    o.ctx = (int)(j->ids.n + (size_t)j->greedy);
    if (model_open(path, &o, &j->m, e))
        return -e->code;
    model_flags_say_opening(j->m);
    int rc = model_check_ids(j->m, &j->ids, e);
    if (!rc && j->f32)
        rc = file_create(j->f32, &j->file, e);
    if (!rc)
        rc = j->m->engine->ops->sequence_open(j->m->engine, j->m->ctx, &j->seq, e);
    if (!rc)
        rc = compute(j, e);
    if (!rc)
        log_say(LOG_INFO, "%zu tokens and %zu behind them in %.2f s, engine %s", j->ids.n,
                j->continuation.n, clock_seconds_since(start), j->m->engine->ops->name);
    if (j->seq)
        j->m->engine->ops->sequence_close(j->seq);
    const bool half = rc && j->file.fd >= 0;
    file_drop(&j->file);
    if (half)
        file_remove(j->f32, e);
    model_close(j->m);
    return rc;
}

static int check_flags(const struct job *j, struct err *e)
{
    if (!j->ids_arg)
        return ERR(e, E_ARG, "logits: --ids is required: a list like 1,2,3, a file of ids, or -");
    if (j->json && j->f32)
        return ERR(e, E_ARG, "logits: --json and --f32 exclude one another");
    return 0;
}

static int run(int argc, char **argv, struct err *e)
{
    struct job j = {.last = -1, .file = FILE_CLOSED};
    struct flag flag[7 + MODEL_FLAGS] = {
        {"ids", FLAG_STRING, &j.ids_arg, "FILE|LIST", "the token ids: 1,2,3 or a file of them", 0,
         0},
        {"last", FLAG_INT, &j.last, "N", "only the last N positions (all)", 0, INT32_MAX},
        {"greedy", FLAG_INT, &j.greedy, "N", "continue by N tokens, not ended by stop ids", 0,
         1 << 24},
        {"drafts", FLAG_BOOL, &j.drafts, NULL, "the draft head's logits, given the true next token",
         0, 0},
        {"json", FLAG_BOOL, &j.json, NULL, "one object: logits, argmax, greedy, drafts", 0, 0},
        {"f32", FLAG_STRING, &j.f32, "FILE", "rows as raw little-endian floats; draft rows behind",
         0, 0},
    };
    struct flags f = {.command = &cmd_logits, .flag = flag, .min_args = 1, .max_args = 1};
    model_flags_init(&j.model, flag + 6);
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    rc = check_flags(&j, e);
    if (!rc)
        rc = input_ids(j.ids_arg, &j.ids, e);
    interrupt_catch();
    if (!rc)
        rc = open_and_compute(&j, f.args[0], e);
    tokens_free(&j.ids);
    tokens_free(&j.argmax);
    tokens_free(&j.continuation);
    tokens_free(&j.draft_argmax);
    buf_free(&j.draft_rows);
    return rc;
}

const struct command cmd_logits = {"logits", "STORE", "logits of given token ids", run};
