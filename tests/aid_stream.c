/* A stream driven as an engine would: see aid_stream.h. */
#include "tests/aid_stream.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "tests/aid_test.h"

/* The copy of the experts in so many bits, beside a->store's own records. */
static void add_copy(const struct aid_stream *a, int bits)
{
    const struct expert_layout *x = &a->store->manifest.experts;
    struct records r;
    records_layout(x, bits, &r);
    uint8_t *all = mem_zalloc(r.n, (size_t)r.stride);
    char *path = file_join(a->dir, records_file(bits));
    assert_true(all && path);
    for (size_t i = 0; i < r.n; i++)
        records_reduce(x, records_at(&a->store->records[4], i), &r, all + i * r.stride);
    aid_write(path, all, r.n * (size_t)r.stride);
    json_t *m = json_pack(
        "{s:i, s:s, s:I, s:I, s:{s:I,s:I,s:I}, s:{s:I,s:I,s:I,s:I,s:I,s:I}}", "bits", bits,
        "layout", RECORDS_LAYOUT, "stride", (json_int_t)r.stride, "records", (json_int_t)r.n, "w",
        "gate", (json_int_t)r.w[0], "up", (json_int_t)r.w[1], "down", (json_int_t)r.w[2], "s",
        "gate_s", (json_int_t)r.s[0], "gate_b", (json_int_t)r.b[0], "up_s", (json_int_t)r.s[1],
        "up_b", (json_int_t)r.b[1], "down_s", (json_int_t)r.s[2], "down_b", (json_int_t)r.b[2]);
    assert_non_null(m);
    aid_store_write_json(a->dir, records_manifest(bits), m);
    json_decref(m);
    mem_free(all);
    mem_free(path);
}

void aid_stream_open(struct aid_stream *a, const char *golden)
{
    struct config c;
    struct err e = {0};
    char config[128];
    *a = (struct aid_stream){.hold = 4};
    snprintf(config, sizeof config, GOLDENS "%s/mlx4/config.json", golden);
    assert_ok(config_load(config, &c, &e), e);
    a->dir = aid_tmpdir();
    aid_tensors_make(&c, &a->tensors);
    json_t *manifest = aid_store_manifest(&a->tensors);
    aid_store_write(a->dir, config, &a->tensors, manifest);
    json_decref(manifest);
    assert_ok(store_open(a->dir, &a->store, &e), e);
    add_copy(a, 3);
    add_copy(a, 2);
    store_close(a->store);
    assert_ok(store_open(a->dir, &a->store, &e), e);
}

void aid_stream_start(struct aid_stream *a, const struct stream_options *o)
{
    struct err e = {0};
    struct stream_options mine = *o;
    const struct expert_layout *x = &a->store->manifest.experts;
    a->counters = (struct counters){0};
    assert_ok(counters_open(&a->counters, x->n_layers, x->E, &e), e);
    mine.counters = &a->counters;
    assert_ok(stream_open(a->store, &mine, &a->stream, &e), e);
}

void aid_stream_stop(struct aid_stream *a)
{
    stream_close(a->stream);
    counters_close(&a->counters);
    a->stream = NULL;
}

void aid_stream_close(struct aid_stream *a)
{
    if (a->stream)
        aid_stream_stop(a);
    store_close(a->store);
    aid_tensors_free(&a->tensors);
    aid_rmdir(a->dir);
}

void aid_stream_uses(const struct aid_stream *a, uint64_t seed, int n, struct stream_use *out)
{
    int E = a->store->manifest.experts.E;
    bool taken[1024] = {false};
    assert_true(n <= E && E <= 1024);
    for (int i = 0; i < n; i++) {
        int x = (int)(rng_at(seed, (uint64_t)i) % (uint64_t)E);
        while (taken[x])
            x = (x + 1) % E;
        taken[x] = true;
        out[i] = (struct stream_use){.expert = x,
                                     .rows = 1 + (int)(rng_at(seed, (uint64_t)i + 1000) % 5),
                                     .weight = (float)rng_unit_at(seed, (uint64_t)i + 2000)};
    }
}

void aid_stream_check_record(const struct aid_stream *a, int il, int expert,
                             const struct stream_entry *x)
{
    const struct records *r = &a->store->records[x->bits];
    size_t i = (size_t)il * (size_t)a->store->manifest.experts.E + (size_t)expert;
    if (memcmp(x->record, records_at(r, i), (size_t)r->bytes) != 0)
        fail_msg("expert %d of layer %d in %d bits is not what the store has", expert, il, x->bits);
}

int aid_stream_visit(struct aid_stream *a, int il, const struct stream_use *uses, int n,
                     enum cause cause, struct err *e)
{
    struct stream_entry held[1024], got[64];
    bool seen[1024] = {false};
    int n_held = 0, n_seen = 0, n_cut = 0;
    const int hold = a->hold;
    uint64_t draw = 0, seed = a->seed++;
    assert_true(n <= 1024 && hold >= 1);
    int rc = stream_begin(a->stream, il, uses, n, cause, e);
    for (bool last = false; !rc && !last;) {
        int most = 1 + (int)(rng_at(seed, draw++) % 64), n_got;
        if (most > hold - n_held)
            most = hold - n_held;
        bool wait = !n_held || rng_at(seed, draw++) % 2;
        rc = stream_ready(a->stream, wait, got, most, &n_got, e);
        last = !rc && wait && !n_got;
        for (int i = 0; !rc && i < n_got; i++) {
            assert_true(got[i].i >= 0 && got[i].i < n && !seen[got[i].i]);
            seen[got[i].i] = true;
            aid_stream_check_record(a, il, uses[got[i].i].expert, &got[i]);
            held[n_held++] = got[i];
            n_seen++;
        }
        int give = last ? n_held : (int)(rng_at(seed, draw++) % (uint64_t)(n_held + 1));
        if (n_held == hold && !give)
            give = 1;
        for (; !rc && give; give--) { /* pinned until now: still what it was */
            int i = (int)(rng_at(seed, draw++) % (uint64_t)n_held);
            aid_stream_check_record(a, il, uses[held[i].i].expert, &held[i]);
            stream_done(a->stream, held[i].i);
            held[i] = held[--n_held];
        }
    }
    for (int i = 0; !rc && i < n; i++)
        n_cut += stream_was_cut(a->stream, i);
    if (!rc)
        assert_int_equal(n_seen + n_cut, n);
    stream_end(a->stream);
    return rc;
}
