/* A page before it is shown: see canvas.h. */
#include "cli/canvas.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { LINE_MAX = 1024 };

int canvas_open(struct canvas *c, int w, int h, struct err *e)
{
    const size_t n = (size_t)(w > 0 ? w : 0) * (size_t)(h > 0 ? h : 0);
    *c = (struct canvas){.w = w > 0 ? w : 0, .h = h > 0 ? h : 0};
    c->cell = mem_alloc(n);
    c->style = mem_zalloc(n, 1);
    if (!c->cell || !c->style) {
        canvas_close(c);
        return ERR(e, E_NOMEM, "no memory for a screen of %d x %d", w, h);
    }
    memset(c->cell, ' ', n);
    return 0;
}

void canvas_close(struct canvas *c)
{
    mem_free(c->cell);
    mem_free(c->style);
    *c = (struct canvas){0};
}

struct area canvas_area(const struct canvas *c)
{
    return (struct area){0, 0, c->w, c->h};
}

static void put(struct canvas *c, const struct area *a, int x, int y, enum canvas_style style,
                char with)
{
    const int cx = a->x + x, cy = a->y + y;
    if (x < 0 || y < 0 || x >= a->w || y >= a->h || cx < 0 || cy < 0 || cx >= c->w || cy >= c->h)
        return;
    c->cell[cy * c->w + cx] = with >= ' ' && with <= '~' ? with : '?';
    c->style[cy * c->w + cx] = (unsigned char)style;
}

void canvas_text(struct canvas *c, const struct area *a, int x, int y, enum canvas_style style,
                 const char *text)
{
    for (; *text && x < a->w; text++)
        put(c, a, x++, y, style, *text);
}

void canvas_print(struct canvas *c, const struct area *a, int y, enum canvas_style style,
                  const char *fmt, ...)
{
    char line[LINE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    canvas_text(c, a, 0, y, style, line);
}

void canvas_paint(struct canvas *c, const struct area *a, int y, enum canvas_style style)
{
    for (int x = 0; x < a->w; x++)
        if (y >= 0 && y < a->h && a->x + x < c->w && a->y + y < c->h)
            c->style[(a->y + y) * c->w + a->x + x] = (unsigned char)style;
}

void canvas_fill(struct canvas *c, const struct area *a, int y, enum canvas_style style, char with)
{
    for (int x = 0; x < a->w; x++)
        put(c, a, x, y, style, with);
}

char *canvas_line(const struct canvas *c, int y)
{
    const char *line = c->cell + (size_t)y * (size_t)c->w;
    int n = c->w;
    while (n && line[n - 1] == ' ')
        n--;
    return mem_strndup(line, (size_t)n);
}
