/* How the dashboard looks: see dash.h. ASCII alone, so that any terminal and any locale can. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/dash.h"
#include "cli/figures.h"

enum { CHART_H_MIN = 3, CHART_W_MIN = 30, DETAIL_COLUMN = 38, BAR_X = 68, BAR_W = 12 };

static void title(const struct dash *d, struct canvas *c);
static void foot(const struct dash *d, struct canvas *c);
static void help(struct canvas *c, struct area a);
static void overview(const struct dash *d, struct canvas *c, const struct dash_layout *l);
static void table(const struct dash *d, struct canvas *c, const struct area *pane);
static void details(const struct dash *d, struct canvas *c, const struct area *pane);

void dash_draw(const struct dash *d, struct canvas *c)
{
    const struct dash_layout l = dash_layout(d, c->w, c->h);
    const struct area all = canvas_area(c);
    for (int y = 0; y < c->h; y++)
        canvas_fill(c, &all, y, STYLE_PLAIN, ' ');
    if (d->help) {
        help(c, (struct area){1, 1, c->w - 1, c->h - 2});
    } else if (!d->stats) {
        canvas_text(c, &all, 1, 2, STYLE_PLAIN, "waiting for the first figures");
    } else if (d->view == DASH_OVERVIEW) {
        overview(d, c, &l);
    } else {
        if (l.shown[0])
            table(d, c, &l.pane[0]);
        if (l.shown[1])
            details(d, c, &l.pane[1]);
    }
    title(d, c);
    foot(d, c);
}

/* --- frame --- */

static void title(const struct dash *d, struct canvas *c)
{
    static const char *const views[DASH_VIEWS] = {"1 Overview", "2 Layers", "3 Experts"};
    const struct area all = canvas_area(c);
    char up[UNITS_ROOM];
    canvas_fill(c, &all, 0, STYLE_BAR, ' ');
    canvas_print(c, &all, 0, STYLE_BAR, " %s  %s  %s  up %s", figure_word(d->stats, "model"),
                 figure_word(d->stats, "engine"),
                 d->stale ? "STALE" : figure_word(d->stats, "state"),
                 units_seconds(up, figure_real(d->stats, "uptime_seconds")));
    int x = c->w - 33;
    for (int i = 0; i < DASH_VIEWS && x > 0; i++) {
        char word[16];
        snprintf(word, sizeof word, i == (int)d->view ? "[%s]" : " %s ", views[i]);
        canvas_text(c, &all, x, 0, STYLE_BAR, word);
        x += (int)strlen(word);
    }
}

static void foot(const struct dash *d, struct canvas *c)
{
    const struct area all = canvas_area(c);
    if (c->h < 2)
        return;
    canvas_fill(c, &all, c->h - 1, STYLE_BAR, ' ');
    if (d->stale)
        canvas_print(c, &all, c->h - 1, STYLE_WARN, " no answer: %s", d->why);
    else if (d->help)
        canvas_text(c, &all, 0, c->h - 1, STYLE_BAR, " Esc back");
    else if (d->view == DASH_EXPERTS)
        canvas_text(c, &all, 0, c->h - 1, STYLE_BAR,
                    " q quit  ? help  Tab pane  [ ] layer  n p page  Enter details  f full");
    else
        canvas_text(c, &all, 0, c->h - 1, STYLE_BAR,
                    " q quit  ? help  Tab pane  1 2 3 view  n p page  Enter open  f full");
}

static void help(struct canvas *c, struct area a)
{
    static const char *const lines[] = {
        "1 2 3            overview, layers, experts",
        "Tab              the other pane",
        "arrows, j k      select a row, scroll details",
        "Enter            a layer's experts; an expert's details",
        "f                the pane alone, or both again",
        "Esc              back, or quit",
        "n p, PgDn PgUp   next and previous page",
        "Home End         first and last row",
        "[ ]              previous and next layer of experts",
        "r                ask the server now",
        "?                this help",
        "q, Ctrl-C        quit",
    };
    canvas_text(c, &a, 0, 0, STYLE_HEAD, "Keys");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        canvas_text(c, &a, 0, 1 + (int)i, STYLE_PLAIN, lines[i]);
}

/* The head of a pane; what is left is its inside. */
static struct area pane_head(const struct dash *d, struct canvas *c, const struct area *pane,
                             int number, const char *name)
{
    const bool focus = d->pane == number;
    canvas_fill(c, pane, 0, focus ? STYLE_HEAD : STYLE_FAINT, '-');
    canvas_print(c, pane, 0, focus ? STYLE_HEAD : STYLE_FAINT, "%s %s ", focus ? ">" : "-", name);
    return (struct area){pane->x, pane->y + 1, pane->w, pane->h - 1};
}

/* --- charts --- */

struct chart {
    const char *name;
    double (*of)(const struct dash_moment *m);
    const char *(*show)(char room[FIGURE_ROOM], double x);
    double top; /* of the scale; 0: the largest that is shown */
};

static double decode_of(const struct dash_moment *m)
{
    return m->decode;
}

static double bytes_of(const struct dash_moment *m)
{
    return m->read_bytes;
}

static double wait_of(const struct dash_moment *m)
{
    return m->wait;
}

static double hits_of(const struct dash_moment *m)
{
    return m->hit_rate;
}

static const struct chart charts[] = {
    {"decode tok/s", decode_of, figure_number, 0},
    {"read bytes/s", bytes_of, figure_bytes, 0},
    {"experts cached", hits_of, figure_percent, 1},
    {"waits", wait_of, figure_percent, 1},
};

static double value(const struct dash *d, const struct chart *g, int ago)
{
    const struct dash_moment *m = dash_past(d, ago);
    return m ? g->of(m) : NAN;
}

/* One moment, as a column of h characters from the bottom. Zero is a dot, a gap is nothing. */
static void column(struct canvas *c, const struct area *a, int x, double v, double top)
{
    if (isnan(v))
        return;
    const double level = top > 0 ? v / top * a->h : 0;
    for (int y = 0; y < a->h; y++) {
        const char *cell = level >= y + 0.75 ? "#" : level >= y + 0.25 ? ":" : y == 0 ? "." : "";
        canvas_text(c, a, x, a->h - 1 - y, STYLE_CHART, cell);
    }
}

/* The newest moment is on the right. */
static void chart(const struct dash *d, struct canvas *c, const struct area *a,
                  const struct chart *g)
{
    const struct area bars = {a->x, a->y + 1, a->w - 1, a->h - 1};
    char room[2][FIGURE_ROOM];
    double top = 0;
    for (int ago = 0; ago < bars.w; ago++)
        top = fmax(top, value(d, g, ago)); /* fmax passes over NAN */
    canvas_print(c, a, 0, STYLE_HEAD, "%s %s, top %s", g->name, g->show(room[0], value(d, g, 0)),
                 g->show(room[1], top));
    for (int ago = 0; ago < bars.w; ago++)
        column(c, &bars, bars.w - 1 - ago, value(d, g, ago), g->top > 0 ? g->top : top);
}

/* As many as fit, in two columns where it is wide enough. */
static void all_charts(const struct dash *d, struct canvas *c, const struct area *a)
{
    const int n = sizeof charts / sizeof charts[0], across = a->w >= 2 * CHART_W_MIN ? 2 : 1;
    int down = (n + across - 1) / across;
    while (down > 1 && a->h / down < CHART_H_MIN)
        down--;
    if (a->h < 2)
        return;
    for (int i = 0; i < n && i < across * down; i++) {
        const struct area part = {a->x + i % across * (a->w / across),
                                  a->y + i / across * (a->h / down), a->w / across, a->h / down};
        chart(d, c, &part, &charts[i]);
    }
}

/* --- overview --- */

static void figures(const struct dash *d, struct canvas *c, const struct area *a)
{
    const json_t *v = d->stats;
    char room[5][FIGURE_ROOM];
    canvas_print(c, a, 0, STYLE_PLAIN, "decode %s tok/s   prefill %s tok/s   cached %s, %s in all",
                 figure_number(room[0], figure_real(v, "rates.decode_tokens_per_second")),
                 figure_number(room[1], figure_real(v, "rates.prefill_tokens_per_second")),
                 figure_percent(room[2], figure_real(v, "rates.hit_rate")),
                 figure_percent(room[3], figure_real(v, "experts.hit_rate")));
    canvas_print(c, a, 1, STYLE_PLAIN, "read %s/s   waits %s   memory %s, pool %s of %s",
                 figure_bytes(room[0], figure_real(v, "rates.read_bytes_per_second")),
                 figure_percent(room[1], figure_real(v, "rates.wait_fraction")),
                 figure_bytes(room[2], figure_real(v, "memory.rss_bytes")),
                 figure_bytes(room[3], figure_real(v, "memory.pool_bytes")),
                 figure_bytes(room[4], figure_real(v, "memory.budget_bytes")));
    canvas_print(c, a, 2, STYLE_PLAIN, "running %s, waiting %s   done %s   generated %s tok",
                 units_count(room[0], figure_count(v, "requests.running")),
                 units_count(room[1], figure_count(v, "requests.queued")),
                 units_count(room[2], figure_count(v, "requests.done")),
                 units_count(room[3], figure_count(v, "tokens.generated")));
}

/* One character a layer: tenths of the hit rate, * for all, - where nothing was asked for. */
static void strip(const struct dash *d, struct canvas *c, const struct area *a, int y)
{
    static const char name[] = "by layer, in tenths: ";
    const json_t *list = figure_at(d->stats, "layers");
    canvas_text(c, a, 0, y, STYLE_FAINT, name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);
        double rate = figure_real(x, "hit_rate_now");
        rate = isnan(rate) ? figure_real(x, "hit_rate") : rate;
        const char digit[] = {isnan(rate)     ? '-'
                              : rate > 0.9995 ? '*'
                                              : (char)('0' + (int)(rate * 10)),
                              0};
        canvas_text(c, a, (int)(strlen(name) + i), y, STYLE_PLAIN, digit);
    }
}

static void requests(const struct dash *d, struct canvas *c, const struct area *pane)
{
    const json_t *list = figure_at(d->requests, "data");
    const struct area a = pane_head(d, c, pane, 1, "Requests");
    const int page = a.h > 1 ? a.h - 1 : 1, row = d->row[DASH_OVERVIEW], top = row / page * page;
    canvas_print(c, &a, 0, STYLE_HEAD, "%-32s %-8s %8s %8s %8s  %s", "id", "state", "prompt", "fed",
                 "answer", "age");
    for (int i = top; i < (int)json_array_size(list) && i < top + page; i++) {
        const json_t *x = json_array_get(list, (size_t)i);
        char age[UNITS_ROOM];
        canvas_print(c, &a, 1 + i - top, STYLE_PLAIN, "%-32.32s %-8s %8llu %8llu %8llu  %s",
                     figure_word(x, "id"), figure_word(x, "state"),
                     (unsigned long long)figure_count(x, "prompt_tokens"),
                     (unsigned long long)figure_count(x, "fed_tokens"),
                     (unsigned long long)figure_count(x, "completion_tokens"),
                     units_seconds(age, figure_real(x, "age_seconds")));
        if (i == row && d->pane == 1)
            canvas_paint(c, &a, 1 + i - top, STYLE_SELECTED);
    }
    if (!json_array_size(list))
        canvas_text(c, &a, 0, 1, STYLE_FAINT, "none");
}

static void overview(const struct dash *d, struct canvas *c, const struct dash_layout *l)
{
    if (l->shown[0]) {
        const struct area a = pane_head(d, c, &l->pane[0], 0, "Overview");
        const struct area rest = {a.x, a.y + 4, a.w, a.h - 4};
        figures(d, c, &a);
        strip(d, c, &a, 3);
        all_charts(d, c, &rest);
    }
    if (l->shown[1])
        requests(d, c, &l->pane[1]);
}

/* --- tables --- */

/* A count in at most 7 characters. */
static const char *brief(char room[FIGURE_ROOM], uint64_t n)
{
    static const char unit[] = " kMGTPE";
    double v = (double)n;
    int u = 0;
    for (; v >= 99999.5 && u < 6; u++)
        v /= 1000;
    snprintf(room, FIGURE_ROOM, u ? "%.0f %c" : "%.0f", v, unit[u]);
    return room;
}

static double hit_rate(const json_t *x)
{
    const double hits = figure_real(x, "hits"), all = hits + figure_real(x, "misses");
    return all > 0 ? hits / all : NAN;
}

/* A bar for the bytes of a row, of those that the largest row of the page has. */
static void bar(struct canvas *c, const struct area *a, int y, double bytes, double most)
{
    const int n = most > 0 ? (int)(bytes / most * BAR_W + 0.5) : 0;
    for (int i = 0; i < n; i++)
        canvas_text(c, a, BAR_X + i, y, STYLE_CHART, "=");
}

static void table_row(struct canvas *c, const struct area *a, int y, const json_t *x, bool layer)
{
    char room[7][FIGURE_ROOM];
    canvas_print(c, a, y, STYLE_PLAIN, "%6llu %8s %8s %7s %7s %7s %7s %9s",
                 (unsigned long long)figure_count(x, layer ? "layer" : "expert"),
                 figure_percent(room[0], hit_rate(x)),
                 layer ? figure_percent(room[1], figure_real(x, "hit_rate_now"))
                       : brief(room[1], figure_count(x, "prefetched")),
                 brief(room[2], figure_count(x, "selected")),
                 brief(room[3], figure_count(x, "hits")), brief(room[4], figure_count(x, "misses")),
                 brief(room[5], figure_count(x, "reads")),
                 figure_bytes(room[6], figure_real(x, "read_bytes")));
}

static void table(const struct dash *d, struct canvas *c, const struct area *pane)
{
    const bool layers = d->view == DASH_LAYERS;
    const json_t *list = layers ? figure_at(d->stats, "layers") : d->experts;
    char name[64];
    snprintf(name, sizeof name, layers ? "Layers" : "Experts of layer %d, the most used first",
             d->layer);
    const struct area a = pane_head(d, c, pane, 0, name);
    const int n = (int)json_array_size(list), page = a.h > 1 ? a.h - 1 : 1, row = d->row[d->view],
              top = row / page * page;
    double most = 0;
    for (int i = top; i < n && i < top + page; i++)
        most = fmax(most, figure_real(json_array_get(list, (size_t)i), "read_bytes"));
    canvas_print(c, &a, 0, STYLE_HEAD, "%6s %8s %8s %7s %7s %7s %7s %9s",
                 layers ? "layer" : "expert", "cached", layers ? "now" : "ahead", "used", "hits",
                 "misses", "reads", "read");
    for (int i = top; i < n && i < top + page; i++) {
        const json_t *x = json_array_get(list, (size_t)i);
        table_row(c, &a, 1 + i - top, x, layers);
        bar(c, &a, 1 + i - top, figure_real(x, "read_bytes"), most);
        if (i == row)
            canvas_paint(c, &a, 1 + i - top, STYLE_SELECTED);
    }
    if (!n)
        canvas_text(c, &a, 0, 1, STYLE_FAINT, "nothing is counted yet");
}

static void detail(const char *key, const json_t *v, char *line, size_t room)
{
    char name[FIGURE_ROOM], text[FIGURE_ROOM];
    const size_t n = strlen(key);
    snprintf(name, sizeof name, "%s", key);
    for (char *p = name; *p; p++)
        *p = *p == '_' ? ' ' : *p;
    if (strncmp(key, "hit_rate", 8) == 0)
        figure_percent(text, json_is_number(v) ? json_number_value(v) : NAN);
    else if (n > 5 && strcmp(key + n - 5, "bytes") == 0)
        figure_bytes(text, json_number_value(v));
    else
        units_count(text, (uint64_t)json_integer_value(v));
    snprintf(line, room, "%-17s %15s", name, text);
}

static void details(const struct dash *d, struct canvas *c, const struct area *pane)
{
    const struct area a = pane_head(d, c, pane, 1, "Details");
    const int across = a.w >= 2 * DETAIL_COLUMN ? a.w / DETAIL_COLUMN : 1;
    const char *key;
    json_t *v;
    int i = -d->scroll;
    json_object_foreach((json_t *)dash_selected(d), key, v) {
        char line[2 * FIGURE_ROOM];
        detail(key, v, line, sizeof line);
        if (i >= 0 && a.h > 0 && i / a.h < across)
            canvas_text(c, &a, i / a.h * DETAIL_COLUMN, i % a.h, STYLE_PLAIN, line);
        i++;
    }
}
