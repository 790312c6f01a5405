/* Made-up stores of any shape, written straight in packed form: random weights with which
 * activations stay finite and logits have a spread, for measurements and tests of sizes that nobody
 * wants to download. A store is a function of config, seed and skew: the same numbers, the same
 * bytes. What a tensor or record holds depends on its name, and so not on how many others there
 * are; experts of 3 and 2 bits are those of the store with 4 bits. */
#ifndef PACK_SYNTH_H
#define PACK_SYNTH_H

#include "pack/lowbit.h"

struct synth_options {
    const char *config;    /* a config.json, or a folder with one */
    const char *tokenizer; /* a folder: its tokenizer and template are copied; NULL: none */
    int n_layers, E;       /* 0: as config says */
    int64_t ngram_base;    /* ngram_vocab_size_base; 0: as config says */
    bool without_mtp;
    struct lowbit_options bits; /* want: which precisions; threads; force */
    uint64_t seed;
    double skew; /* 0: experts are equally likely; else see synth_values.h */
};

struct synth_report {
    uint64_t bytes;
    double seconds;
    int n_threads;
};

/* Shows progress on stderr. E_ARG when dir is a store and force is off; E_SPACE before a byte is
 * written; E_INTERRUPTED. After a failure dir is unfinished. */
int synth_run(const char *dir, const struct synth_options *o, struct synth_report *r,
              struct err *e);

#endif
