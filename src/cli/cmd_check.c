/* cherenkov check: two engines side by side, or an engine against a dump. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "cli/input.h"
#include "cli/model_flags.h"
#include "runner/check.h"
#include "runner/engines.h"
#include "runner/model.h"

static const char default_text[] = "Once upon a time there was a king who had three sons.";

/* Of the largest magnitude in a row. */
#define TOLERANCE_SAME  1e-4
#define TOLERANCE_OTHER 0.1
/* Of rows narrower than 256: 10 random models of 128 differed by 0.5 at most in 40 runs of 24
 * random tokens, the demonstration model of 256 by 0.03; engine cpu, revision 75a4f4b. */
#define TOLERANCE_NARROW 0.7
enum { NARROW = 256 };

struct job {
    struct model_flags model; /* its engine is the left side's */
    struct model_options options;
    const char *ids_arg, *against;
    double tolerance; /* NAN when not given */
    struct model *m;
    struct tokens ids;
    struct check_side left, right; /* the right engine is ours, the left one the model's */
    struct dump_file *dump;
};

static int tokens_to_check(struct job *j, const char *text, struct err *e)
{
    struct buf b = BUF_INIT;
    if (j->ids_arg)
        return input_ids(j->ids_arg, &j->ids, e);
    if (text)
        input_text(text, &b, e);
    else
        buf_puts(&b, default_text);
    if (!e->code && !buf_check(&b, e))
        tokenizer_encode(j->m->tokenizer, b.data, b.len, false, &j->ids, e);
    buf_free(&b);
    return -e->code;
}

static int check_ids(const struct job *j, struct err *e)
{
    if (j->ids.n == 0)
        return ERR(e, E_ARG, "check: no tokens to check with");
    if (j->ids.n > (size_t)j->m->ctx)
        return ERR(e, E_LIMIT, "check: %zu tokens, and the model's context is %d", j->ids.n,
                   j->m->ctx);
    return model_check_ids(j->m, &j->ids, e);
}

static bool is_dump(const struct job *j)
{
    return j->against && file_is_dir(j->against);
}

/* The right side: an engine's name, or a directory with a dump. */
static int open_right(struct job *j, struct err *e)
{
    const char *name = j->against ? j->against : "auto";
    const struct engine_ops *ops;
    struct engine_options o = j->options.engine_options;
    if (is_dump(j)) {
        int rc = dump_file_open(j->against, &j->dump, e);
        j->right.dump = j->dump;
        return rc;
    }
    if (engines_find(name, &ops, e))
        return err_prefix(e, "--against %s is no directory either", name);
    if (capture_open(&j->right.capture, e))
        return -e->code;
    o.observe = capture_observer(j->right.capture);
    if (ops->open(&j->m->weights, &o, &j->right.engine, e))
        return -e->code;
    return ops->sequence_open(j->right.engine, (int)j->ids.n, &j->right.seq, e);
}

static void close_side(struct check_side *s)
{
    if (s->seq)
        s->engine->ops->sequence_close(s->seq);
}

/* "residual of layer 3, position 7, element 2: 1.5 against 1.25, 0.01 of the row's largest" */
static void print_place(const char *what, const struct check_place *p)
{
    printf("%s: %s", what, seen_name(p->what));
    if (p->il >= 0)
        printf(" of layer %d", p->il);
    printf(", position %d, element %zu: %.9g against %.9g", p->pos, p->element, p->left, p->right);
    if (p->n_left != p->n_right)
        printf(" (%zu values against %zu)", p->n_left, p->n_right);
    if (isfinite(p->difference))
        printf(", %.3g of the row's largest", p->difference);
    putchar('\n');
}

/* The worst difference of each kind of block; behind a choice that turned out otherwise apart. */
static void print_kinds(const struct check_result *r)
{
    printf("%-14s %8s %10s%s\n", "block", "compared", "worst",
           r->behind ? "  behind a near tie" : "");
    for (int i = 0; i < SEEN_COUNT; i++) {
        const struct check_kind *k = &r->kinds[i];
        if (!k->n)
            continue;
        printf("%-14s %8ld %10.3g", seen_name((enum seen)i), k->n, k->worst);
        if (r->behind)
            printf("  %17.3g", k->worst_behind);
        putchar('\n');
    }
}

static int report(const struct job *j, const struct check_result *r, struct err *e)
{
    printf("%s against %s: %zu tokens, %ld blocks, %ld values, tolerance %g\n",
           j->left.engine->ops->name, j->dump ? j->against : j->right.engine->ops->name, j->ids.n,
           r->n_blocks, r->n_values, j->tolerance);
    print_kinds(r);
    if (r->n_missing)
        printf("%ld blocks are not shown by the right side\n", r->n_missing);
    if (r->n_logits)
        printf("best token equal in %ld of %ld rows of logits\n", r->n_same_argmax, r->n_logits);
    if (r->n_turns) {
        print_place("first near tie", &r->first_turn);
        printf("%ld choices turned out otherwise where they were nearly tied%s\n", r->n_turns,
               r->behind ? "; what lies behind the first does not decide" : "");
    }
    if (r->worst.difference > 0)
        print_place("worst", &r->worst);
    if (!r->differs) {
        printf("equal%s\n", r->worst.difference > 0 || r->n_turns ? " within the tolerance" : "");
        return 0;
    }
    print_place("first", &r->first);
    return ERR(e, E_DIFFER, "the two sides part at position %d, in %s, element %zu", r->first.pos,
               seen_name(r->first.what), r->first.element);
}

/* An engine that rounds activations to 8 bits is compared with one that does not. */
static void default_tolerance(struct job *j)
{
    const bool narrow = j->m->store->config.h < NARROW;
    if (isnan(j->tolerance))
        j->tolerance = j->dump || j->left.engine->ops == j->right.engine->ops ? TOLERANCE_SAME
                       : narrow                                               ? TOLERANCE_NARROW
                                                                              : TOLERANCE_OTHER;
}

static int compare(struct job *j, const char *text, struct err *e)
{
    struct check_result r;
    const uint64_t start = clock_ns();
    struct engine *g = j->m->engine;
    j->left.engine = g;
    if (tokens_to_check(j, text, e) || check_ids(j, e) || open_right(j, e) ||
        g->ops->sequence_open(g, (int)j->ids.n, &j->left.seq, e))
        return -e->code;
    default_tolerance(j);
    if (check_run(&j->left, &j->right, &j->ids, j->tolerance, &r, e))
        return -e->code;
    int rc = report(j, &r, e);
    log_say(LOG_INFO, "%zu tokens in %.2f s", j->ids.n, clock_seconds_since(start));
    return rc;
}

static int open_and_compare(struct job *j, const char *path, const char *text, struct err *e)
{
    struct model_options *o = &j->options;
    if (model_flags_options(&j->model, "check", o, e) || capture_open(&j->left.capture, e))
        return -e->code;
    if (!o->engine && !is_dump(j))
        o->engine = "reference";
    o->engine_options.observe = capture_observer(j->left.capture);
    o->without_text = j->ids_arg != NULL;
    int rc = model_open(path, o, &j->m, e);
    if (!rc)
        model_flags_say_opening(j->m);
    if (!rc)
        rc = compare(j, text, e);
    close_side(&j->left);
    close_side(&j->right);
    if (j->right.engine)
        j->right.engine->ops->close(j->right.engine);
    model_close(j->m);
    capture_close(j->left.capture);
    capture_close(j->right.capture);
    dump_file_close(j->dump);
    return rc;
}

static int run(int argc, char **argv, struct err *e)
{
    struct job j = {.tolerance = NAN};
    struct flag flag[4 + MODEL_FLAGS] = {
        {"ids", FLAG_STRING, &j.ids_arg, "FILE|LIST", "token ids instead of a text", 0, 0},
        {"against", FLAG_STRING, &j.against, "B|DUMPDIR",
         "the right side: an engine, or what CHERENKOV_DUMP wrote (the best engine)", 0, 0},
        {"tolerance", FLAG_REAL, &j.tolerance, "X",
         "times a row's largest magnitude (1e-4; 0.1 for different engines, 0.7 for small models)",
         0, 1},
    };
    struct flags f = {.command = &cmd_check, .flag = flag, .min_args = 1, .max_args = 2};
    model_flags_init(&j.model, flag + 3);
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    if (j.ids_arg && f.n_args > 1)
        return ERR(e, E_ARG, "check: --ids and a text exclude one another");
    rc = open_and_compare(&j, f.args[0], f.n_args > 1 ? f.args[1] : NULL, e);
    tokens_free(&j.ids);
    return rc;
}

const struct command cmd_check = {
    "check", "STORE [TEXT]", "compare two engines, or an engine with a dump, block by block", run};
