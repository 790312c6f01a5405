/* How many drafts: on machines that are made up, the depth with most tokens a second is found, and
 * found again when machine or text change. */
#include "tests/aid_test.h"

#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "runner/pace.h"

/* A step of R rows takes base + R * row seconds, a draft of the head head seconds for each; drafts
 * are right with this chance each. */
struct machine {
    double base, row, head, chance;
};

static double step_time(const struct machine *m, int together, int depth)
{
    return m->base + together * (1 + depth) * m->row;
}

/* Rate of a depth, by the definition. */
static double true_rate(const struct machine *m, int together, int depth)
{
    double tokens = 0;
    for (int d = 0; d <= depth; d++)
        tokens += pow(m->chance, d);
    return together * tokens / (step_time(m, together, depth) + together * depth * m->head);
}

/* One round as the drafter would: returns the depth taken. */
static int play(struct pace *p, const struct machine *m, int together, uint64_t round)
{
    double rate;
    int d = pace_depth(p, DRAFT_HEAD, together, 3, &rate);
    const int detour = pace_detour(p, 3);
    d = detour >= 0 ? detour : d;
    const double noise = 1 + 0.1 * rng_unit_at(1, round);
    if (d)
        pace_drafted(p, d, d * m->head * noise);
    pace_stepped(p, together * (1 + d), step_time(m, together, d) * noise);
    for (int i = 0; i < together; i++) {
        int right = 0;
        while (right < d && rng_unit_at(2 + (uint64_t)i, 4 * round + (uint64_t)right) < m->chance)
            right++;
        pace_verified(p, DRAFT_HEAD, d, right);
    }
    return d;
}

static void test_finds_the_best(void **state)
{
    (void)state;
    static const struct machine machines[] = {
        {1, 0.05, 0.02, .9},  /* rows are cheap: all */
        {1, 0.05, 0.02, .02}, /* drafts are wrong: none */
        {0, 1, 0.1, .9},      /* a row costs as much as a step: none */
        {1, 0.35, 0.1, .6},   /* between */
    };
    double lost = 0;
    for (size_t i = 0; i < 4; i++)
        for (int together = 1; together <= 16; together *= 4) {
            struct pace p;
            double best = 0, got = 0;
            pace_init(&p);
            for (int d = 0; d <= 3; d++)
                best = fmax(best, true_rate(&machines[i], together, d));
            for (uint64_t r = 0; r < 400; r++) {
                int d = play(&p, &machines[i], together, r);
                got += r < 100 ? 0 : true_rate(&machines[i], together, d) / 300;
            }
            lost = fmax(lost, 1 - got / best);
        }
    printf("worst: %.1f %% of the best rate lost, bound 5 %%\n", 100 * lost);
    assert_true(lost < 0.05);
}

/* A text that becomes hard, and easy again. */
static void test_follows_the_text(void **state)
{
    (void)state;
    struct machine m = {1, 0.1, 0.05, .95};
    struct pace p;
    uint64_t r = 0;
    int sum[3] = {0};
    pace_init(&p);
    for (int phase = 0; phase < 3; phase++) {
        m.chance = phase == 1 ? .03 : .95;
        for (int i = 0; i < 400; i++, r++) {
            const int d = play(&p, &m, 1, r);
            sum[phase] += i < 250 ? 0 : d;
        }
    }
    printf("note: mean depth %.2f, %.2f, %.2f\n", sum[0] / 150., sum[1] / 150., sum[2] / 150.);
    assert_true(sum[1] < sum[0] / 2 && sum[1] < sum[2] / 2);
}

/* One slow step, as when another program ran, decides nothing. */
static void test_outlier(void **state)
{
    (void)state;
    const struct machine m = {1, 0.1, 0.05, .95};
    struct pace p;
    double rate;
    pace_init(&p);
    pace_stepped(&p, 3, 1000);
    for (uint64_t r = 0; r < 60; r++)
        play(&p, &m, 1, r);
    pace_stepped(&p, 4, 1000);
    assert_int_equal(pace_depth(&p, DRAFT_HEAD, 1, 3, &rate), 3);
    assert_int_equal(pace_depth(&p, DRAFT_HEAD, 1, 0, &rate), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_the_best),
        cmocka_unit_test(test_follows_the_text),
        cmocka_unit_test(test_outlier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
