/* What `cherenkov dash` knows and shows, apart from the terminal: figures go in, keys go in, a page
 * comes out. Nothing here waits or asks anybody.
 *
 *      views:   overview  layers --Enter--> experts of a layer
 *      panes:   each view has two, one of which has the focus; a small terminal shows that one
 *
 * Keys: docs/cli.md. */
#ifndef CLI_DASH_H
#define CLI_DASH_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/canvas.h"

enum { DASH_PAST = 120, DASH_WHY_MAX = 200 };

enum dash_view { DASH_OVERVIEW, DASH_LAYERS, DASH_EXPERTS, DASH_VIEWS };

/* Between two answers of the server; NAN: unknown, a gap. */
struct dash_moment {
    double decode, read_bytes; /* a second */
    double wait, hit_rate;     /* 0..1 */
};

struct dash {
    json_t *stats;    /* /v1/stats; NULL: nothing came yet. Owned, like the next two */
    json_t *requests; /* /v1/requests, or NULL */
    json_t *experts;  /* of `layer`, the most used first, or NULL */
    struct dash_moment past[DASH_PAST]; /* a ring */
    unsigned n_past;
    bool stale; /* the server does not answer: why */
    char why[DASH_WHY_MAX];

    enum dash_view view;
    int pane; /* 0, 1: which has the focus */
    bool full, help;
    bool inspecting; /* the experts were opened from the layers */
    int layer;
    int row[DASH_VIEWS]; /* the selected one */
    int scroll;          /* of details */
    bool refresh, quit;  /* asked for; who loops resets refresh */
};

enum dash_key {
    DASH_KEY_NONE,
    DASH_KEY_UP,
    DASH_KEY_DOWN,
    DASH_KEY_HOME,
    DASH_KEY_END,
    DASH_KEY_PAGE_UP,
    DASH_KEY_PAGE_DOWN,
    DASH_KEY_ENTER,
    DASH_KEY_TAB,
    DASH_KEY_ESCAPE,
    DASH_KEY_RESIZE,
    /* and characters as they are: '1', 'j', 'q', ... */
};

void dash_free(struct dash *d); /* zeros are fine */

/* New figures; all three are taken over, requests and experts may be NULL. experts: an answer of
 * /v1/stats/experts/N, dropped when it is of another layer than is shown. */
void dash_take(struct dash *d, json_t *stats, json_t *requests, json_t *experts);
/* The server did not answer: old values stay, marked, and charts get a gap. */
void dash_lose(struct dash *d, const char *why);

/* A key, on a page of w x h. */
void dash_key(struct dash *d, int key, int w, int h);
/* Draws all of c. Depends on d and on c's size alone. */
void dash_draw(const struct dash *d, struct canvas *c);

/* --- of its files, for one another --- */

struct dash_layout {
    bool shown[2];       /* panes */
    struct area pane[2]; /* with their heads */
};
struct dash_layout dash_layout(const struct dash *d, int w, int h);
/* Lines of a table that fit below its heads, at least 1. */
int dash_page(const struct dash *d, int w, int h);
int dash_rows(const struct dash *d); /* rows that can be selected in this view */
int dash_layers(const struct dash *d);
const json_t *dash_selected(const struct dash *d); /* the layer or expert whose details are shown */
const struct dash_moment *dash_past(const struct dash *d, int ago); /* 0: the latest; or NULL */

#endif
