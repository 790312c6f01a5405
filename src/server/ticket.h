/* A request as the scheduler sees it, and the ticket with which whoever asked follows it.
 *
 * The worker thread puts events into a ticket's queue and never waits for them to be taken; whoever
 * holds the ticket takes them, one thread at a time. A queue that is full because its reader is too
 * slow ends the request (E_LIMIT). Order: token events, then one end event, then nothing. */
#ifndef SERVER_TICKET_H
#define SERVER_TICKET_H

#include "runner/generate.h"

enum { TICKET_NAME_MAX = 80, TICKET_BORDERS_MAX = 64 };

/* What is asked for. All that is pointed to is copied by schedule_submit, but for `constraint` and
 * `wake_ctx`, which must live until ticket_close returned. */
struct request {
    const char *name;   /* for lists and schedule_cancel, up to TICKET_NAME_MAX bytes; NULL: none.
                         No two live ones have one name, but for choices of one answer, which have
                         one wake_ctx and are cancelled together */
    const char *answer; /* the answer's own name: schedule_cancel knows it too; NULL: none */
    const int32_t *prompt; /* [n_prompt] token ids */
    size_t n_prompt;
    /* What the prompt was encoded from. With it, the ids of this turn are kept, and schedule_encode
     * gives them again for the next one. NULL: they are not. */
    const char *text;
    size_t text_len;
    /* Numbers of prompt tokens, ascending, behind which the state is worth keeping. NULL: message
     * borders are found by their <|im_start|>. */
    const int *borders;
    size_t n_borders;
    bool shared;    /* others with this very prompt follow or run (n choices): it is fed once */
    bool fresh;     /* nothing kept is used for it */
    int max_tokens; /* 0: until the context is full */
    const char *const *stop; /* [n_stop] strings */
    size_t n_stop;
    bool ignore_stop_ids; /* goes on behind ids that end an answer */
    struct sample_options sample;
    bool logprobs;                       /* token events have them */
    int top_logprobs;                    /* 0..SAMPLE_TOP_MAX of the likeliest tokens besides */
    const struct constraint *constraint; /* or NULL */
    int drafts; /* at most so many a step; -1: as the scheduler was opened */
    /* Called from the worker when there is something to take and there was nothing before, and at
     * the end; at_once for the first event and the end. Must not wait, nor call anything of the
     * ticket. May be NULL. */
    void (*wake)(void *ctx, bool at_once);
    void *wake_ctx;
};

/* How a request ended. */
struct ending {
    enum finish finish; /* FINISH_NONE: it failed, as err says */
    struct err err;
    int stop_string;        /* which of the stop strings ended it, or -1 */
    int n_prompt, n_cached; /* n_cached: prompt tokens whose state was there already */
    int n_generated, n_drafted, n_accepted, n_steps;
    double queue_s, prefill_s, decode_s; /* the first token counts as prefill */
};

enum event_kind { EVENT_TOKEN, EVENT_END };

/* Borrowed from the ticket until the next ticket_take or ticket_close. */
struct event {
    enum event_kind kind;
    /* EVENT_TOKEN */
    int32_t id;
    bool is_stop;     /* an id that ends the answer: no text of its own */
    const char *text; /* what became certain by this token: whole UTF-8, perhaps "" */
    size_t len;
    const struct sample_logprobs *logprobs; /* or NULL */
    /* EVENT_END */
    const struct ending *ending;
};

struct ticket;

/* The next event, if there is one: false if not. */
bool ticket_take(struct ticket *t, struct event *out);
/* The same, waiting up to so many seconds. */
bool ticket_wait(struct ticket *t, double seconds, struct event *out);
/* Ends the request within one chunk or step; its end event says FINISH_INTERRUPTED, unless it was
 * over before. From any thread. */
void ticket_cancel(struct ticket *t);
/* Cancels what is not over, and forgets it. When it returns the worker has let go of `constraint`
 * and `wake`: at once if the end event was there, taken or not; else after one chunk or step, which
 * may be seconds. Who must not wait that long cancels, takes up to the end event, and closes. */
void ticket_close(struct ticket *t);

#endif
