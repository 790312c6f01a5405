/* Numbers and texts by width, precision and alignment: what % and format() share. Private to
 * text/. */
#ifndef TEXT_TEMPLATE_FORMAT_H
#define TEXT_TEMPLATE_FORMAT_H

#include "text/template_run.h"

struct format {
    struct text fill; /* one character */
    char align;       /* '<' '>' '^' '=' or 0: the type's own */
    char sign;        /* '+' ' ' or 0 */
    bool alt, zero;
    int64_t width;
    char group; /* ',' '_' or 0 */
    int prec;   /* -1: none given */
    char type;  /* 0: none given */
};

enum { FORMAT_PREC_MAX = 1000 };

/* The digits of a number, its sign and prefix apart. */
int format_int(struct render *r, const struct format *f, int64_t v, struct buf *out);
int format_float(struct render *r, const struct format *f, double v, struct buf *out);
int format_text(struct render *r, const struct format *f, struct text t, struct buf *out);

#endif
