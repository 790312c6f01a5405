/* N-gram constants and row ids: see ngram.h. Everything is integer arithmetic and exact. */
#include "store/ngram.h"

#include <inttypes.h>

#include "base/rng.h"

static const uint64_t gamma64 = 0x9E3779B97F4A7C15u;

/* Trial division by 6k +- 1: 5 us a prime at 20 million. n < 2^32, as the config's range says. */
static bool is_prime(uint32_t n)
{
    if (n < 4)
        return n >= 2;
    if (n % 2 == 0 || n % 3 == 0)
        return false;
    for (uint32_t d = 5; (uint64_t)d * d <= n; d += 6)
        if (n % d == 0 || n % (d + 2) == 0)
            return false;
    return true;
}

static uint32_t prime_from(uint32_t n)
{
    while (!is_prime(n))
        n++;
    return n;
}

void ngram_derive(const struct config *c, int m, struct ngram_module *out)
{
    *out = (struct ngram_module){.layer = c->ple_layer[m],
                                 .n_heads = (c->ngram_size - 1) * c->heads_per_ngram};
    out->row_dim = c->ple_dim / out->n_heads;
    uint32_t prime = prime_from((uint32_t)c->ngram_base);
    for (int skip = 0; skip < m * out->n_heads; skip++)
        prime = prime_from(prime + 1);
    uint64_t total = 0;
    for (int j = 0; j < out->n_heads; j++) {
        out->size[j] = prime;
        out->offset[j] = total;
        total += prime;
        prime = prime_from(prime + 1);
    }
    uint64_t unit = (uint64_t)c->ngram_divisible;
    out->rows = (total + unit - 1) / unit * unit;

    uint64_t half = (uint64_t)INT64_MAX / (uint64_t)c->vocab / 2;
    if (half < 1)
        half = 1;
    uint64_t base = c->seed + 10007u * (uint64_t)m;
    for (int i = 0; i < c->ngram_size; i++)
        out->mult[i] = 2 * (rng_splitmix64(base + gamma64 * (uint64_t)(i + 1)) % half) + 1;
}

static int differ(const char *where, const char *what, int i, uint64_t stored, uint64_t derived,
                  struct err *e)
{
    return ERR(e, E_FORMAT,
               "%s: wrong n-gram constants: %s[%d] is %" PRIu64 ", but the config makes it %" PRIu64
               " (from seed, vocab_size, ngram_size, heads_per_ngram, ngram_vocab_size_base, "
               "make_ngram_vocab_size_divisible_by): one of the two is of another model",
               where, what, i, stored, derived);
}

int ngram_compare(const struct ngram_module *stored, const struct ngram_module *derived,
                  const char *where, struct err *e)
{
    if (stored->n_heads != derived->n_heads)
        return differ(where, "heads", 0, (uint64_t)stored->n_heads, (uint64_t)derived->n_heads, e);
    for (int j = 0; j < derived->n_heads; j++) {
        if (stored->size[j] != derived->size[j])
            return differ(where, "head_vocab_sizes", j, stored->size[j], derived->size[j], e);
        if (stored->offset[j] != derived->offset[j])
            return differ(where, "head_offsets", j, stored->offset[j], derived->offset[j], e);
    }
    for (int i = 0; i < CONFIG_NGRAM_SIZE_MAX; i++)
        if (stored->mult[i] != derived->mult[i])
            return differ(where, "layer_multipliers", i, stored->mult[i], derived->mult[i], e);
    if (stored->rows != derived->rows)
        return differ(where, "rows", 0, stored->rows, derived->rows, e);
    return 0;
}

void ngram_rows(const struct ngram_module *g, const struct config *c, const int32_t *tokens,
                int pos, uint64_t *row)
{
    /* Tokens are below vocab and multipliers below 2^63 / vocab, so that no product is negative. */
    uint64_t mix = (uint64_t)tokens[pos] * g->mult[0];
    bool cut = false; /* an EOS or the start lies between here and the current token */
    int j = 0;
    for (int s = 1; s < c->ngram_size; s++) {
        cut = cut || pos < s || tokens[pos - s] == c->eos[0];
        uint64_t t = (uint64_t)(cut ? c->eos[0] : tokens[pos - s]);
        mix ^= t * g->mult[s];
        for (int k = 0; k < c->heads_per_ngram; k++, j++)
            row[j] = mix % g->size[j] + g->offset[j];
    }
}
