/* Thinking and answer: each case gives the same however the text is cut. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/rng.h"
#include "text/reasoning.h"

static const struct {
    bool opened;
    const char *text, *thinking, *answer;
    enum reasoning_state ends;
} cases[] = {
    {true, "I think.\n</think>\n\nHello.", "I think.", "Hello.", REASONING_ANSWER},
    {true, "\n  a b \n\n c </think>x", "a b \n\n c", "x", REASONING_ANSWER},
    {true, "never closed\n", "never closed", "", REASONING_THINKING},
    {true, "a </thin b </think>\n", "a </thin b", "", REASONING_CLOSED},
    {true, "a </thi", "a </thi", "", REASONING_THINKING},
    {true, "</think>only", "", "only", REASONING_ANSWER},
    {true, "", "", "", REASONING_THINKING},
    {true, "<tool_call>in thought</think>y", "<tool_call>in thought", "y", REASONING_ANSWER},
    {false, "Hello <think>no</think>", "", "Hello <think>no</think>", REASONING_ANSWER},
    {false, "\n<think>\nyes\n</think>\n\nan answer\n", "yes", "an answer\n", REASONING_ANSWER},
    {false, "  plain", "", "  plain", REASONING_ANSWER},
    {false, "<thi", "", "<thi", REASONING_ANSWER},
    {false, "<thinking> is good", "", "<thinking> is good", REASONING_ANSWER},
    {false, " ", "", " ", REASONING_ANSWER},
    {true, "a</think></think>b", "a", "</think>b", REASONING_ANSWER},
    {true, "\xC3\xA9\n</think>\xE2\x82\xAC", "\xC3\xA9", "\xE2\x82\xAC", REASONING_ANSWER},
};

/* Cut by the bits of `cuts`, or where a random number says. */
static void check(size_t i, uint64_t seed)
{
    const char *text = cases[i].text;
    size_t len = strlen(text), at = 0;
    struct buf thinking = BUF_INIT, answer = BUF_INIT;
    struct reasoning r;
    reasoning_init(&r, cases[i].opened);
    for (uint64_t k = 0; at < len; k++) {
        size_t n = seed ? 1 + rng_at(seed, k) % 5 : 1;
        n = n < len - at ? n : len - at;
        reasoning_push(&r, text + at, n, &thinking, &answer);
        at += n;
    }
    reasoning_finish(&r, &thinking, &answer);
    assert_string_equal(buf_str(&thinking), cases[i].thinking);
    assert_string_equal(buf_str(&answer), cases[i].answer);
    assert_int_equal(r.state, cases[i].ends);
    reasoning_free(&r);
    buf_free(&thinking);
    buf_free(&answer);
}

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint64_t seed = 0; seed < 40; seed++)
            check(i, seed);
}

/* Of an answer that max_tokens cut in the middle of the tag, "</thin" was shown as thought. */
static void test_what_a_cut_leaves_of_a_tag_is_dropped(void **state)
{
    static const struct {
        bool opened;
        const char *text, *thinking, *answer;
    } all[] = {{true, "Hm.\n</thin", "Hm.", ""},       {true, "Hm.\n<", "Hm.", ""},
               {true, "a </thinks", "a </thinks", ""}, {false, "<thi", "", ""},
               {false, "<thing", "", "<thing"},        {false, "<think>a</think>\n<", "a", "<"}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct buf thinking = BUF_INIT, answer = BUF_INIT;
        struct reasoning r;
        reasoning_init(&r, all[i].opened);
        reasoning_push(&r, all[i].text, strlen(all[i].text), &thinking, &answer);
        reasoning_cut(&r);
        reasoning_finish(&r, &thinking, &answer);
        assert_string_equal(buf_str(&thinking), all[i].thinking);
        assert_string_equal(buf_str(&answer), all[i].answer);
        reasoning_free(&r);
        buf_free(&thinking);
        buf_free(&answer);
    }
}

/* Text that cannot be a mark comes out at once. */
static void test_nothing_certain_is_held(void **state)
{
    (void)state;
    struct buf thinking = BUF_INIT, answer = BUF_INIT;
    struct reasoning r;
    reasoning_init(&r, true);
    reasoning_push(&r, "one two", 7, &thinking, &answer);
    assert_string_equal(buf_str(&thinking), "one two");
    reasoning_push(&r, " \n</th", 6, &thinking, &answer);
    assert_string_equal(buf_str(&thinking), "one two");
    reasoning_push(&r, "ree", 3, &thinking, &answer);
    assert_string_equal(buf_str(&thinking), "one two \n</three");
    reasoning_push(&r, "</think>\n\nA <", 13, &thinking, &answer);
    assert_string_equal(buf_str(&answer), "A <");
    reasoning_free(&r);
    buf_free(&thinking);
    buf_free(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_what_a_cut_leaves_of_a_tag_is_dropped),
        cmocka_unit_test(test_nothing_certain_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
