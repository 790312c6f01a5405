/* Readers against a file's known bytes: io_uring, threads, and both with faults in front, at
 * several depths; ends of files, missing files, and closing with reads in flight. */
#include "tests/aid_test.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/rng.h"
#include "stream/reader.h"

enum { BLOCKS = 90, TAIL = 123, SIZE = BLOCKS * READER_ALIGN + TAIL, UNIT = 4 * READER_ALIGN };

struct place {
    char *dir;
    char *path;     /* of a file in it ... */
    uint8_t *bytes; /* ... that holds these */
};

static int setup(void **state)
{
    static struct place p;
    p.dir = aid_tmpdir();
    p.bytes = mem_alloc(SIZE);
    assert_non_null(p.bytes);
    for (size_t i = 0; i < SIZE; i++)
        p.bytes[i] = (uint8_t)rng_at(11, i);
    p.path = file_join(p.dir, "data");
    assert_non_null(p.path);
    aid_write(p.path, p.bytes, SIZE);
    *state = &p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    aid_rmdir(p->dir);
    mem_free(p->path);
    mem_free(p->bytes);
    return 0;
}

/* "io_uring", "pread", or either with "+faults"; NULL where the system has none. */
static struct reader *open_reader(const char *name, int depth)
{
    struct err e = {0};
    struct reader *r = NULL, *outer;
    bool uring = strncmp(name, "io_uring", 8) == 0;
    int rc = uring ? reader_uring_open(depth, &r, &e) : reader_pread_open(depth, &r, &e);
    if (rc == -E_UNSUPPORTED) {
        printf("note: %s\n", e.msg);
        return NULL;
    }
    assert_int_equal(rc, 0);
    assert_int_equal(r->depth, depth);
    if (!strstr(name, "+faults"))
        return r;
    const struct reader_faults f = {
        .seed = 5, .delay = 3, .shorten = 2, .interrupt = 4, .reorder = true};
    assert_ok(reader_fault_open(r, &f, &outer, NULL, &e), e);
    return outer;
}

static const char *const readers[] = {"io_uring", "pread", "io_uring+faults", "pread+faults"};
enum { N_READERS = sizeof readers / sizeof *readers };

struct piece {
    bool busy;
    uint64_t off;
    size_t len, want;
};

static void check_piece(const struct place *p, const struct read_result *x, struct piece *piece,
                        const uint8_t *got)
{
    assert_true(piece->busy);
    piece->busy = false;
    assert_int_equal(x->error, 0);
    assert_memory_equal(got, p->bytes + piece->off, piece->want);
}

/* 300 random reads of 1 to 4 blocks, as many in flight as may be. */
static void read_randomly(const struct place *p, struct reader *r)
{
    struct err e = {0};
    struct os_pages pages;
    struct piece piece[READER_DEPTH_MAX] = {{0}};
    int file, n_flight = 0;
    assert_ok(os_pages_take((size_t)r->depth * UNIT, &pages, &e), e);
    assert_ok(r->ops->add(r, p->path, &file, &e), e);
    for (int k = 0; k < 300 || n_flight;) {
        for (int i = 0; i < r->depth && k < 300; i++) {
            if (piece[i].busy)
                continue;
            size_t n = 1 + (size_t)(rng_at(3, (uint64_t)k) % 4);
            uint64_t block = rng_at(4, (uint64_t)k++) % (BLOCKS + 1);
            uint64_t left = SIZE - block * READER_ALIGN;
            piece[i] = (struct piece){true, block * READER_ALIGN, n * READER_ALIGN, 0};
            piece[i].want = left < piece[i].len ? (size_t)left : piece[i].len;
            r->ops->submit(r,
                           &(struct read_request){file, piece[i].off, pages.data + (size_t)i * UNIT,
                                                  piece[i].len, piece[i].want, &piece[i]});
            n_flight++;
        }
        struct read_result got[8];
        int n = r->ops->collect(r, true, got, 8);
        assert_true(n >= 1);
        n_flight -= n;
        for (int i = 0; i < n; i++) {
            struct piece *x = got[i].user;
            check_piece(p, &got[i], x, pages.data + (size_t)(x - piece) * UNIT);
        }
    }
    assert_int_equal(r->ops->collect(r, true, &(struct read_result){0}, 1), 0);
    r->ops->close(r);
    os_pages_free(&pages);
}

static void test_bytes(void **state)
{
    for (int i = 0; i < N_READERS; i++)
        for (int depth = 1; depth <= 16; depth *= 4) {
            struct reader *r = open_reader(readers[i], depth);
            if (r)
                read_randomly(*state, r);
        }
}

static void test_ends_and_absences(void **state)
{
    const struct place *p = *state;
    uint8_t *to = mem_aligned(READER_ALIGN, UNIT);
    assert_non_null(to);
    for (int i = 0; i < N_READERS; i++) {
        struct err e = {0};
        int file;
        struct read_result got;
        struct reader *r = open_reader(readers[i], 2);
        if (!r)
            continue;
        assert_int_equal(r->ops->add(r, "build/nothing", &file, &e), -E_NOTFOUND);
        assert_non_null(strstr(e.msg, "nothing"));
        err_clear(&e);
        assert_ok(r->ops->add(r, p->path, &file, &e), e);
        const struct read_request past[] = {
            {file, BLOCKS * READER_ALIGN, to, READER_ALIGN, TAIL + 1, to},
            {file, (BLOCKS - 1) * READER_ALIGN, to, UNIT, READER_ALIGN + TAIL + 1, to},
            {file, (BLOCKS + 5) * READER_ALIGN, to, READER_ALIGN, 1, to}};
        for (size_t k = 0; k < sizeof past / sizeof *past; k++) {
            r->ops->submit(r, &past[k]);
            assert_int_equal(r->ops->collect(r, true, &got, 1), 1);
            assert_ptr_equal(got.user, to);
            assert_int_equal(got.error, EIO);
        }
        r->ops->close(r);
    }
    mem_free(to);
}

static void test_close_with_reads_in_flight(void **state)
{
    const struct place *p = *state;
    uint8_t *to = mem_aligned(READER_ALIGN, (size_t)16 * UNIT);
    assert_non_null(to);
    for (int i = 0; i < N_READERS; i++) {
        struct err e = {0};
        int file;
        struct reader *r = open_reader(readers[i], 16);
        if (!r)
            continue;
        assert_ok(r->ops->add(r, p->path, &file, &e), e);
        for (int k = 0; k < 16; k++)
            r->ops->submit(r,
                           &(struct read_request){file, 0, to + (size_t)k * UNIT, UNIT, UNIT, to});
        r->ops->close(r);
    }
    mem_free(to);
}

/* Where a read goes on after so many bytes came. */
static void test_advance(void **state)
{
    (void)state;
    static const struct {
        size_t want, got, n;
        bool more;
        size_t then;
    } cases[] = {
        {8192, 0, 8192, true, 8192}, /* all */
        {8192, 0, 4096, true, 4096},    {8192, 4096, 4096, true, 8192},
        {8192, 0, 5000, true, 4096},    /* the second block again */
        {8192, 4096, 100, false, 4096}, /* the file ends inside it */
        {8192, 0, 0, false, 0},         /* or before it */
        {4196, 4096, 100, true, 4196},  /* as far as wanted */
        {4196, 4096, 4096, true, 8192}, /* and beyond */
        {4196, 0, 4100, true, 4096},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t got = cases[i].got;
        struct read_request q = {.len = 8192, .want = cases[i].want};
        assert_int_equal(reader_advance(&q, &got, cases[i].n), cases[i].more);
        assert_int_equal(got, cases[i].then);
    }
}

static void test_the_one_asked_for(void **state)
{
    (void)state;
    struct err e = {0};
    struct reader *r;
    assert_ok(reader_open(ENGINE_READS_PREAD, 3, &r, &e), e);
    assert_string_equal(r->ops->name, "pread");
    r->ops->close(r);
    assert_ok(reader_open(ENGINE_READS_AUTO, 3, &r, &e), e);
    printf("note: this system reads by %s\n", r->ops->name);
    bool uring = strcmp(r->ops->name, "io_uring") == 0;
    r->ops->close(r);
    int rc = reader_open(ENGINE_READS_URING, 3, &r, &e);
    assert_int_equal(rc, uring ? 0 : -E_UNSUPPORTED);
    if (!rc)
        r->ops->close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_ends_and_absences),
        cmocka_unit_test(test_close_with_reads_in_flight),
        cmocka_unit_test(test_advance),
        cmocka_unit_test(test_the_one_asked_for),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
