/* A page of a terminal before it is shown: w x h characters of ASCII, each with a style. Drawing
 * outside is no error and leaves no trace, so that who draws need not ask what fits. */
#ifndef CLI_CANVAS_H
#define CLI_CANVAS_H

#include "base/err.h"

enum canvas_style {
    STYLE_PLAIN,
    STYLE_BAR,      /* lines above and below everything */
    STYLE_HEAD,     /* of a table or a pane */
    STYLE_FAINT,    /* what is less important */
    STYLE_SELECTED, /* the row that keys move */
    STYLE_CHART,
    STYLE_WARN,
    STYLE_COUNT,
};

struct canvas {
    int w, h;
    char *cell;           /* [h][w] */
    unsigned char *style; /* [h][w] of enum canvas_style */
};

/* A part of a canvas; what is drawn is cut at its edges. */
struct area {
    int x, y, w, h;
};

int canvas_open(struct canvas *c, int w, int h, struct err *e); /* blank */
void canvas_close(struct canvas *c);                            /* zeros are fine */

struct area canvas_area(const struct canvas *c);
/* Text at column x, line y of an area. Bytes that are no printable ASCII become '?'. */
void canvas_text(struct canvas *c, const struct area *a, int x, int y, enum canvas_style style,
                 const char *text);
void canvas_print(struct canvas *c, const struct area *a, int y, enum canvas_style style,
                  const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* A whole line gets a style; what it says stays. */
void canvas_paint(struct canvas *c, const struct area *a, int y, enum canvas_style style);
void canvas_fill(struct canvas *c, const struct area *a, int y, enum canvas_style style, char with);

/* Line y without the blanks at its end, to free with mem_free; NULL when memory is short. */
char *canvas_line(const struct canvas *c, int y);

#endif
