/* From a request to its answer: renders and encodes the prompt, submits each choice to the
 * scheduler, splits what comes back into thinking, text and calls, and hands that to the API whose
 * form the answer has.
 *
 *      reply_start --submitted--> tokens, from the scheduler's worker, wake the pump
 *      pump: ticket -> parts -> form's functions -> exchange_write
 *      all choices ended, client gone, cancelled --> form->end or whole --> freed with exchange
 *
 * One thread, the pump's, touches a reply once it was started; the client's leaving and the worker
 * only put it into the pump's list. */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include "server/api.h"
#include "server/ask.h"
#include "server/parts.h"
#include "server/ticket.h"

struct reply;
struct guides_loan;

/* A call of a tool in an answer. */
struct reply_call {
    char id[ID_ROOM];
    char *name; /* owned */
    struct buf arguments;
    bool ended, cut;
    int item; /* the form's: where it stands in the output */
};

/* One choice of an answer, as far as it has come. */
struct choice {
    struct reply *reply;
    int index;
    struct ticket *ticket; /* NULL: over */
    struct guide *guide;   /* what the answer is held to, owned; NULL: to nothing */
    struct parts parts;
    struct buf text, thinking;
    struct reply_call *calls; /* [n_calls], owned */
    int n_calls;
    struct tokens said;     /* its ids, for a session */
    bool enough;            /* one call was asked for, and it is there */
    int n_thinking;         /* tokens that came before the answer's first */
    json_t *logprobs;       /* array in OpenAI's form, owned; NULL without */
    size_t n_logprobs_sent; /* of them in chunks so far: the form's */
    int part_open;          /* the form's: what the last piece was */
    int n_parts;            /* the form's: blocks begun */
    int text_item;          /* the form's: where the text stands in the output, -1: nowhere */
    struct ending ending;   /* once it is over */
    const char *finish;     /* "stop", "length", "tool_calls", "cancelled"; NULL: not yet */
};

/* How an API shows an answer. Every function may be NULL. Those of pieces are called only when the
 * answer is streamed, in order; the piece is already in the choice. */
struct reply_form {
    const char *type; /* of the streamed body */
    const char *idle; /* see exchange_stream */
    void (*begin)(struct reply *r);
    void (*thinking)(struct choice *c, const char *text, size_t len);
    void (*text)(struct choice *c, const char *text, size_t len);
    void (*call_begin)(struct choice *c, const struct reply_call *call);
    void (*call_arguments)(struct choice *c, const struct reply_call *call, const char *text,
                           size_t len);
    void (*call_end)(struct choice *c, const struct reply_call *call);
    void (*choice_end)(struct choice *c);
    void (*end)(struct reply *r);
    /* The stream has begun and cannot be finished. */
    void (*fail)(struct reply *r, int status, const struct err *why);
    /* The same where there is no memory: what ends the stream, up to HTTP_LAST_MAX bytes, into
     * to[n]. Never NULL. */
    void (*last_words)(const struct reply *r, char *to, size_t n);
    /* The answer at once. For json_decref; NULL: no memory. */
    json_t *(*whole)(struct reply *r);
};

struct reply {
    struct server *server;
    struct exchange *exchange;
    const struct reply_form *form;
    struct ask ask;
    struct toolset tools;
    bool has_tools;
    struct guides_loan *grammar; /* of the guides of all choices, or NULL */
    char id[ID_ROOM];            /* of the answer, made up by the API */
    long created;                /* seconds since 1970 */
    struct choice *choices;
    int n_choices, n_ended;
    bool thinking;          /* the prompt ends in an open <think> */
    json_t *session;        /* as it is to be, owned; NULL: none */
    uint64_t session_claim; /* 0: none, or committed */
    void *state;            /* the form's own, freed with mem_free */
    int n_events;           /* the form's: sent so far */
    bool failed;            /* the client has been told */
    bool starved;           /* something could not be made for want of memory: fails */
    /* the pump's */
    struct reply *next; /* of the list of those that woke */
    bool live, listed;
    atomic_bool gone;
    bool cancelled;
};

/* Answers x by what is asked for; takes a over in any case. id_prefix is that of the answer's
 * name. What is wrong with the request is answered at once. */
void reply_start(struct server *s, struct exchange *x, struct ask *a, const struct reply_form *f,
                 const char *id_prefix);

/* How many tokens the prompt has, also where they are more than the context holds; nothing is
 * submitted. */
int reply_count(struct server *s, struct ask *a, int *n, struct wrong *w);

/* --- for forms --- */

/* One event of a stream: "event: NAME\n" (if not NULL), "data: JSON\n\n". v is released. */
void reply_send(struct reply *r, const char *event, json_t *v);
/* The same as a line of its own. */
void reply_send_line(struct reply *r, json_t *v);
/* A stream's text as it is. */
void reply_write(struct reply *r, const void *data, size_t n);
int reply_prompt_tokens(const struct reply *r);
int reply_cached_tokens(const struct reply *r);
int reply_answer_tokens(const struct reply *r);
int reply_thinking_tokens(const struct reply *r);
/* {"prompt_n": ..., "predicted_per_second": ...} of all choices. For json_decref. */
json_t *reply_timings(const struct reply *r);

/* --- the pump --- */

struct pump;
int pump_open(struct pump **out, struct err *e);
/* Every reply must be over. */
void pump_close(struct pump *p);
int pump_replies(struct pump *p); /* that are not over */

#endif
