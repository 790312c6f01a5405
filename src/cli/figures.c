/* Figures as text: see figures.h. */
#include "cli/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"

const json_t *figure_at(const json_t *v, const char *path)
{
    while (v && *path) {
        char word[FIGURE_ROOM];
        const size_t n = strcspn(path, ".");
        snprintf(word, sizeof word, "%.*s", (int)n, path);
        v = json_object_get(v, word);
        path += n + (path[n] == '.');
    }
    return v;
}

double figure_real(const json_t *v, const char *path)
{
    const json_t *x = figure_at(v, path);
    return json_is_number(x) ? json_number_value(x) : NAN;
}

uint64_t figure_count(const json_t *v, const char *path)
{
    const json_int_t n = json_integer_value(figure_at(v, path));
    return n > 0 ? (uint64_t)n : 0;
}

const char *figure_word(const json_t *v, const char *path)
{
    const char *s = json_string_value(figure_at(v, path));
    return s ? s : "-";
}

const char *figure_percent(char room[FIGURE_ROOM], double share)
{
    snprintf(room, FIGURE_ROOM, isfinite(share) ? "%.1f %%" : "-", 100 * share);
    return room;
}

const char *figure_number(char room[FIGURE_ROOM], double x)
{
    snprintf(room, FIGURE_ROOM, !isfinite(x) ? "-" : x < 999.95 ? "%.1f" : "%.0f", x);
    return room;
}

const char *figure_bytes(char room[FIGURE_ROOM], double bytes)
{
    if (isfinite(bytes) && bytes >= 0 && bytes < 0x1p63)
        return units_bytes(room, (uint64_t)bytes);
    snprintf(room, FIGURE_ROOM, "-");
    return room;
}

/* --- small pieces of lines --- */

static void count(const json_t *v, const char *path, const char *behind, struct buf *out)
{
    char room[UNITS_ROOM];
    buf_printf(out, "%s%s", units_count(room, figure_count(v, path)), behind);
}

static void bytes(const json_t *v, const char *path, const char *behind, struct buf *out)
{
    char room[FIGURE_ROOM];
    buf_printf(out, "%s%s", figure_bytes(room, figure_real(v, path)), behind);
}

static void percent(const json_t *v, const char *path, const char *behind, struct buf *out)
{
    char room[FIGURE_ROOM];
    buf_printf(out, "%s%s", figure_percent(room, figure_real(v, path)), behind);
}

static void number(const json_t *v, const char *path, const char *behind, struct buf *out)
{
    char room[FIGURE_ROOM];
    buf_printf(out, "%s%s", figure_number(room, figure_real(v, path)), behind);
}

/* --- one screen --- */

static void who(const json_t *v, struct buf *out)
{
    char room[UNITS_ROOM];
    buf_printf(out, "server    %s at %s, process %llu, version %s\n", figure_word(v, "model"),
               figure_word(v, "address"), (unsigned long long)figure_count(v, "pid"),
               figure_word(v, "version"));
    buf_printf(out, "state     %s, up %s; engine %s, context ", figure_word(v, "state"),
               units_seconds(room, figure_real(v, "uptime_seconds")), figure_word(v, "engine"));
    count(v, "context_tokens", " tokens\n", out);
}

static void requests(const json_t *v, struct buf *out)
{
    buf_puts(out, "requests  ");
    count(v, "requests.running", " running of ", out);
    count(v, "requests.sequences", " at once, ", out);
    count(v, "requests.queued", " waiting; ", out);
    count(v, "requests.done", " done, ", out);
    count(v, "requests.cancelled", " cancelled, ", out);
    count(v, "requests.failed", " failed, ", out);
    count(v, "requests.refused", " refused\n", out);
}

static void tokens(const json_t *v, struct buf *out)
{
    buf_puts(out, "tokens/s  decode ");
    number(v, "rates.decode_tokens_per_second", ", prefill ", out);
    number(v, "rates.prefill_tokens_per_second", " (last ", out);
    number(v, "window_seconds", " s); ", out);
    count(v, "tokens.generated", " generated, ", out);
    count(v, "tokens.prompt", " of prompts, ", out);
    count(v, "tokens.cached", " reused\n", out);
}

static void experts(const json_t *v, struct buf *out)
{
    buf_puts(out, "experts   cached ");
    percent(v, "rates.hit_rate", " now, ", out);
    percent(v, "experts.hit_rate", " since the start; read ", out);
    bytes(v, "rates.read_bytes_per_second", "/s, waited for ", out);
    percent(v, "rates.wait_fraction", " of the time\n", out);
}

static void memory(const json_t *v, struct buf *out)
{
    buf_puts(out, "memory    ");
    bytes(v, "memory.rss_bytes", " resident, ", out);
    bytes(v, "memory.rss_peak_bytes", " at most; budget ", out);
    bytes(v, "memory.budget_bytes", "\npool      ", out);
    bytes(v, "memory.pool_bytes", " for ", out);
    count(v, "memory.pool_slots", " experts; dense weights ", out);
    bytes(v, "memory.dense_bytes", ", sequences ", out);
    bytes(v, "memory.sequence_bytes", "\nkept      ", out);
    count(v, "memory.prefix_entries", " states in memory, ", out);
    bytes(v, "memory.prefix_bytes", "; ", out);
    count(v, "memory.saved_entries", " on disk, ", out);
    bytes(v, "memory.saved_bytes", "\n", out);
}

void figures_status(const json_t *v, struct buf *out)
{
    who(v, out);
    requests(v, out);
    tokens(v, out);
    experts(v, out);
    memory(v, out);
}

/* --- summary --- */

static void lookahead(const json_t *v, struct buf *out)
{
    buf_puts(out, "lookahead ");
    count(v, "predicted", " predicted, ", out);
    count(v, "prefetched", " read: ", out);
    count(v, "prefetch_used", " in time, ", out);
    count(v, "prefetch_late", " late, ", out);
    count(v, "prefetch_wasted", " for nothing\n", out);
}

static void drafts(const json_t *v, struct buf *out)
{
    char room[FIGURE_ROOM];
    const double drafted = figure_real(v, "drafted"), right = figure_real(v, "accepted");
    buf_puts(out, "drafts    ");
    count(v, "drafted", " of requests that ended, ", out);
    buf_printf(out, "%s right\n", figure_percent(room, drafted > 0 ? right / drafted : NAN));
}

static void causes(const json_t *v, struct buf *out)
{
    const char *cause;
    json_t *x;
    buf_printf(out, "\n%-10s %12s %12s %12s\n", "reads", "records", "bytes", "waited");
    json_object_foreach((json_t *)figure_at(v, "reads"), cause, x) {
        char room[2][FIGURE_ROOM];
        buf_printf(out, "%-10s %12s %12s %10.2f s\n", cause,
                   units_count(room[0], figure_count(x, "records")),
                   figure_bytes(room[1], figure_real(x, "bytes")), figure_real(x, "wait_seconds"));
    }
}

void figures_summary(const json_t *v, struct buf *out)
{
    const json_t *x = figure_at(v, "experts");
    figures_status(v, out);
    buf_puts(out, "\nused      ");
    count(x, "selected", " times, asked for: ", out);
    count(x, "hits", " there, ", out);
    count(x, "misses", " not; ", out);
    count(x, "cut", " cut\n", out);
    lookahead(x, out);
    drafts(figure_at(v, "tokens"), out);
    causes(v, out);
}

/* --- tables --- */

/* What is beyond [offset, offset + limit) of n. */
static void more(size_t n, size_t offset, size_t limit, struct buf *out)
{
    if (offset >= n)
        buf_printf(out, "(there are %zu)\n", n);
    else if (n - offset > limit)
        buf_printf(out, "(%zu more: --offset %zu)\n", n - offset - limit, offset + limit);
}

void figures_layers(const json_t *v, size_t offset, size_t limit, struct buf *out)
{
    const json_t *list = figure_at(v, "layers");
    const size_t n = json_array_size(list);
    buf_printf(out, "%5s %9s %9s %12s %12s %12s %10s %10s\n", "layer", "cached", "now", "used",
               "hits", "misses", "reads", "read");
    for (size_t i = offset; i < n && i - offset < limit; i++) {
        const json_t *x = json_array_get(list, i);
        char room[7][FIGURE_ROOM];
        buf_printf(out, "%5llu %9s %9s %12s %12s %12s %10s %10s\n",
                   (unsigned long long)figure_count(x, "layer"),
                   figure_percent(room[0], figure_real(x, "hit_rate")),
                   figure_percent(room[1], figure_real(x, "hit_rate_now")),
                   units_count(room[2], figure_count(x, "selected")),
                   units_count(room[3], figure_count(x, "hits")),
                   units_count(room[4], figure_count(x, "misses")),
                   units_count(room[5], figure_count(x, "reads")),
                   figure_bytes(room[6], figure_real(x, "read_bytes")));
    }
    more(n, offset, limit, out);
}

static int by_use(const void *a, const void *b)
{
    const json_t *const *x = a, *const *y = b;
    const uint64_t u = figure_count(*x, "selected"), v = figure_count(*y, "selected");
    if (u != v)
        return u > v ? -1 : 1;
    const uint64_t i = figure_count(*x, "expert"), k = figure_count(*y, "expert");
    return i < k ? -1 : i > k;
}

json_t *figures_ranked(const json_t *v)
{
    const json_t *list = figure_at(v, "experts");
    const size_t n = json_array_size(list);
    json_t **all = mem_array(n, sizeof(json_t *)), *ranked = json_array();
    if (!all || !ranked) {
        mem_free(all);
        json_decref(ranked);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        all[i] = json_array_get(list, i);
    qsort(all, n, sizeof(json_t *), by_use);
    for (size_t i = 0; i < n; i++)
        json_array_append(ranked, all[i]);
    mem_free(all);
    return ranked;
}

void figures_experts(const json_t *v, size_t offset, size_t limit, struct buf *out)
{
    json_t *list = figures_ranked(v);
    const size_t n = json_array_size(list);
    out->failed |= !list;
    buf_printf(out, "layer %llu\n%6s %12s %9s %12s %12s %10s %10s\n",
               (unsigned long long)figure_count(v, "layer"), "expert", "used", "cached", "hits",
               "misses", "reads", "read");
    for (size_t i = offset; i < n && i - offset < limit; i++) {
        const json_t *x = json_array_get(list, i);
        const double hits = figure_real(x, "hits"), all = hits + figure_real(x, "misses");
        char room[6][FIGURE_ROOM];
        buf_printf(out, "%6llu %12s %9s %12s %12s %10s %10s\n",
                   (unsigned long long)figure_count(x, "expert"),
                   units_count(room[0], figure_count(x, "selected")),
                   figure_percent(room[1], all > 0 ? hits / all : NAN),
                   units_count(room[2], figure_count(x, "hits")),
                   units_count(room[3], figure_count(x, "misses")),
                   units_count(room[4], figure_count(x, "reads")),
                   figure_bytes(room[5], figure_real(x, "read_bytes")));
    }
    more(n, offset, limit, out);
    json_decref(list);
}
