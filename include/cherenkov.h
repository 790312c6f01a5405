/* cherenkov: runs Qwen4-exp models from a packed store. The only public header; link with
 * -lcherenkov. docs/architecture.md has the parts behind it, tests/example.c a whole program.
 *
 * Functions return 0, or a negative code; cherenkov_error tells why, in one line, per object (or
 * for a failed open). An object must not be used by two threads at once; two models may. */
#ifndef CHERENKOV_H
#define CHERENKOV_H

#include <stddef.h>
#include <stdint.h>

#define CHERENKOV_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CHERENKOV_API __attribute__((visibility("default")))
#else
#define CHERENKOV_API
#endif

typedef struct cherenkov cherenkov;                   /* an open model */
typedef struct cherenkov_sequence cherenkov_sequence; /* one token stream of a model */

typedef struct {
    size_t size;        /* sizeof of this struct, so that it can grow */
    const char *engine; /* NULL: the best for this machine */
    int max_ctx;        /* tokens a sequence can hold; 0: 8192, or less if the model says so */
} cherenkov_options;

typedef struct {
    size_t size; /* sizeof of this struct */
    /* below 0: this and the three below as generation_config.json says; 0: greedy */
    double temperature;
    int top_k;
    double top_p, min_p;
    uint64_t seed;
} cherenkov_sampling;

CHERENKOV_API const char *cherenkov_version(void);

/* path: a store, or a model folder with packed/ inside. options may be NULL. */
CHERENKOV_API int cherenkov_open(const char *path, const cherenkov_options *options,
                                 cherenkov **out);
CHERENKOV_API void cherenkov_close(cherenkov *m); /* after its sequences */
/* The last failure on m, or of the last failed open in this thread if m is NULL; "" if none.
 * Borrowed until the next call. */
CHERENKOV_API const char *cherenkov_error(const cherenkov *m);

CHERENKOV_API int cherenkov_sequence_open(cherenkov *m, const cherenkov_sampling *sampling,
                                          cherenkov_sequence **out);
CHERENKOV_API void cherenkov_sequence_close(cherenkov_sequence *s);

/* Appends text as it is (cherenkov_feed), or one chat message and the opening of the answer
 * (cherenkov_feed_chat: role "user" or "system"; a system message must come first). */
CHERENKOV_API int cherenkov_feed(cherenkov_sequence *s, const char *text);
CHERENKOV_API int cherenkov_feed_chat(cherenkov_sequence *s, const char *role, const char *content);

/* The next token's text: whole UTF-8, possibly "", borrowed until the next call; NULL when the
 * answer is complete (stop token, or the context is full). */
CHERENKOV_API int cherenkov_next(cherenkov_sequence *s, const char **text);

#ifdef __cplusplus
}
#endif
#endif
