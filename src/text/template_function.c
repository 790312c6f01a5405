/* The functions that templates find without defining them: Jinja2's own, and those that
 * transformers adds, raise_exception and strftime_now. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "text/template_run.h"
#include "text/template_text.h"

static int fn_raise(struct render *r, const struct call *c, struct value *out)
{
    struct value words;
    (void)out;
    int rc = value_str(r, &c->arg[0], &words);
    if (rc)
        return rc;
    int len = words.s.len > 900 ? 900 : (int)words.s.len;
    return render_fail(r, E_FORMAT, "%.*s", len, words.s.p);
}

/* How many numbers lie from start to stop (excluded) in steps of step. */
static uint64_t range_count(int64_t start, int64_t stop, int64_t step)
{
    if (step > 0 ? start >= stop : start <= stop)
        return 0;
    uint64_t far = (uint64_t)stop - (uint64_t)start; /* modulo 2^64, where the distance fits */
    uint64_t by = (uint64_t)step;
    if (step < 0) {
        far = 0 - far;
        by = 0 - by;
    }
    return by ? (far - 1) / by + 1 : 0;
}

static int fn_range(struct render *r, const struct call *c, struct value *out)
{
    int64_t a = 0, b = 0, step = 1;
    int rc = call_int(r, c, 0, &a);
    if (!rc)
        rc = call_int(r, c, 1, &b);
    if (!rc)
        rc = call_int(r, c, 2, &step);
    if (rc)
        return rc;
    if (!call_has(c, 1)) {
        b = a;
        a = 0;
    }
    if (step == 0)
        return render_fail(r, E_FORMAT, "range: the step is zero");
    uint64_t n = range_count(a, b, step);
    if (n > RANGE_MAX)
        return render_fail(r, E_LIMIT, "range: more than %d numbers", RANGE_MAX);
    struct range *g = render_alloc(r, 1, sizeof *g);
    if (!g)
        return render_failed(r);
    *g = (struct range){a, b, step, (int64_t)n};
    *out = (struct value){.kind = K_RANGE, .range = g};
    return 0;
}

/* Entries from a dictionary or from a sequence of pairs. */
static int add_entries(struct render *r, const struct value *from, struct dict *d)
{
    struct list *l, *pair;
    struct value over = *from;
    if (over.kind == K_DICT)
        over = (struct value){.kind = K_VIEW, .flag = VIEW_ITEMS, .dict = from->dict};
    int rc = value_to_list(r, &over, &l);
    for (size_t i = 0; !rc && i < l->n; i++) {
        rc = value_to_list(r, &l->at[i], &pair);
        if (!rc && pair->n != 2)
            rc = render_fail(r, E_FORMAT, "a dictionary is made of pairs, found %zu values",
                             pair->n);
        if (!rc)
            rc = dict_set(r, d, pair->at[0], pair->at[1]);
    }
    return rc;
}

/* dict and namespace: an optional dictionary or pairs, then names. */
static int fn_dict(struct render *r, const struct call *c, struct value *out)
{
    struct dict *d = dict_new(r, c->raw->n_named);
    if (!d)
        return render_failed(r);
    if (c->raw->n > 1)
        return render_fail(r, E_FORMAT, "%s takes at most one argument without a name",
                           c->builtin->name);
    int rc = c->raw->n ? add_entries(r, &c->raw->at[0], d) : 0;
    for (size_t i = 0; i < c->raw->n_named && !rc; i++)
        rc = dict_set(r, d, c->raw->named[i].key, c->raw->named[i].value);
    *out = V_DICT(d);
    if (c->builtin->name[0] == 'n')
        out->kind = K_NAMESPACE;
    return rc;
}

static int fn_cycler(struct render *r, const struct call *c, struct value *out)
{
    struct cycler *y = render_alloc(r, 1, sizeof *y);
    struct list *l = list_new(r, 0);
    if (!y || !l)
        return render_failed(r);
    if (c->raw->n == 0 || c->raw->n_named)
        return render_fail(r, E_FORMAT, "cycler wants values to choose from");
    *l = (struct list){.n = c->raw->n, .at = c->raw->at};
    y->items = l;
    *out = (struct value){.kind = K_CYCLER, .cycler = y};
    return 0;
}

static int fn_joiner(struct render *r, const struct call *c, struct value *out)
{
    struct joiner *j = render_alloc(r, 1, sizeof *j);
    if (!j)
        return render_failed(r);
    j->sep = call_has(c, 0) ? c->arg[0] : V_STR(TEXT(", "));
    *out = (struct value){.kind = K_JOINER, .joiner = j};
    return 0;
}

/* The conversion behind the "%" at byte i of f, with its flags, into form; the byte behind it. */
static size_t take_conversion(struct text f, size_t i, char form[16])
{
    size_t n = 0;
    do
        form[n++] = f.p[i++];
    while (i < f.len && n < 8 && f.p[i] && strchr("-_0^#EO", f.p[i]));
    if (i < f.len)
        form[n++] = f.p[i++];
    form[n] = '\0';
    return i;
}

/* strftime of local time; %f, %z and %Z as Python's datetime without a zone has them. */
static int fn_strftime_now(struct render *r, const struct call *c, struct value *out)
{
    struct text f;
    struct timespec now;
    struct tm tm;
    struct buf text = BUF_INIT;
    int rc = call_text(r, c, 0, &f);
    if (rc)
        return rc;
    clock_gettime(CLOCK_REALTIME, &now);
    if (r->lim.now)
        now = (struct timespec){.tv_sec = r->lim.now};
    if (!localtime_r(&now.tv_sec, &tm))
        return render_fail(r, E_LIMIT, "strftime_now: the time cannot be told");
    for (size_t i = 0; i < f.len;) {
        char form[16], room[256];
        if (f.p[i] != '%') {
            buf_putc(&text, f.p[i++]);
            continue;
        }
        i = take_conversion(f, i, form);
        if (strcmp(form, "%f") == 0)
            buf_printf(&text, "%06ld", now.tv_nsec / 1000);
        else if (form[1] == '\0' || (unsigned char)form[strlen(form) - 1] >= 0x80)
            buf_puts(&text, form);
        else if (strcmp(form, "%z") != 0 && strcmp(form, "%Z") != 0)
            buf_add(&text, room, strftime(room, sizeof room, form, &tm));
    }
    return render_take(r, &text, 0, out);
}

const struct builtin *function_find(struct text name)
{
    static const struct builtin functions[] = {
        {"cycler", "*", fn_cycler},
        {"dict", "*", fn_dict},
        {"joiner", "sep?", fn_joiner},
        {"lipsum", "", NULL},
        {"namespace", "*", fn_dict},
        {"raise_exception", "message", fn_raise},
        {"range", "/start stop? step?", fn_range},
        {"strftime_now", "format", fn_strftime_now},
        {0},
    };
    return builtin_find(functions, name);
}
