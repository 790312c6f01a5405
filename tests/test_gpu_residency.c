/* Experts in device memory: random visits against a plain list of what must be there, the bytes of
 * every slot, and memory that the device refuses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "gpu/params.h"
#include "gpu/residency.h"
#include "tests/aid_gpu.h"
#include "tests/aid_test.h"

enum { LAYERS = 3, E = 16, RECORD = 1024, ALL = LAYERS * E };

static struct aid_gpu g;
static uint8_t records[ALL][RECORD]; /* what the host has */
static uint64_t source;              /* the same where the device sees it */

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < ALL; i++)
        for (int k = 0; k < RECORD; k++)
            records[i][k] = (uint8_t)rng_at(1, (uint64_t)(i * RECORD + k));
    source = aid_gpu_put(&g, records, sizeof records);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    aid_gpu_reset(&g);
    return 0;
}

static struct residency *open_slots(int slots)
{
    struct err e = {0};
    struct residency *r;
    struct residency_options o = {
        .n_layers = LAYERS, .E = E, .record_bytes = RECORD, .bytes = (uint64_t)slots * RECORD};
    assert_ok(residency_open(g.device, &o, &r, &e), e);
    return r;
}

/* The bytes at an address: copied to a buffer of the test, since slots are not its own. */
static void check_bytes(uint64_t address, int record)
{
    static uint64_t room;
    uint8_t got[RECORD];
    room = aid_gpu_room(&g, RECORD);
    struct copy_params p = {.from = address, .to = room, .words = RECORD / 4};
    aid_gpu_run(&g, aid_gpu_kernel(&g, "copy", NULL, 0), &p, sizeof p, (struct grid){1, 1, 1});
    aid_gpu_get(&g, room, got, RECORD);
    assert_memory_equal(got, records[record], RECORD);
    device_free(g.device, &g.buffers[--g.n]);
}

/* The model: records from the one used longest ago to the latest. */
struct model {
    int record[ALL], n, slots;
};

static void model_drop(struct model *m, int at)
{
    m->n--;
    memmove(m->record + at, m->record + at + 1, (size_t)(m->n - at) * sizeof m->record[0]);
}

static bool model_use(struct model *m, int record)
{
    bool had = false;
    for (int i = 0; i < m->n && !had; i++)
        if (m->record[i] == record) {
            model_drop(m, i);
            had = true;
        }
    if (!had && m->n == m->slots)
        model_drop(m, 0);
    m->record[m->n++] = record;
    return had;
}

static void random_visits(void **state)
{
    (void)state;
    struct residency *r = open_slots(7);
    struct model m = {.slots = 7};
    assert_int_equal(residency_slots(r), 7);
    assert_false(residency_holds_all(r));
    uint64_t draw = 0, found = 0;
    for (int v = 0; v < 60; v++) {
        int il = (int)(rng_at(2, draw++) % LAYERS), start = (int)(rng_at(2, draw++) % E);
        uint64_t at[5];
        residency_visit(r);
        aid_gpu_begin(&g);
        for (int k = 0; k < 5; k++) { /* distinct experts of a layer, often the same as before */
            int ie = (start % 4 + 3 * k) % E, record = il * E + ie;
            at[k] = residency_find(r, il, ie);
            assert_int_equal(at[k] != 0, model_use(&m, record));
            found += at[k] != 0;
            if (!at[k])
                at[k] =
                    residency_place(r, g.tape, il, ie, source + (uint64_t)record * RECORD, true);
            assert_int_not_equal(at[k], 0);
        }
        aid_gpu_end(&g);
        for (int k = 0; k < 5; k++)
            check_bytes(at[k], il * E + (start % 4 + 3 * k) % E);
    }
    const struct residency_counters *c = residency_counters(r);
    assert_int_equal(c->found, found);
    assert_int_equal(c->found + c->missed, 300);
    assert_int_equal(c->placed, c->missed);
    assert_int_equal(c->evicted, c->placed - 7);
    assert_true(found > 0);
    residency_close(r);
}

/* What a visit uses stays: the next record has to be used where it is. */
static void a_visit_keeps_what_it_uses(void **state)
{
    (void)state;
    struct residency *r = open_slots(3);
    residency_visit(r);
    aid_gpu_begin(&g);
    uint64_t at[4];
    for (int ie = 0; ie < 4; ie++)
        at[ie] = residency_place(r, g.tape, 1, ie, source + (uint64_t)(E + ie) * RECORD, true);
    aid_gpu_end(&g);
    assert_int_equal(at[3], 0);
    for (int ie = 0; ie < 3; ie++)
        check_bytes(at[ie], E + ie);
    residency_visit(r);
    assert_int_equal(residency_find(r, 1, 0), at[0]);
    aid_gpu_begin(&g);
    assert_int_equal(residency_place(r, g.tape, 1, 3, source + (uint64_t)(E + 3) * RECORD, true),
                     at[1]);
    aid_gpu_end(&g);
    assert_int_equal(residency_find(r, 1, 1), 0);
    check_bytes(at[1], E + 3);
    residency_forget(r);
    assert_int_equal(residency_find(r, 1, 0), 0);
    residency_close(r);
}

/* What is used once pushes out what is used once, and nothing else, when no slot is free. */
static void passing_records_leave_first(void **state)
{
    (void)state;
    struct residency *r = open_slots(4);
    for (int i = 0; i < 8; i++) { /* the fourth still gets a free slot */
        residency_visit(r);
        aid_gpu_begin(&g);
        uint64_t from = source + (uint64_t)i * RECORD;
        uint64_t at = residency_place(r, g.tape, i / E, i % E, from, i < 3);
        aid_gpu_end(&g);
        check_bytes(at, i);
    }
    for (int i = 0; i < 8; i++)
        assert_int_equal(residency_has(r, i / E, i % E), i == 1 || i == 2 || i == 3 || i == 7);
    residency_close(r);
}

/* The host's records as a buffer that copies beside tapes can name. */
static const struct device_buffer *as_buffer(void)
{
    for (int i = 0; i < g.n; i++)
        if (g.buffers[i].address == source)
            return &g.buffers[i];
    fail();
    return NULL;
}

static bool bring(struct residency *r, int record)
{
    return residency_bring(r, record / E, record % E, as_buffer(), (size_t)record * RECORD);
}

/* Brought beside the tapes: there for the next visit, in nobody's place that is used, and the first
 * to leave when it was for nothing. */
static void records_are_brought(void **state)
{
    (void)state;
    struct err e = {0};
    struct residency *r = open_slots(4);
    uint64_t value, at[4];
    residency_visit(r);
    aid_gpu_begin(&g);
    for (int i = 0; i < 4; i++)
        at[i] = residency_place(r, g.tape, 0, i, source + (uint64_t)i * RECORD, true);
    aid_gpu_end(&g);
    residency_visit(r);
    for (int i = 0; i < 2; i++) /* the visit's own */
        assert_int_equal(residency_find(r, 0, i), at[i]);
    assert_true(bring(r, E + 2) && bring(r, E + 3));
    assert_false(bring(r, E + 4)); /* two are the visit's, two are brought */
    assert_ok(residency_start(r, 0, &value, &e), e);
    residency_visit(r);
    at[2] = residency_find(r, 1, 2);
    residency_await(r);
    check_bytes(at[2], E + 2);
    assert_ok(device_wait_copied(g.device, value, &e), e);
    aid_gpu_begin(&g); /* what nobody asked for goes first, though it came last */
    at[3] = residency_place(r, g.tape, 1, 5, source + (uint64_t)(E + 5) * RECORD, true);
    aid_gpu_end(&g);
    assert_false(residency_has(r, 1, 3));
    assert_true(residency_has(r, 0, 0) && residency_has(r, 0, 1));
    check_bytes(at[0], 0);
    check_bytes(at[3], E + 5);
    assert_int_equal(residency_counters(r)->brought, 2);
    assert_int_equal(residency_counters(r)->brought_used, 1);
    assert_true(bring(r, 2 * E));
    assert_ok(residency_start(r, 0, &value, &e), e);
    residency_forget(r);
    assert_ok(device_wait_copied(g.device, value, &e), e);
    residency_close(r);
}

/* What leaves next can be copied elsewhere; until that is done it does not leave. */
static void what_leaves_is_known(void **state)
{
    (void)state;
    struct err e = {0};
    struct residency *r = open_slots(3);
    struct residency_record x[3];
    uint64_t value, at[3];
    residency_visit(r);
    aid_gpu_begin(&g);
    for (int i = 0; i < 2; i++)
        at[i] = residency_place(r, g.tape, 0, i, source + (uint64_t)i * RECORD, true);
    assert_int_equal(residency_leaving(r, 3, x), 0); /* there is a free slot */
    at[2] = residency_place(r, g.tape, 0, 2, source + 2 * RECORD, true);
    aid_gpu_end(&g);
    assert_int_equal(residency_leaving(r, 3, x), 0); /* all are used */
    residency_visit(r);
    assert_int_equal(residency_find(r, 0, 0), at[0]);
    assert_int_equal(residency_leaving(r, 3, x), 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(x[i].il * E + x[i].ie, i + 1);
        assert_int_equal(x[i].buffer->address + x[i].off, at[i + 1]);
    }
    uint64_t to = aid_gpu_room(&g, RECORD);
    const struct device_copy copy = {x[0].buffer, &g.buffers[g.n - 1], x[0].off, 0, RECORD};
    uint8_t got[RECORD];
    assert_ok(device_copy(g.device, &copy, 1, 0, &value, &e), e);
    residency_hold(r, x[0].slot, value + 1); /* of a copy that has not been started */
    aid_gpu_begin(&g);
    assert_int_equal(residency_place(r, g.tape, 1, 0, source + E * RECORD, true), at[2]);
    aid_gpu_end(&g);
    assert_true(residency_has(r, 0, 1));
    assert_ok(device_wait_copied(g.device, value, &e), e);
    aid_gpu_get(&g, to, got, RECORD);
    assert_memory_equal(got, records[1], RECORD);
    residency_close(r);
}

static void all_fit(void **state)
{
    (void)state;
    struct err e = {0};
    uint64_t at[ALL];
    struct residency *r = open_slots(ALL + 5);
    assert_true(residency_holds_all(r));
    for (int i = 0; i < ALL; i++)
        assert_ok(residency_load(r, i / E, i % E, records[i], &at[i], &e), e);
    for (int i = 0; i < ALL; i++)
        assert_int_equal(residency_find(r, i / E, i % E), at[i]);
    check_bytes(at[0], 0);
    check_bytes(at[ALL - 1], ALL - 1);
    residency_close(r);
}

static void too_little_is_refused(void **state)
{
    (void)state;
    struct err e = {0};
    struct residency *r;
    struct residency_options o = {
        .n_layers = LAYERS, .E = E, .record_bytes = RECORD, .bytes = RECORD - 1};
    assert_int_equal(residency_open(g.device, &o, &r, &e), -E_NOMEM);
    assert_null(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_visits),
        cmocka_unit_test(a_visit_keeps_what_it_uses),
        cmocka_unit_test(passing_records_leave_first),
        cmocka_unit_test(records_are_brought),
        cmocka_unit_test(what_leaves_is_known),
        cmocka_unit_test(all_fit),
        cmocka_unit_test(too_little_is_refused),
    };
    aid_gpu_open(&g);
    int rc = cmocka_run_group_tests(tests, setup, teardown);
    aid_gpu_close(&g);
    return rc;
}
