/* The figures of a server (docs/api.md, "Figures") as text: one screen, tables, and the pieces that
 * a dashboard is made of. Values that are not there count as unknown. */
#ifndef CLI_FIGURES_H
#define CLI_FIGURES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { FIGURE_ROOM = 32 };

/* The value at "memory.pool_bytes", or NULL. */
const json_t *figure_at(const json_t *v, const char *path);
double figure_real(const json_t *v, const char *path); /* NAN: unknown */
uint64_t figure_count(const json_t *v, const char *path);
const char *figure_word(const json_t *v, const char *path); /* "-": unknown */

/* These write into room and return it; what is unknown is "-". */
const char *figure_percent(char room[FIGURE_ROOM], double share); /* "95.7 %" of 0.957 */
const char *figure_number(char room[FIGURE_ROOM], double x);      /* "39.1"; whole from 1000 on */
const char *figure_bytes(char room[FIGURE_ROOM], double bytes);   /* "1.20 GB" */

/* Each appends lines. v is the answer of /v1/stats, or of /v1/stats/experts/N. */
void figures_status(const json_t *v, struct buf *out);
void figures_summary(const json_t *v, struct buf *out);
void figures_layers(const json_t *v, size_t offset, size_t limit, struct buf *out);
void figures_experts(const json_t *v, size_t offset, size_t limit, struct buf *out);

/* The experts of an answer of /v1/stats/experts/N, the most used first, those used alike by number:
 * an array for json_decref, NULL when memory is short. */
json_t *figures_ranked(const json_t *v);

#endif
