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
    /* Zero is the default of all below. None changes what is computed, but those that say so. */
    int sequences;       /* how many are open at once: memory is set aside for them; 0: one */
    int threads;         /* 0: one for each processor */
    uint64_t memory;     /* bytes for all; 0: what the machine has, less headroom */
    uint64_t pool_bytes; /* for cached experts; 0: what is left of memory */
    int pool_slots;      /* the same as a number of experts; at most one of the two is given */
    int pool_map;        /* not 0: experts are used in place from a mapping of the file */
    int prefill_chunk;   /* tokens of a prompt at once; 0: as memory allows */
    int expert_bits;     /* 4 (or 0), 3 or 2: precision of experts. Changes what is computed */
    int miss_bits;       /* 3 or 2: experts that must be waited for are read in fewer bits; */
    double cut_weak;     /* late experts of less weight are left out: with one of these two,
                            what is computed depends on what happens to be cached */
    int drafts;          /* tokens guessed for each step, at most: 1 to 3; 0: 2; -1: none */
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

/* The same for n sequences of one model (1 to 16, all different) in one step, which reads the
 * weights once for all. texts [n]: of each, the text of one token or of several. What a sequence
 * says does not depend on the others. If one fails, its text is NULL, the others go on, and the
 * first failure is returned. Takes memory when n is larger than ever before. */
CHERENKOV_API int cherenkov_next_many(cherenkov_sequence *const *s, int n, const char **texts);

/* What a sequence was fed and has generated, with the model's state behind it, so that a restored
 * one goes on where this one was, to the bit, without computing it again. An answer in the making
 * ends, as it does when something is fed. Saves are versioned and checksummed; a file is replaced
 * whole or not at all. Restoring replaces what s holds; a save of another store, engine or
 * precision, or one that is damaged, is refused with the reason, and s stays as it was. */
CHERENKOV_API int cherenkov_sequence_save(cherenkov_sequence *s, const char *path);
CHERENKOV_API int cherenkov_sequence_restore(cherenkov_sequence *s, const char *path);
/* The same in memory: *data is borrowed until the next call with s. */
CHERENKOV_API int cherenkov_sequence_save_memory(cherenkov_sequence *s, const void **data,
                                                 size_t *n);
CHERENKOV_API int cherenkov_sequence_restore_memory(cherenkov_sequence *s, const void *data,
                                                    size_t n);

#ifdef __cplusplus
}
#endif
#endif
