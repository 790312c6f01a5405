/* The seam to a GPU: memory, kernels, tapes, order, waiting ahead, failing. On any device, so on a
 * software one in CI. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/os.h"
#include "base/rng.h"
#include "gpu/params.h"
#include "tests/aid_gpu.h"
#include "tests/aid_test.h"

static struct aid_gpu g;

static struct copy_params copy_of(uint64_t from, uint64_t to, uint32_t words)
{
    return (struct copy_params){.from = from, .to = to, .words = words};
}

static struct grid grid_of(uint32_t words)
{
    return (struct grid){(words + COPY_WORDS - 1) / COPY_WORDS, 1, 1};
}

static void copies(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 3, 4, 255, 256, 1028, COPY_WORDS - 1, 2 * COPY_WORDS + 12};
    const struct kernel *k = aid_gpu_kernel(&g, "copy", NULL, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t n = sizes[i];
        uint32_t *x = mem_array(n, 4), *y = mem_array(n, 4);
        for (uint32_t j = 0; j < n; j++)
            x[j] = j * 2654435761u + 1;
        uint64_t from = aid_gpu_put(&g, x, n * 4), to = aid_gpu_room(&g, n * 4);
        struct copy_params p = copy_of(from, to, n);
        aid_gpu_run(&g, k, &p, sizeof p, grid_of(n));
        aid_gpu_get(&g, to, y, n * 4);
        assert_memory_equal(x, y, n * 4);
        p = (struct copy_params){.to = to, .words = n, .fill = 7};
        aid_gpu_run(&g, k, &p, sizeof p, grid_of(n));
        aid_gpu_get(&g, to, y, n * 4);
        for (uint32_t j = 0; j < n; j++)
            assert_int_equal(y[j], 7);
        mem_free(x);
        mem_free(y);
        aid_gpu_reset(&g);
    }
}

static void rows_have_strides(void **state)
{
    (void)state;
    uint32_t x[4 * 10], y[4 * 7] = {0};
    for (uint32_t i = 0; i < 40; i++)
        x[i] = i;
    uint64_t from = aid_gpu_put(&g, x, sizeof x), to = aid_gpu_room(&g, sizeof y);
    struct copy_params p = {.from = from, .to = to, .words = 5, .from_stride = 10, .to_stride = 7};
    aid_gpu_run(&g, aid_gpu_kernel(&g, "copy", NULL, 0), &p, sizeof p, (struct grid){1, 4, 1});
    aid_gpu_get(&g, to, y, sizeof y);
    for (uint32_t r = 0; r < 4; r++)
        for (uint32_t i = 0; i < 7; i++)
            assert_int_equal(y[r * 7 + i], i < 5 ? r * 10 + i : 0);
    aid_gpu_reset(&g);
}

/* More pieces than one copy takes, of odd sizes, one of them larger than a staging buffer. */
static void pieces_go_and_come(void **state)
{
    (void)state;
    enum { N = 150, LARGE = 40 << 20, ROOM = LARGE + N * 1000 };
    struct device_piece out[N], in[N];
    struct device_buffer b;
    struct err e = {0};
    char *from = mem_alloc(ROOM), *to = mem_zalloc(1, ROOM);
    size_t at = 0;
    assert_true(from && to);
    assert_ok(device_take(g.device, DEVICE_LOCAL, ROOM, &b, &e), e);
    for (size_t i = 0; i < ROOM; i++)
        from[i] = (char)(i * 2654435761u >> 24);
    for (int i = 0; i < N; i++) { /* backwards on the device, with gaps */
        size_t n = i == 70 ? LARGE : (size_t)(i * 37 % 900);
        out[i] = (struct device_piece){ROOM - at - n, from + at, n};
        in[i] = (struct device_piece){ROOM - at - n, to + at, n};
        at += n + (size_t)(i % 5);
    }
    assert_ok(device_upload_pieces(g.device, &b, out, N, &e), e);
    assert_ok(device_download_pieces(g.device, &b, in, N, &e), e);
    for (int i = 0; i < N; i++)
        assert_memory_equal(in[i].data, out[i].data, out[i].bytes);
    for (int i = 0; i + 1 < N; i++) /* the gaps behind them were not touched */
        for (const char *p = (char *)in[i].data + in[i].bytes; p < (char *)in[i + 1].data; p++)
            assert_int_equal(*p, 0);
    device_free(g.device, &b);
    mem_free(from);
    mem_free(to);
}

/* A guard that nothing could trip over would guard nothing. */
static void a_write_behind_a_buffer_is_seen(void **state)
{
    (void)state;
    struct err e = {0};
    uint32_t x[4] = {1, 2, 3, 4}, behind[1];
    uint64_t from = aid_gpu_put(&g, x, sizeof x), to = aid_gpu_room(&g, 12);
    struct copy_params p = copy_of(from, to, 4);
    aid_gpu_run(&g, aid_gpu_kernel(&g, "copy", NULL, 0), &p, sizeof p, (struct grid){1, 1, 1});
    assert_ok(device_download(g.device, &g.buffers[1], 12, behind, sizeof behind, &e), e);
    assert_int_equal(behind[0], 4);
    memset(behind, 0xa5, sizeof behind);
    assert_ok(device_upload(g.device, &g.buffers[1], 12, behind, sizeof behind, &e), e);
    aid_gpu_reset(&g);
}

/* A chain of copies through many buffers, recorded once, run twice with other input. */
static void a_tape_runs_again(void **state)
{
    (void)state;
    enum { N = 1000, LINKS = 20 };
    struct err e = {0};
    uint32_t x[N], y[N];
    uint64_t at[LINKS], value;
    const struct kernel *k = aid_gpu_kernel(&g, "copy", NULL, 0);
    for (int i = 0; i < LINKS; i++)
        at[i] = aid_gpu_room(&g, sizeof x);
    aid_gpu_begin(&g);
    for (int i = 1; i < LINKS; i++) {
        struct copy_params p = copy_of(at[i - 1], at[i], N);
        tape_dispatch(g.tape, k, &p, sizeof p, grid_of(N));
        tape_barrier(g.tape);
    }
    aid_gpu_end(&g);
    for (uint32_t run = 0; run < 3; run++) {
        for (uint32_t i = 0; i < N; i++)
            x[i] = run * N + i;
        aid_gpu_set(&g, at[0], x, sizeof x);
        assert_ok(device_submit(g.device, g.tape, &value, &e), e);
        assert_ok(device_wait(g.device, value, &e), e);
        assert_true(device_done(g.device, value));
        aid_gpu_get(&g, at[LINKS - 1], y, sizeof y);
        assert_memory_equal(x, y, sizeof x);
    }
    if (device_about(g.device)->tick_ns > 0)
        assert_true(g.ns > 0);
    aid_gpu_reset(&g);
}

/* Stages submitted ahead in one call; each gets its word only when the one before has answered. */
static void stages_wait_for_the_host(void **state)
{
    (void)state;
    enum { STAGES = 12, LINE = 128 };
    struct err e = {0};
    struct tape *tapes[STAGES];
    uint64_t go[STAGES], value;
    struct device_buffer in, out;
    const struct kernel *k = aid_gpu_kernel(&g, "copy", NULL, 0);
    assert_ok(device_take(g.device, DEVICE_SHARED, STAGES * LINE, &in, &e), e);
    assert_ok(device_take(g.device, DEVICE_BACK, STAGES * LINE, &out, &e), e);
    for (int i = 0; i < STAGES; i++) {
        struct copy_params p =
            copy_of(in.address + (uint64_t)i * LINE, out.address + (uint64_t)i * LINE, 1);
        assert_ok(tape_open(g.device, 0, &tapes[i], &e), e);
        tape_begin(tapes[i]);
        tape_dispatch(tapes[i], k, &p, sizeof p, (struct grid){1, 1, 1});
        assert_ok(tape_end(tapes[i], &e), e);
        go[i] = (uint64_t)i + 1;
    }
    assert_ok(device_submit_ahead(g.device, tapes, STAGES, go, &value, &e), e);
    uint32_t word = 1;
    for (int i = 0; i < STAGES; i++) {
        uint64_t mine = value - (STAGES - 1) + (uint64_t)i;
        assert_false(device_done(g.device, mine));
        *(uint32_t *)((char *)in.host + (size_t)i * LINE) = word;
        assert_ok(device_release(g.device, go[i], &e), e);
        assert_ok(device_wait(g.device, mine, &e), e);
        uint32_t answer = *(uint32_t *)((char *)out.host + (size_t)i * LINE);
        assert_int_equal(answer, word);
        word = answer * 3 + 1;
    }
    for (int i = 0; i < STAGES; i++)
        tape_close(tapes[i]);
    device_free(g.device, &in);
    device_free(g.device, &out);
}

static void pages_of_the_host_are_used_in_place(void **state)
{
    (void)state;
    struct err e = {0};
    struct device_buffer b;
    size_t bytes = 1 << 20, align = device_about(g.device)->import_align;
    if (!align) {
        printf("note: this device imports no memory of the host\n");
        return;
    }
    uint32_t *pages = mem_aligned(align, bytes), y[64];
    for (uint32_t i = 0; i < bytes / 4; i++)
        pages[i] = i;
    assert_ok(device_import(g.device, pages, bytes, &b, &e), e);
    uint64_t to = aid_gpu_room(&g, sizeof y);
    struct copy_params p = copy_of(b.address + 4096, to, 64);
    aid_gpu_run(&g, aid_gpu_kernel(&g, "copy", NULL, 0), &p, sizeof p, (struct grid){1, 1, 1});
    aid_gpu_get(&g, to, y, sizeof y);
    assert_memory_equal(y, pages + 1024, sizeof y);
    device_free(g.device, &b);
    mem_free(pages);
    aid_gpu_reset(&g);
}

/* Copies from the host's memory and back, each behind a tape and in front of one: more than may be
 * under way at once. */
static void copies_beside_tapes(void **state)
{
    (void)state;
    enum { N = 1024, PARTS = 8, TIMES = 12 };
    struct err e = {0};
    struct device_buffer host, near;
    const struct kernel *k = aid_gpu_kernel(&g, "copy", NULL, 0);
    const size_t part = N * sizeof(uint32_t);
    uint64_t copied = 0, ran = 0, last = 0;
    assert_ok(device_take(g.device, DEVICE_BACK, 2 * PARTS * part, &host, &e), e);
    assert_ok(device_take(g.device, DEVICE_LOCAL, 2 * PARTS * part, &near, &e), e);
    uint32_t *x = host.host;
    for (uint32_t t = 0; t < TIMES; t++) {
        struct device_copy in[PARTS], out;
        for (uint32_t i = 0; i < PARTS * N; i++)
            x[i] = t * 0x10001 + i;
        for (size_t i = 0; i < PARTS; i++) /* each to another place */
            in[i] = (struct device_copy){&host, &near, i * part, (PARTS - 1 - i) * part, part};
        assert_ok(device_copy(g.device, in, PARTS, ran, &copied, &e), e);
        assert_int_equal(copied, last + PARTS);
        struct copy_params p = copy_of(near.address, near.address + PARTS * part, PARTS * N);
        device_after_copies(g.device, copied);
        aid_gpu_begin(&g);
        tape_dispatch(g.tape, k, &p, sizeof p, grid_of(PARTS * N));
        tape_stamp(g.tape);
        assert_ok(tape_end(g.tape, &e), e);
        assert_ok(device_submit(g.device, g.tape, &ran, &e), e);
        out = (struct device_copy){&near, &host, PARTS * part, PARTS * part, PARTS * part};
        assert_ok(device_copy(g.device, &out, 1, ran, &last, &e), e);
        assert_int_equal(last, copied + 1);
        assert_ok(device_wait_copied(g.device, last, &e), e);
        assert_true(device_copied(g.device, last) && device_done(g.device, ran));
        for (uint32_t i = 0; i < PARTS * N; i++)
            assert_int_equal(x[PARTS * N + i], x[(PARTS - 1 - i / N) * N + i % N]);
    }
    printf("note: copies on a queue of %s\n",
           device_about(g.device)->copy_queue ? "their own" : "the tapes");
    device_free(g.device, &host);
    device_free(g.device, &near);
}

static void refusals_have_words(void **state)
{
    (void)state;
    struct err e = {0};
    struct device_buffer b;
    const struct kernel *k;
    struct device *d;
    assert_int_equal(device_kernel(g.device, "nothing", NULL, 0, &k, &e), -E_NOTFOUND);
    assert_non_null(strstr(e.msg, "nothing.comp"));
    err_clear(&e);
    size_t huge = (size_t)1 << 60; /* more than a buffer of any driver */
    assert_int_equal(device_take(g.device, DEVICE_LOCAL, huge, &b, &e), -E_LIMIT);
    assert_int_equal(b.bytes, 0);
    err_clear(&e);
    assert_int_equal(device_open("no such device", &d, &e), -E_NOTFOUND);
    assert_non_null(strstr(e.msg, "there is: 0 "));
    assert_null(d);
}

/* What is written to stderr while a device closes. */
static void close_and_read(struct aid_gpu *a, char *text, size_t most)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    fflush(stderr);
    int before = dup(2);
    assert_true(before >= 0 && dup2(fileno(f), 2) == 2);
    aid_gpu_close(a);
    fflush(stderr);
    assert_int_equal(dup2(before, 2), 2);
    close(before);
    rewind(f);
    text[fread(text, 1, most - 1, f)] = 0;
    fclose(f);
}

static void times_are_told_at_the_end(void **state)
{
    (void)state;
    enum { N = 1000, RUNS = 3 };
    static struct aid_gpu timed;
    struct err e = {0};
    uint64_t value;
    char text[4096];
    setenv("CHERENKOV_DEVICE_TIMES", "1", 1);
    aid_gpu_open(&timed);
    unsetenv("CHERENKOV_DEVICE_TIMES");
    const struct kernel *k = aid_gpu_kernel(&timed, "copy", NULL, 0);
    uint64_t from = aid_gpu_room(&timed, N * 4), to = aid_gpu_room(&timed, N * 4);
    struct copy_params p = copy_of(from, to, N);
    aid_gpu_begin(&timed);
    for (int stage = 0; stage < 2; stage++) {
        tape_dispatch(timed.tape, k, &p, sizeof p, grid_of(N));
        tape_barrier(timed.tape);
    }
    p.words = 1;
    for (int i = 0; i < 3; i++)
        tape_dispatch(timed.tape, k, &p, sizeof p, (struct grid){1, 2, 1});
    aid_gpu_end(&timed);
    for (int run = 1; run < RUNS; run++) {
        assert_ok(device_submit(timed.device, timed.tape, &value, &e), e);
        assert_ok(device_wait(timed.device, value, &e), e);
    }
    bool clock = device_about(timed.device)->tick_ns > 0;
    aid_gpu_reset(&timed);
    close_and_read(&timed, text, sizeof text);
    if (!clock)
        return;
    assert_non_null(strstr(text, "us x 6        copy, 1 x 1 x 1 groups, 0 beside"));
    assert_non_null(strstr(text, "us x 3        copy, 1 x 2 x 1 groups, 2 beside"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies),
        cmocka_unit_test(rows_have_strides),
        cmocka_unit_test(pieces_go_and_come),
        cmocka_unit_test(a_write_behind_a_buffer_is_seen),
        cmocka_unit_test(a_tape_runs_again),
        cmocka_unit_test(stages_wait_for_the_host),
        cmocka_unit_test(pages_of_the_host_are_used_in_place),
        cmocka_unit_test(copies_beside_tapes),
        cmocka_unit_test(refusals_have_words),
        cmocka_unit_test(times_are_told_at_the_end),
    };
    aid_gpu_open(&g);
    printf("note: on %s\n", device_about(g.device)->name);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    aid_gpu_close(&g);
    return rc;
}
