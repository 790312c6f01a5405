/* Saves and steps for many, through the public interface on the packed demonstration model, with
 * every engine there is. */
#include "tests/aid_demo.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/mem.h"
#include "cherenkov.h"
#include "runner/engines.h"
#include "tests/aid_cpu.h"

static char *folder, *store, *path;

static int setup(void **state)
{
    (void)state;
    folder = aid_demo_pack();
    store = file_join(folder, "packed");
    path = file_join(folder, "save");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mem_free(path);
    mem_free(store);
    aid_rmdir(folder);
    return 0;
}

static cherenkov *open_with(int engine, int drafts)
{
    cherenkov *m = NULL;
    const cherenkov_options o = {.size = sizeof o,
                                 .engine = aid_engine_at(engine)->name,
                                 .max_ctx = 128,
                                 .sequences = 8,
                                 .drafts = drafts};
    if (cherenkov_open(store, &o, &m))
        fail_msg("%s", cherenkov_error(NULL));
    return m;
}

static cherenkov_sequence *open_sequence(cherenkov *m, uint64_t seed)
{
    cherenkov_sequence *s = NULL;
    const cherenkov_sampling o = {
        .size = sizeof o, .temperature = seed ? .9 : 0, .top_p = 1, .seed = seed};
    if (cherenkov_sequence_open(m, &o, &s))
        fail_msg("%s", cherenkov_error(m));
    return s;
}

#define OK(call, m)                                                                                \
    do {                                                                                           \
        if (call)                                                                                  \
            fail_msg("%s: %s", #call, cherenkov_error(m));                                         \
    } while (0)

#define REFUSED(call, m, words)                                                                    \
    do {                                                                                           \
        assert_true((call) < 0);                                                                   \
        if (!strstr(cherenkov_error(m), words))                                                    \
            fail_msg("%s: %s", #call, cherenkov_error(m));                                         \
    } while (0)

static void answer(cherenkov *m, cherenkov_sequence *s, int n, struct buf *out)
{
    const char *text = "";
    while (n-- > 0 && text) {
        OK(cherenkov_next(s, &text), m);
        buf_puts(out, text ? text : "");
    }
}

/* --- many --- */

enum { MANY = 5, LONG = 12 };

static const char *const openings[MANY] = {"Once upon a time", "The king", "A fox said to the",
                                           "Hello!", "There was"};

static void feed(cherenkov *m, cherenkov_sequence *s, int i)
{
    if (i == 3)
        OK(cherenkov_feed_chat(s, "user", openings[i]), m);
    else
        OK(cherenkov_feed(s, openings[i]), m);
}

/* Together and alone, with drafts and without: the same texts, as far as both go. */
static void test_many(void **state)
{
    (void)state;
    for (int engine = 0; aid_engine_at(engine); engine++) {
        struct buf alone[MANY] = {BUF_INIT}, together[MANY] = {BUF_INIT};
        cherenkov *m = open_with(engine, -1);
        for (int i = 0; i < MANY; i++) {
            cherenkov_sequence *s = open_sequence(m, (uint64_t)(i % 2));
            feed(m, s, i);
            answer(m, s, 4 * LONG, &alone[i]);
            cherenkov_sequence_close(s);
        }
        cherenkov_close(m);
        m = open_with(engine, 3);
        cherenkov_sequence *s[MANY];
        for (int i = 0; i < MANY; i++) {
            s[i] = open_sequence(m, (uint64_t)(i % 2));
            feed(m, s[i], i);
        }
        for (int round = 0; round < LONG; round++) {
            const char *texts[MANY];
            OK(cherenkov_next_many(s, round < 3 ? 3 : MANY, texts), m);
            for (int i = 0; i < (round < 3 ? 3 : MANY); i++)
                buf_puts(&together[i], texts[i] ? texts[i] : "");
        }
        answer(m, s[0], 2, &together[0]); /* and on alone */
        for (int i = 0; i < MANY; i++) {
            assert_true(together[i].len > 8);
            if (strncmp(buf_str(&alone[i]), buf_str(&together[i]), together[i].len) != 0)
                fail_msg("%s: '%s' alone, '%s' together", openings[i], buf_str(&alone[i]),
                         buf_str(&together[i]));
            cherenkov_sequence_close(s[i]);
            buf_free(&alone[i]);
            buf_free(&together[i]);
        }
        cherenkov_close(m);
    }
}

static void test_many_misuse(void **state)
{
    (void)state;
    cherenkov *m = open_with(0, 0);
    cherenkov_sequence *s[2] = {open_sequence(m, 0), NULL};
    const char *texts[2];
    REFUSED(cherenkov_next_many(NULL, 1, texts), NULL, "want 1 to 16");
    REFUSED(cherenkov_next_many(s, 0, texts), NULL, "want 1 to 16");
    REFUSED(cherenkov_next_many(s, 17, texts), m, "want 1 to 16");
    REFUSED(cherenkov_next_many(s, 1, NULL), m, "room for texts");
    REFUSED(cherenkov_next_many(s, 2, texts), m, "sequence 1 is not one");
    s[1] = s[0];
    REFUSED(cherenkov_next_many(s, 2, texts), m, "the same one");
    s[1] = open_sequence(m, 0);
    OK(cherenkov_feed(s[1], "Once"), m);
    REFUSED(cherenkov_next_many(s, 2, texts), m, "nothing was fed");
    assert_null(texts[0]);
    assert_non_null(texts[1]); /* and the other went on */
    cherenkov_sequence_close(s[0]);
    cherenkov_sequence_close(s[1]);
    cherenkov_close(m);
}

/* --- saves --- */

/* Saved anywhere in an answer, with drafts on or off, restored in another process's place (another
 * model of the same store): the text goes on as it would have. */
static void test_text_goes_on(void **state)
{
    (void)state;
    for (int engine = 0; aid_engine_at(engine); engine++) {
        struct buf whole = BUF_INIT, parts = BUF_INIT;
        cherenkov *m = open_with(engine, 2), *other = open_with(engine, 2);
        cherenkov_sequence *s = open_sequence(m, 7);
        OK(cherenkov_feed(s, "The king said"), m);
        answer(m, s, 18, &whole);
        cherenkov_sequence_close(s);
        for (int n = 0; n < 18; n += 7) {
            s = open_sequence(m, 7);
            buf_clear(&parts);
            OK(cherenkov_feed(s, "The king said"), m);
            answer(m, s, n, &parts);
            OK(cherenkov_sequence_save(s, path), m);
            cherenkov_sequence_close(s);
            s = open_sequence(other, 7);
            OK(cherenkov_sequence_restore(s, path), other);
            answer(other, s, 18 - n, &parts);
            assert_string_equal(buf_str(&parts), buf_str(&whole));
            cherenkov_sequence_close(s);
        }
        buf_free(&whole);
        buf_free(&parts);
        cherenkov_close(m);
        cherenkov_close(other);
    }
}

/* A chat in memory: what was said is there, and a save of the restored one is the same bytes. */
static void test_chat_in_memory(void **state)
{
    (void)state;
    cherenkov *m = open_with(0, 0);
    struct buf save = BUF_INIT, one = BUF_INIT, two = BUF_INIT;
    const void *data;
    const char *text;
    size_t n;
    cherenkov_sequence *s = open_sequence(m, 0), *t = open_sequence(m, 0);
    OK(cherenkov_feed_chat(s, "system", "Be kind."), m);
    OK(cherenkov_feed_chat(s, "user", "Hello!"), m);
    answer(m, s, 5, &one); /* the answer ends here */
    OK(cherenkov_sequence_save_memory(s, &data, &n), m);
    buf_add(&save, data, n);
    OK(cherenkov_feed(t, "something else"), m);
    answer(m, t, 3, &two);
    OK(cherenkov_sequence_restore_memory(t, save.data, save.len), m);
    REFUSED(cherenkov_next(t, &text), m, "nothing was fed"); /* as in s */
    REFUSED(cherenkov_next(s, &text), m, "nothing was fed");
    OK(cherenkov_sequence_save_memory(t, &data, &n), m);
    assert_int_equal(n, save.len);
    assert_memory_equal(data, save.data, n);
    OK(cherenkov_feed_chat(s, "user", "Yes."), m);
    OK(cherenkov_feed_chat(t, "user", "Yes."), m);
    /* a question that waits for its answer is saved as such */
    OK(cherenkov_sequence_save_memory(t, &data, &n), m);
    buf_clear(&save);
    buf_add(&save, data, n);
    OK(cherenkov_sequence_restore_memory(t, save.data, save.len), m);
    buf_clear(&one);
    buf_clear(&two);
    answer(m, s, 8, &one);
    answer(m, t, 8, &two);
    assert_true(one.len > 0);
    assert_string_equal(buf_str(&one), buf_str(&two));
    cherenkov_sequence_close(s);
    cherenkov_sequence_close(t);
    cherenkov_close(m);
    buf_free(&save);
    buf_free(&one);
    buf_free(&two);
}

static void seal(char *data, size_t n)
{
    const uint64_t sum = XXH3_64bits(data, n - 8);
    memcpy(data + n - 8, &sum, 8);
}

/* Whatever is wrong with a save, it is refused with the reason, and the sequence goes on. */
static void test_refused_saves(void **state)
{
    (void)state;
    cherenkov *m = open_with(0, 0), *plain = open_with(0, -1);
    struct buf good = BUF_INIT, one = BUF_INIT, two = BUF_INIT;
    const void *data;
    size_t n;
    cherenkov_sequence *s = open_sequence(m, 0), *t = open_sequence(m, 0);
    cherenkov_sequence *p = open_sequence(plain, 0);
    REFUSED(cherenkov_sequence_save(s, path), m, "nothing was fed");
    OK(cherenkov_feed(s, "Once upon a time"), m);
    answer(m, s, 3, &one);
    OK(cherenkov_sequence_save_memory(s, &data, &n), m);
    buf_add(&good, data, n);
    OK(cherenkov_feed(t, "Once upon a time"), m);
    answer(m, t, 3, &two);

    REFUSED(cherenkov_sequence_restore(t, "/no/such/save"), m, "/no/such/save");
    REFUSED(cherenkov_sequence_restore_memory(t, "cherenkov save2\n", 16), m, "version 1");
    for (size_t cut = 0; cut < good.len; cut += 1 + good.len / 37)
        REFUSED(cherenkov_sequence_restore_memory(t, good.data, cut), m, "save");
    for (size_t at = 0; at < good.len; at += 1 + (at > 100) * (good.len / 37)) {
        good.data[at] ^= 0x20;
        REFUSED(cherenkov_sequence_restore_memory(t, good.data, good.len), m, "save");
        good.data[at] ^= 0x20;
    }
    static const struct {
        size_t at;
        char byte;
        const char *words;
    } forged[] = {
        {24, 'X', "saved by the engine 'X"}, {39, 'x', "makes no sense"}, {40, 3, "makes no sense"},
        {44, 2, "makes no sense"},           {48, 1, "makes no sense"},   {56, 1, "makes no sense"},
        {83, 0x7f, "the model's ids are"},
    };
    for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
        const char kept = good.data[forged[i].at];
        good.data[forged[i].at] = forged[i].byte;
        seal(good.data, good.len);
        REFUSED(cherenkov_sequence_restore_memory(t, good.data, good.len), m, forged[i].words);
        good.data[forged[i].at] = kept;
    }
    seal(good.data, good.len);
    /* Options that change the state: with drafts it holds the head's part. */
    REFUSED(cherenkov_sequence_restore_memory(p, good.data, good.len), plain, "a save in memory");
    REFUSED(cherenkov_sequence_restore_memory(NULL, good.data, good.len), NULL, "NULL");
    REFUSED(cherenkov_sequence_save(s, "/no/such/folder/x"), m, "/no/such/folder");

    answer(m, s, 5, &one);
    answer(m, t, 5, &two); /* none of that did harm */
    assert_string_equal(buf_str(&one), buf_str(&two));
    cherenkov_sequence_close(s);
    cherenkov_sequence_close(t);
    cherenkov_sequence_close(p);
    cherenkov_close(m);
    cherenkov_close(plain);
    buf_free(&good);
    buf_free(&one);
    buf_free(&two);
}

/* A disk that fails at any operation: the file that was there is whole. */
static void test_failing_disk(void **state)
{
    (void)state;
    cherenkov *m = open_with(0, -1);
    cherenkov_sequence *s = open_sequence(m, 0);
    struct err e = {0};
    struct buf before = BUF_INIT, after = BUF_INIT;
    OK(cherenkov_feed(s, "Once upon"), m);
    OK(cherenkov_sequence_save(s, path), m);
    assert_ok(file_read_all(path, 1 << 26, &before, &e), e);
    OK(cherenkov_feed(s, " a time"), m);
    for (int kind = FILE_FAULT_WRITE; kind <= FILE_FAULT_RENAME; kind++) {
        file_fault_at((enum file_fault)kind, 1);
        assert_true(cherenkov_sequence_save(s, path) < 0);
        file_fault_at((enum file_fault)kind, 0);
        buf_clear(&after);
        assert_ok(file_read_all(path, 1 << 26, &after, &e), e);
        assert_int_equal(after.len, before.len);
        assert_memory_equal(after.data, before.data, after.len);
    }
    OK(cherenkov_sequence_restore(s, path), m);
    cherenkov_sequence_close(s);
    cherenkov_close(m);
    buf_free(&before);
    buf_free(&after);
}

/* Any allocation fails: an error, and save and sequence are still good. */
static void test_memory(void **state)
{
    (void)state;
    cherenkov *m = open_with(0, -1);
    cherenkov_sequence *s = open_sequence(m, 0), *t = open_sequence(m, 0);
    struct buf save = BUF_INIT;
    const void *data;
    size_t n;
    long count = 0;
    OK(cherenkov_feed_chat(s, "user", "Hello!"), m);
    for (int rc = -1; rc; count++) {
        mem_fail_at(1 + count);
        rc = cherenkov_sequence_save_memory(s, &data, &n);
        mem_fail_at(0);
    }
    buf_add(&save, data, n);
    for (int rc = -1, k = 1; rc; k++, count++) {
        mem_fail_at(k);
        rc = cherenkov_sequence_restore_memory(t, save.data, save.len);
        mem_fail_at(0);
    }
    assert_true(count > 6);
    OK(cherenkov_sequence_save_memory(t, &data, &n), m);
    assert_int_equal(n, save.len);
    assert_memory_equal(data, save.data, n);
    cherenkov_sequence_close(s);
    cherenkov_sequence_close(t);
    cherenkov_close(m);
    buf_free(&save);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many),          cmocka_unit_test(test_many_misuse),
        cmocka_unit_test(test_text_goes_on),  cmocka_unit_test(test_chat_in_memory),
        cmocka_unit_test(test_refused_saves), cmocka_unit_test(test_failing_disk),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
