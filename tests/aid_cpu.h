/* Engine "cpu" (and others) on packed stores, for tests of what it computes. Failures end the test
 * unless a line says otherwise. */
#ifndef TESTS_AID_CPU_H
#define TESTS_AID_CPU_H

#include "cpu/cpu.h"
#include "model/weights.h"
#include "store/store.h"

/* A checkpoint packed into a temporary folder, opened. */
struct aid_packed {
    char *dir;
    struct store *store;
    struct weights w;
};
void aid_packed_open(struct aid_packed *p, const char *checkpoint);
/* With experts of these bits too: "4,3,2". */
void aid_packed_open_experts(struct aid_packed *p, const char *checkpoint, const char *experts);
void aid_packed_close(struct aid_packed *p);

/* An engine with a sequence of `ctx` tokens. */
struct aid_run {
    struct engine *g;
    struct sequence *seq;
    int vocab;
};
extern const struct engine_options aid_run_defaults; /* with drafts, two threads, a small memory */
void aid_run_open(struct aid_run *r, const struct engine_ops *ops, const struct weights *w,
                  const struct engine_options *o, int ctx);
/* The engine that a test program's first argument names, "cpu" without one. For "gpu" any device
 * will do (CHERENKOV_DEVICE says which); the program ends with 77 where there is none. */
const struct engine_ops *aid_engine_chosen(int argc, char **argv);
/* The engines that run on this machine, one after another; NULL behind the last. A device that the
 * processor plays does not count. */
const struct engine_ops *aid_engine_at(int i);
/* Opens r->g by cpu_open_tampered, or what is the same of another engine that streams. */
void aid_open_tampered(const struct engine_ops *ops, const struct weights *w,
                       const struct engine_options *o, struct reader *reader, uint64_t evict_seed,
                       struct aid_run *r);
void aid_run_close(struct aid_run *r);
/* Steps the tokens, `each` at a time, and commits them; logits [n][vocab], or NULL. */
void aid_run_feed(struct aid_run *r, const int32_t *tokens, int n, int each, float *logits);
/* Prefills the tokens in chunks; logits [vocab] of the last. */
void aid_run_prefill(struct aid_run *r, const int32_t *tokens, int n, int chunk, float *logits);

/* How far two engines' predictions are apart: Kullback-Leibler divergence of what the next token
 * may be, in sum and at most, and how often the best one is the same. */
struct aid_score {
    double kl, kl_worst;
    long n, same;
};
void aid_score_add(struct aid_score *s, const float *want, const float *got, int vocab);
/* The same tokens through both: n of them, in steps of many. */
void aid_run_compare(struct aid_run *ref, struct aid_run *cpu, const int32_t *tokens, int n,
                     struct aid_score *s);

/* n tokens that look like text to a tiny model: from a seed, below vocab. */
void aid_tokens(uint64_t seed, int vocab, int n, int32_t *out);
/* Fails, saying where, unless all bits are the same. */
void aid_same_floats(const float *got, const float *want, size_t n, const char *what);

#endif
