/* The scheduler: one worker thread owns a model's engine and shares its time among requests.
 *
 *      submit --queued--> admitted to a sequence --prefill, chunk by chunk--> decode --> end
 *
 * Any thread submits; events come back by the request's ticket (server/ticket.h). Answers being
 * decoded share steps (runner/batch.h); prompts are fed a chunk at a time, in turn, and chunks are
 * short while others decode. What a request says never depends on others, on drafts, or on what
 * was kept of earlier requests. One that fails ends alone; when the engine itself is lost, all that
 * run fail, and it is opened again.
 *
 * State that a later prompt may begin with is kept (server/prefix.h): in the sequences themselves,
 * in memory, and on disk. */
#ifndef SERVER_SCHEDULE_H
#define SERVER_SCHEDULE_H

#include "server/ticket.h"

struct schedule;

/* Zeros are the defaults. */
struct schedule_options {
    int sequences; /* requests at once, 1..BATCH_MAX; 0: 1. The model must have been opened with
                      engine_options.n_sequences of so many */
    int queue;     /* requests that may wait besides; 0: 64; -1: none */
    int backlog;   /* events that a ticket holds for a slow reader; 0: 4096 */
    struct draft_options draft;
    uint64_t prefix_bytes; /* memory for kept states; 0: 512 MiB */
    int prefix_entries;    /* 0: 16; -1: none are kept in memory or on disk */
    double prefix_idle_s;  /* entries in memory that nobody used for so long go; 0: 900 */
    const char *save_dir;  /* folder for kept states that survive a restart; NULL: none */
    uint64_t save_bytes;   /* room for them on disk; 0: 4 GiB */
};

/* m is borrowed until schedule_close; nothing else may step it meanwhile. */
int schedule_open(struct model *m, const struct schedule_options *o, struct schedule **out,
                  struct err *e);
/* Ends what runs (its tickets say FINISH_INTERRUPTED), waits for the worker. Tickets that are still
 * open can be taken from and closed before this, not after. */
void schedule_close(struct schedule *s);

/* E_ARG, E_LIMIT: the request itself is wrong or too long. E_BUSY: the queue is full, or the server
 * is draining: retry later. E_EXISTS: another of its name runs or waits. */
int schedule_submit(struct schedule *s, const struct request *r, struct ticket **out,
                    struct err *e);
/* Cancels all requests of that name, or whose answer has it (NULL: all there are); returns how many
 * there were. */
int schedule_cancel(struct schedule *s, const char *name);
/* From now on new requests are refused; those accepted go on. */
void schedule_drain(struct schedule *s);
/* Waits up to so many seconds until nothing runs or waits; whether that is so. */
bool schedule_idle(struct schedule *s, double seconds);

/* The ids of a rendered prompt, appended to out; like tokenizer_encode, but turns that this server
 * generated have the ids they were generated with, and of a text with more than `most` ids not all
 * are given, but more than that. From any thread. */
int schedule_encode(struct schedule *s, const char *text, size_t len, size_t most,
                    struct tokens *out, struct err *e);

/* For lists of requests. */
enum request_state { REQUEST_QUEUED, REQUEST_PREFILL, REQUEST_DECODE };
struct request_view {
    char name[TICKET_NAME_MAX + 1];
    enum request_state state;
    int n_prompt, n_cached, n_fed; /* n_fed: prompt tokens in the state, with cached ones */
    int n_generated;
    double age_s; /* since it was submitted */
};
/* Those that run, then those that wait; at most `most`; returns how many. */
int schedule_list(struct schedule *s, struct request_view *out, int most);

/* Sums since open, and how things stand. */
struct schedule_stats {
    int sequences, running, queued;
    bool draining;
    uint64_t n_submitted, n_refused; /* refused: E_BUSY */
    uint64_t n_done, n_cancelled, n_failed;
    uint64_t fed_tokens, made_tokens; /* of prompts (not the cached ones) and answers, up to now */
    uint64_t prompt_tokens, cached_tokens, generated_tokens; /* of requests that ended */
    uint64_t drafted_tokens, accepted_tokens;
    double queue_s, prefill_s, decode_s; /* the same, summed */
    uint64_t prefix_hits, prefix_misses; /* admitted with a state, or without any */
    int prefix_entries;                  /* in memory */
    uint64_t prefix_bytes;
    int saved_entries; /* on disk */
    uint64_t saved_bytes;
};
void schedule_stats(struct schedule *s, struct schedule_stats *out);
/* What the engine counts, from any thread, on loan until schedule_counters_done: meanwhile the
 * engine is not opened again (counting starts anew then). NULL, and no loan: it counts nothing, or
 * is being opened. */
const struct counters *schedule_counters(struct schedule *s);
void schedule_counters_done(struct schedule *s);
/* Calls fn on the worker, between two steps or chunks, and waits for it: for counters and other
 * things that only the worker may read. m is NULL while there is no engine (model_reopen). */
void schedule_look(struct schedule *s, void (*fn)(void *ctx, struct model *m), void *ctx);

#endif
