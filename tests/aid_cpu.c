/* Engines on packed stores: see aid_cpu.h. */
#include "tests/aid_cpu.h"
#include "gpu/device.h"
#include "gpu/gpu.h"
#include "runner/engines.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/aid_test.h"

const struct engine_options aid_run_defaults = {
    .mtp_norm = -1, .drafts = true, .threads = 2, .ctx = 512, .chunk = 64, .no_ranking = true};

void aid_packed_open(struct aid_packed *p, const char *checkpoint)
{
    aid_packed_open_experts(p, checkpoint, "4");
}

void aid_packed_open_experts(struct aid_packed *p, const char *checkpoint, const char *experts)
{
    struct err e = {0};
    struct weight_source source;
    struct aid_output o;
    p->dir = aid_tmpdir();
    char *dir = file_join(p->dir, "packed");
    const char *const argv[] = {"cherenkov", "pack",      checkpoint, "--output",
                                dir,         "--experts", experts,    NULL};
    aid_run(argv, NULL, &o);
    if (o.status)
        fail_msg("pack %s: %s", checkpoint, buf_str(&o.err));
    aid_output_free(&o);
    assert_ok(store_open(dir, &p->store, &e), e);
    mem_free(dir);
    weights_source_store(p->store, &source);
    assert_ok(weights_init(&p->store->config, &source, &p->w, &e), e);
}

void aid_packed_close(struct aid_packed *p)
{
    weights_free(&p->w);
    store_close(p->store);
    aid_rmdir(p->dir);
}

void aid_run_open(struct aid_run *r, const struct engine_ops *ops, const struct weights *w,
                  const struct engine_options *o, int ctx)
{
    struct err e = {0};
    assert_ok(ops->open(w, o, &r->g, &e), e);
    assert_ok(ops->sequence_open(r->g, ctx, &r->seq, &e), e);
    r->vocab = w->config.vocab;
}

void aid_run_close(struct aid_run *r)
{
    r->g->ops->sequence_close(r->seq);
    r->g->ops->close(r->g);
}

void aid_run_feed(struct aid_run *r, const int32_t *tokens, int n, int each, float *logits)
{
    struct err e = {0};
    struct row rows[ENGINE_ROWS_MAX];
    const bool none[ENGINE_ROWS_MAX] = {0};
    for (int i = 0; i < n; i += each) {
        int R = n - i < each ? n - i : each;
        float *to = logits ? logits + (size_t)i * (size_t)r->vocab : NULL;
        for (int j = 0; j < R; j++)
            rows[j] = (struct row){r->seq, tokens[i + j]};
        assert_ok(r->g->ops->step(r->g, rows, R, to ? NULL : none, to, &e), e);
        assert_ok(r->g->ops->commit(r->g, r->seq, R, &e), e);
    }
}

void aid_run_prefill(struct aid_run *r, const int32_t *tokens, int n, int chunk, float *logits)
{
    struct err e = {0};
    for (int i = 0; i < n; i += chunk) {
        int R = n - i < chunk ? n - i : chunk;
        float *to = i + R == n ? logits : NULL;
        assert_ok(r->g->ops->prefill(r->g, r->seq, tokens + i, R, to, &e), e);
    }
}

static double log_sum(const float *x, int n)
{
    double most = x[engine_argmax(x, n)], sum = 0;
    for (int i = 0; i < n; i++)
        sum += exp((double)x[i] - most);
    return most + log(sum);
}

void aid_score_add(struct aid_score *s, const float *want, const float *got, int vocab)
{
    double want_sum = log_sum(want, vocab), got_sum = log_sum(got, vocab), kl = 0;
    for (int i = 0; i < vocab; i++) {
        double p = (double)want[i] - want_sum, q = (double)got[i] - got_sum;
        kl += exp(p) * (p - q);
    }
    s->kl += kl;
    s->kl_worst = fmax(s->kl_worst, kl);
    s->n++;
    s->same += engine_argmax(want, vocab) == engine_argmax(got, vocab);
}

void aid_run_compare(struct aid_run *ref, struct aid_run *cpu, const int32_t *tokens, int n,
                     struct aid_score *s)
{
    size_t vocab = (size_t)ref->vocab;
    float *want = mem_array((size_t)n * vocab, sizeof *want);
    float *got = mem_array((size_t)n * vocab, sizeof *got);
    assert_true(want && got);
    aid_run_feed(ref, tokens, n, 64, want);
    aid_run_feed(cpu, tokens, n, 16, got);
    for (int i = 0; i < n; i++)
        aid_score_add(s, want + (size_t)i * vocab, got + (size_t)i * vocab, ref->vocab);
    mem_free(want);
    mem_free(got);
}

void aid_tokens(uint64_t seed, int vocab, int n, int32_t *out)
{
    for (int i = 0; i < n; i++) {
        uint64_t x = rng_splitmix64(seed ^ (uint64_t)i * 2654435761u);
        bool repeat = i > 8 && x % 4 == 0; /* n-grams come back */
        out[i] = repeat ? out[i - 1 - (int)(x >> 8 & 7)] : (int32_t)((x >> 32) % (uint64_t)vocab);
    }
}

void aid_same_floats(const float *got, const float *want, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("%s: value %zu is %.9g, want the bits of %.9g", what, i, (double)got[i],
                     (double)want[i]);
}

const struct engine_ops *aid_engine_chosen(int argc, char **argv)
{
    struct device_info device;
    struct err e = {0};
    if (argc < 2 || strcmp(argv[1], "cpu") == 0)
        return &cpu_engine;
    assert_string_equal(argv[1], "gpu");
    setenv("CHERENKOV_DEVICE", "any", 0);
    if (device_pick(NULL, &device, &e)) {
        printf("no device: %s\n", e.msg);
        exit(77);
    }
    return &gpu_engine;
}

void aid_open_tampered(const struct engine_ops *ops, const struct weights *w,
                       const struct engine_options *o, struct reader *reader, uint64_t evict_seed,
                       struct aid_run *r)
{
    struct err e = {0};
    bool gpu = ops == &gpu_engine;
    assert_ok((gpu ? gpu_open_tampered : cpu_open_tampered)(w, o, reader, evict_seed, &r->g, &e),
              e);
}

const struct engine_ops *aid_engine_at(int i)
{
    struct device_info device;
    struct err e = {0};
    const struct engine_ops *ops = engines_at(i);
    return ops == &gpu_engine && device_pick(NULL, &device, &e) ? NULL : ops;
}
