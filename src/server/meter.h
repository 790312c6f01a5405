/* How a server does lately: a thread takes a sample of what was counted once a second, and rates
 * are those of the last METER_WINDOW_S seconds. Reading disturbs neither the worker nor the engine,
 * and shows what a long step has done so far. */
#ifndef SERVER_METER_H
#define SERVER_METER_H

#include "model/counters.h"
#include "server/schedule.h"

enum { METER_WINDOW_S = 5 };

struct meter;

/* What was counted up to a moment. */
struct meter_sample {
    uint64_t ns;                  /* clock_ns() */
    uint64_t made, fed;           /* tokens of answers and of prompts */
    uint64_t hits, misses;        /* of experts */
    uint64_t read_bytes, wait_ns; /* of all causes */
};

/* NAN: nobody knows, because nothing happened, nothing is counted, or it is too early. */
struct meter_rates {
    double window_s;        /* between the two samples; 0: too early, and all others are NAN */
    double decode, prefill; /* tokens a second */
    double hit_rate;        /* of experts, 0..1 */
    double read_bytes;      /* a second */
    double wait;            /* share of the time that the worker stood still for reads, 0..1 */
};
/* Between two samples; the other way round, or closer than a tenth of a second: too early. */
struct meter_rates meter_rates(const struct meter_sample *from, const struct meter_sample *to);

/* s is borrowed until meter_close. */
int meter_open(struct schedule *s, struct meter **out, struct err *e);
void meter_close(struct meter *m); /* NULL is fine */

/* How things are now. */
struct meter_view {
    struct meter_rates rates;
    struct counters counters; /* without experts; no layers where nothing is counted */
    double *layer_hit_rate;   /* [counters.n_layers] in the window, or NAN */
};
/* On failure nothing is held. */
int meter_look(struct meter *m, struct meter_view *out, struct err *e);
void meter_view_free(struct meter_view *v); /* zeros are fine */

#endif
