/* Engine "reference": the saves it refuses, and that a refusal changes nothing. (That saves restore
 * every bit: test_reference_steps.) */
#include "tests/aid_test.h"

#include <string.h>
#include <xxhash.h>

#include "tests/aid_reference.h"

#define MICRO GOLDENS "micro/mlx4"

static void expect_refusal(struct bench *b, const struct buf *bytes, int code, const char *words)
{
    struct err e = {0};
    struct buf before = BUF_INIT;
    bench_save(b, &before);
    assert_int_equal(b->g->ops->restore(b->g, b->seq, bytes->data, bytes->len, &e), -code);
    if (!strstr(e.msg, words))
        fail_msg("\"%s\" does not say \"%s\"", e.msg, words);
    bench_same_save(b, &before);
    buf_free(&before);
}

/* The checksum of changed bytes made right again: what a forger or a bug in the writer would do. */
static void seal(struct buf *b)
{
    uint64_t sum = XXH3_64bits(b->data, b->len - 8);
    memcpy(b->data + b->len - 8, &sum, 8);
}

static void test_damaged_saves(void **state)
{
    struct bench b;
    struct buf good = BUF_INIT, bad = BUF_INIT;
    (void)state;
    bench_open(&b, MICRO, &bench_defaults);
    bench_feed(&b, 9);
    bench_save(&b, &good);
    bench_feed(&b, 3);
    for (size_t n = 0; n < good.len; n += n < 64 ? 1 : 4099) { /* cut anywhere */
        buf_clear(&bad);
        buf_add(&bad, good.data, n);
        expect_refusal(&b, &bad, E_FORMAT, "saved sequence");
    }
    buf_clear(&bad);
    buf_add(&bad, good.data, good.len);
    buf_putc(&bad, 'x'); /* too long */
    expect_refusal(&b, &bad, E_FORMAT, "damaged: it has");
    buf_clear(&bad);
    buf_add(&bad, good.data, good.len); /* it said "604080 bytes of 604080, or a wrong checksum" */
    bad.data[good.len / 2] = (char)(bad.data[good.len / 2] ^ 1);
    expect_refusal(&b, &bad, E_FORMAT, "bytes do not have their checksum");
    for (size_t i = 0; i < good.len; i += i < 64 ? 1 : 2053) { /* a flipped bit anywhere */
        buf_clear(&bad);
        buf_add(&bad, good.data, good.len);
        bad.data[i] = (char)(bad.data[i] ^ 4);
        expect_refusal(&b, &bad, E_FORMAT, "saved sequence");
    }
    buf_free(&good);
    buf_free(&bad);
    bench_close(&b);
}

static void test_forged_saves(void **state)
{
    static const struct {
        size_t at; /* a 32-bit number of the header or the first token */
        uint32_t value;
        int code;
        const char *words;
    } forged[] = {
        {8, 2, E_FORMAT, "version 2"},
        {12, BENCH_CTX + 1, E_LIMIT, "holds 40"},
        {12, 0xFFFFFFFF, E_LIMIT, "holds 40"},
        {12, 8, E_FORMAT, "bytes, want"},
        {16, 0, E_FORMAT, "another model"},
        {32, 0xFFFFFFFF, E_FORMAT, "vocabulary"},
        {32 + 8 * 4, 512, E_FORMAT, "vocabulary"},
    };
    struct bench b;
    struct buf good = BUF_INIT, bad = BUF_INIT;
    (void)state;
    bench_open(&b, MICRO, &bench_defaults);
    bench_feed(&b, 9);
    bench_save(&b, &good);
    for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
        buf_clear(&bad);
        buf_add(&bad, good.data, good.len);
        memcpy(bad.data + forged[i].at, &forged[i].value, 4);
        seal(&bad);
        expect_refusal(&b, &bad, forged[i].code, forged[i].words);
    }
    buf_free(&good);
    buf_free(&bad);
    bench_close(&b);
}

/* A save belongs to its model and to the options that change values or what is in it. */
static void test_foreign_saves(void **state)
{
    static const struct engine_options others[] = {
        {.mtp_norm = -1, .drafts = false},
        {.mtp_norm = MTP_NORM_ALL, .drafts = true},
        {.mtp_norm = -1, .drafts = true, .expert_bits = 3},
    };
    struct bench b, other;
    struct buf good = BUF_INIT;
    (void)state;
    bench_open(&b, MICRO, &bench_defaults);
    bench_feed(&b, 5);
    bench_save(&b, &good);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        bench_open(&other, MICRO, &others[i]);
        expect_refusal(&other, &good, E_FORMAT, "another model");
        bench_close(&other);
    }
    bench_open(&other, GOLDENS "v-silu/mlx4", &bench_defaults);
    expect_refusal(&other, &good, E_FORMAT, "another model");
    bench_close(&other);
    bench_open(&other, GOLDENS "micro/bf16", &bench_defaults); /* same shapes, other values */
    expect_refusal(&other, &good, E_FORMAT, "another model");
    bench_close(&other);
    const struct engine_options same = {
        .expert_bits = 4, .mtp_norm = MTP_NORM_STREAM, .drafts = true};
    struct err e = {0};
    bench_open(&other, MICRO, &same); /* what the defaults mean, said in full */
    assert_ok(other.g->ops->restore(other.g, other.seq, good.data, good.len, &e), e);
    bench_close(&other);
    buf_free(&good);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_saves),
        cmocka_unit_test(test_forged_saves),
        cmocka_unit_test(test_foreign_saves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
