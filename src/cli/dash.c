/* What the dashboard knows, and what keys do: see dash.h. */
#include "cli/dash.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/figures.h"

enum { SMALL_W = 60, SMALL_H = 16, WIDE_W = 100, DETAIL_W = 40, FAR = 1 << 20 };

void dash_free(struct dash *d)
{
    json_decref(d->stats);
    json_decref(d->requests);
    json_decref(d->experts);
    *d = (struct dash){0};
}

/* --- figures --- */

static const struct dash_moment gap = {NAN, NAN, NAN, NAN};

static void remember(struct dash *d, struct dash_moment m)
{
    d->past[d->n_past++ % DASH_PAST] = m;
}

const struct dash_moment *dash_past(const struct dash *d, int ago)
{
    if (ago < 0 || ago >= DASH_PAST || (unsigned)ago >= d->n_past)
        return NULL;
    return &d->past[(d->n_past - 1 - (unsigned)ago) % DASH_PAST];
}

/* The sum of a field over the causes of reads. */
static double over_causes(const json_t *stats, const char *field)
{
    double sum = 0;
    const char *cause;
    json_t *x;
    json_object_foreach((json_t *)figure_at(stats, "reads"), cause, x)
        sum += json_number_value(json_object_get(x, field));
    return sum;
}

/* What happened between two answers of the same server. */
static struct dash_moment between(const json_t *from, const json_t *to)
{
    const double s = figure_real(to, "uptime_seconds") - figure_real(from, "uptime_seconds");
    if (!(s > 0) || figure_count(from, "pid") != figure_count(to, "pid"))
        return gap;
    const double hits = figure_real(to, "experts.hits") - figure_real(from, "experts.hits"),
                 misses = figure_real(to, "experts.misses") - figure_real(from, "experts.misses"),
                 wait = (over_causes(to, "wait_seconds") - over_causes(from, "wait_seconds")) / s;
    return (struct dash_moment){
        .decode = (figure_real(to, "tokens.generated") - figure_real(from, "tokens.generated")) / s,
        .read_bytes = (over_causes(to, "bytes") - over_causes(from, "bytes")) / s,
        .wait = wait < 1 ? wait : 1,
        .hit_rate = hits + misses > 0 ? hits / (hits + misses) : NAN,
    };
}

static void put_rows_right(struct dash *d)
{
    const int n = dash_rows(d);
    int *row = &d->row[d->view];
    *row = *row >= n ? n - 1 : *row;
    *row = *row < 0 ? 0 : *row;
}

void dash_take(struct dash *d, json_t *stats, json_t *requests, json_t *experts)
{
    if (d->stats)
        remember(d, d->stale ? gap : between(d->stats, stats));
    json_decref(d->stats);
    json_decref(d->requests);
    json_decref(d->experts);
    d->stats = stats;
    d->requests = requests;
    d->experts = experts && figure_count(experts, "layer") == (uint64_t)d->layer
                     ? figures_ranked(experts)
                     : NULL;
    json_decref(experts);
    d->stale = false;
    put_rows_right(d);
}

void dash_lose(struct dash *d, const char *why)
{
    d->stale = true;
    snprintf(d->why, sizeof d->why, "%s", why);
    remember(d, gap);
}

int dash_layers(const struct dash *d)
{
    return (int)json_array_size(figure_at(d->stats, "layers"));
}

int dash_rows(const struct dash *d)
{
    switch (d->view) {
    case DASH_LAYERS:
        return dash_layers(d);
    case DASH_EXPERTS:
        return (int)json_array_size(d->experts);
    default:
        return (int)json_array_size(figure_at(d->requests, "data"));
    }
}

const json_t *dash_selected(const struct dash *d)
{
    const size_t i = (size_t)d->row[d->view];
    switch (d->view) {
    case DASH_LAYERS:
        return json_array_get(figure_at(d->stats, "layers"), i);
    case DASH_EXPERTS:
        return json_array_get(d->experts, i);
    default:
        return NULL;
    }
}

/* --- where panes are --- */

/* The pane that has the rows: of the overview it is the second. */
static int table_pane(const struct dash *d)
{
    return d->view == DASH_OVERVIEW ? 1 : 0;
}

struct dash_layout dash_layout(const struct dash *d, int w, int h)
{
    const struct area body = {0, 1, w, h > 2 ? h - 2 : 0};
    struct dash_layout l = {.pane = {body, body}};
    if (d->full || w < SMALL_W || h < SMALL_H) {
        l.shown[d->pane] = true;
        return l;
    }
    l.shown[0] = l.shown[1] = true;
    if (d->view != DASH_OVERVIEW && w >= WIDE_W) {
        l.pane[0].w = w - DETAIL_W;
        l.pane[1] = (struct area){w - DETAIL_W + 1, 1, DETAIL_W - 1, body.h};
        return l;
    }
    const int low = d->view == DASH_OVERVIEW ? body.h / 4 : body.h / 3;
    l.pane[0].h = body.h - low;
    l.pane[1] = (struct area){0, 1 + l.pane[0].h, w, low};
    return l;
}

int dash_page(const struct dash *d, int w, int h)
{
    const struct dash_layout l = dash_layout(d, w, h);
    const int n = l.pane[table_pane(d)].h - 2; /* head of the pane, head of the table */
    return n > 0 ? n : 1;
}

/* --- keys --- */

static void show(struct dash *d, enum dash_view view)
{
    d->view = view;
    d->pane = 0;
    d->full = d->inspecting = false;
    d->scroll = 0;
    put_rows_right(d);
}

static void show_layer(struct dash *d, int layer)
{
    const int n = dash_layers(d);
    layer = layer >= n ? n - 1 : layer;
    layer = layer < 0 ? 0 : layer;
    if (layer == d->layer && d->experts)
        return;
    d->layer = layer;
    d->row[DASH_EXPERTS] = 0;
    d->scroll = 0;
    json_decref(d->experts);
    d->experts = NULL;
    d->refresh = true;
}

static void move(struct dash *d, int by)
{
    if (d->pane != table_pane(d)) {
        const int most = (int)json_object_size(dash_selected(d)) - 1;
        d->scroll = d->scroll + by < most ? d->scroll + by : most;
        d->scroll = d->scroll < 0 ? 0 : d->scroll;
        return;
    }
    d->row[d->view] += by;
    d->scroll = 0;
    put_rows_right(d);
}

static void enter(struct dash *d)
{
    if (d->view == DASH_LAYERS && dash_layers(d)) {
        const int layer = d->row[DASH_LAYERS];
        show(d, DASH_EXPERTS);
        d->inspecting = true;
        show_layer(d, layer);
    } else if (d->view == DASH_EXPERTS) {
        d->pane = 1;
        d->full = true;
    }
}

static void escape(struct dash *d)
{
    if (d->help)
        d->help = false;
    else if (d->full)
        d->full = false;
    else if (d->inspecting)
        show(d, DASH_LAYERS);
    else
        d->quit = true;
}

/* How many rows a key moves. */
static bool step_of(int key, int page, int *by)
{
    switch (key) {
    case DASH_KEY_UP:
    case 'k':
        *by = -1;
        return true;
    case DASH_KEY_DOWN:
    case 'j':
        *by = 1;
        return true;
    case DASH_KEY_PAGE_UP:
    case 'p':
        *by = -page;
        return true;
    case DASH_KEY_PAGE_DOWN:
    case 'n':
        *by = page;
        return true;
    case DASH_KEY_HOME:
        *by = -FAR;
        return true;
    case DASH_KEY_END:
        *by = FAR;
        return true;
    default:
        return false;
    }
}

void dash_key(struct dash *d, int key, int w, int h)
{
    int by;
    if (step_of(key, dash_page(d, w, h), &by)) {
        move(d, by);
        return;
    }
    switch (key) {
    case '1':
    case '2':
    case '3':
        show(d, (enum dash_view)(key - '1'));
        d->refresh |= d->view == DASH_EXPERTS && !d->experts;
        break;
    case DASH_KEY_TAB:
        d->pane = !d->pane;
        break;
    case DASH_KEY_ENTER:
        enter(d);
        break;
    case DASH_KEY_ESCAPE:
        escape(d);
        break;
    case '[':
    case ']':
        if (d->view == DASH_EXPERTS)
            show_layer(d, d->layer + (key == ']' ? 1 : -1));
        break;
    case 'f':
        d->full = !d->full;
        break;
    case 'r':
        d->refresh = true;
        break;
    case '?':
        d->help = !d->help;
        break;
    case 'q':
        d->quit = true;
        break;
    default:
        break;
    }
}
