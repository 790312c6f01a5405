/* Kept states: an answer is the same to the bit cold, from memory and from disk, with any drafts;
 * files survive a restart, not a change; limits of bytes, entries, time and disk hold; a kill
 * leaves no file half-written; and turns keep their ids. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "server/prefix.h"
#include "server/saves.h"
#include "server/schedule.h"
#include "server/turns.h"
#include "tests/aid_cpu.h"

enum { CTX = 200, PROMPT = 90, BORDER = 70, SAID = 24 };

struct bench {
    struct aid_packed packed;
    struct model m;
};

static int set_up(void **state)
{
    static struct bench b;
    struct err e = {0};
    struct engine_options o = aid_run_defaults;
    o.n_sequences = 2;
    o.ctx = CTX;
    b = (struct bench){.m = {.ctx = CTX, .sample = SAMPLE_GREEDY, .drafts = true}};
    aid_packed_open(&b.packed, GOLDENS "micro/mlx4");
    b.m.weights = b.packed.w;
    pace_init(&b.m.pace);
    assert_ok(cpu_engine.open(&b.packed.w, &o, &b.m.engine, &e), e);
    *state = &b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    cpu_engine.close(b->m.engine);
    aid_packed_close(&b->packed);
    return 0;
}

struct said {
    int32_t ids[SAID];
    int n, n_cached;
};

static struct schedule *start(struct bench *b, const char *dir)
{
    struct err e = {0};
    struct schedule *s;
    const struct schedule_options o = {
        .sequences = 2, .draft = {.most = 3, .always = true}, .save_dir = dir};
    assert_ok(schedule_open(&b->m, &o, &s, &e), e);
    return s;
}

static void ask(struct schedule *s, const struct request *r, struct said *out)
{
    struct err e = {0};
    struct ticket *t;
    struct event v;
    *out = (struct said){0};
    assert_ok(schedule_submit(s, r, &t, &e), e);
    while (ticket_wait(t, 60, &v) && v.kind == EVENT_TOKEN)
        out->ids[out->n++] = v.id;
    assert_int_equal(v.kind, EVENT_END);
    assert_int_equal(v.ending->err.code, 0);
    out->n_cached = v.ending->n_cached;
    ticket_close(t);
}

static const int border = BORDER;

static struct request request_of(const struct bench *b, int32_t *ids, int drafts)
{
    aid_tokens(5, b->m.weights.config.vocab, PROMPT, ids);
    struct request r = {.prompt = ids, .n_prompt = PROMPT, .borders = &border, .n_borders = 1};
    r.sample = SAMPLE_GREEDY;
    r.sample.temperature = 0.8;
    r.sample.seed = 3;
    r.max_tokens = SAID;
    r.drafts = drafts;
    return r;
}

static void same(const struct said *got, const struct said *want, int n_cached)
{
    assert_int_equal(got->n, want->n);
    assert_memory_equal(got->ids, want->ids, sizeof got->ids);
    assert_int_equal(got->n_cached, n_cached);
}

static void test_cold_memory_disk(void **state)
{
    struct bench *b = *state;
    struct said want, got;
    int32_t ids[CTX];
    for (int drafts = 0; drafts <= 3; drafts++) {
        char *dir = aid_tmpdir();
        struct request r = request_of(b, ids, drafts);
        struct schedule *s = start(b, dir);
        ask(s, &r, &got);
        if (!drafts)
            want = got;
        same(&got, &want, 0);
        ask(s, &r, &got);
        same(&got, &want, BORDER);
        schedule_close(s);
        s = start(b, dir);
        struct schedule_stats stats;
        schedule_stats(s, &stats);
        assert_int_equal(stats.prefix_entries, 0);
        assert_true(stats.saved_entries >= 2); /* the border, and where the answer ended */
        ask(s, &r, &got);
        same(&got, &want, BORDER);
        schedule_close(s);
        aid_rmdir(dir);
    }
}

/* A turn that goes on from the answer begins where it ended, also after a restart. */
static void test_next_turn(void **state)
{
    struct bench *b = *state;
    struct said first, want, got;
    int32_t ids[CTX];
    char *dir = aid_tmpdir();
    struct request r = request_of(b, ids, 2);
    struct schedule *s = start(b, dir);
    ask(s, &r, &first);
    schedule_close(s);
    memcpy(ids + PROMPT, first.ids, sizeof first.ids);
    r.n_prompt = PROMPT + SAID + 5;
    aid_tokens(9, b->m.weights.config.vocab, 5, ids + PROMPT + SAID);
    s = start(b, dir);
    ask(s, &r, &got);
    r.fresh = true;
    ask(s, &r, &want);
    same(&want, &got, 0);
    assert_int_equal(got.n_cached, PROMPT + SAID - 1);
    schedule_close(s);
    aid_rmdir(dir);
}

struct damage {
    const char *dir;
    uint64_t at_end; /* bytes before the end of each file */
    int n;
};

static int damage_one(void *ctx, const char *name, struct err *e)
{
    struct damage *d = ctx;
    struct file f;
    char byte, *path = file_join(d->dir, name);
    assert_non_null(path);
    assert_ok(file_reopen(path, &f, e), *e);
    assert_ok(file_read_at(&f, f.size - d->at_end, &byte, 1, e), *e);
    byte ^= 4;
    assert_ok(file_write_at(&f, f.size - d->at_end, &byte, 1, e), *e);
    assert_ok(file_close(&f, e), *e);
    mem_free(path);
    d->n++;
    return 0;
}

/* Damage in the state is found when it is used, in what stands before it at the start. */
static void test_damaged_files(void **state)
{
    struct bench *b = *state;
    struct said want, got;
    int32_t ids[CTX];
    for (int in_head = 0; in_head <= 1; in_head++) {
        struct err e = {0};
        char *dir = aid_tmpdir();
        struct request r = request_of(b, ids, 1);
        struct schedule *s = start(b, dir);
        ask(s, &r, &want);
        schedule_close(s);
        struct damage d = {.dir = dir, .at_end = 1000};
        if (in_head) { /* in the first token */
            char *path = saves_path(dir, ids, BORDER);
            struct file f;
            assert_ok(file_open(path, &f, &e), e);
            d.at_end = f.size - 66;
            file_drop(&f);
            assert_ok(damage_one(&d, strrchr(path, '/') + 1, &e), e);
            mem_free(path);
        } else {
            assert_ok(file_each(dir, damage_one, &d, &e), e);
        }
        assert_true(d.n > 0);
        s = start(b, dir);
        ask(s, &r, &got);
        assert_int_equal(got.n, want.n);
        assert_memory_equal(got.ids, want.ids, sizeof got.ids);
        schedule_close(s);
        aid_rmdir(dir);
    }
}

/* --- limits --- */

/* A sequence whose states are kept, one after another, by hand. */
struct keeper {
    struct bench *b;
    struct prefix *p;
    struct sequence *seq;
    int32_t ids[CTX];
};

static void keeper_open(struct keeper *k, struct bench *b, const struct prefix_options *o)
{
    struct err e = {0};
    *k = (struct keeper){.b = b};
    aid_tokens(7, b->m.weights.config.vocab, CTX, k->ids);
    assert_ok(prefix_open(&b->m, o, &k->p, &e), e);
    assert_ok(cpu_engine.sequence_open(b->m.engine, CTX, &k->seq, &e), e);
}

static void keeper_close(struct keeper *k)
{
    cpu_engine.sequence_close(k->seq);
    prefix_close(k->p);
}

static void feed(struct keeper *k, int n)
{
    struct err e = {0};
    struct engine *g = k->b->m.engine;
    cpu_engine.sequence_reset(k->seq);
    for (int i = 0, some; i < n; i += some) {
        some = n - i < g->chunk ? n - i : g->chunk;
        assert_ok(cpu_engine.prefill(g, k->seq, k->ids + i, some, NULL, &e), e);
    }
}

/* Keeps the state of the first n tokens. */
static void keep(struct keeper *k, int n)
{
    feed(k, n);
    prefix_keep(k->p, k->ids, n, k->seq);
}

static uint64_t state_bytes(struct keeper *k, int n)
{
    struct err e = {0};
    struct buf state = BUF_INIT;
    feed(k, n);
    assert_ok(cpu_engine.save(k->b->m.engine, k->seq, &state, &e), e);
    const uint64_t bytes = state.len;
    buf_free(&state);
    return bytes;
}

static void expect(struct keeper *k, int entries, int files, int longest)
{
    struct prefix_stats s;
    prefix_stats(k->p, &s);
    assert_int_equal(s.entries, entries);
    assert_int_equal(s.files, files);
    assert_int_equal(prefix_longest(k->p, k->ids, CTX), longest);
}

/* The longest unused go, by number and by bytes; what is shorter than worth it is not kept. */
static void test_entry_and_byte_limits(void **state)
{
    struct keeper k;
    struct prefix_options o = {.bytes = UINT64_MAX, .entries = 2, .idle_s = 900, .tokens_min = 16};
    keeper_open(&k, *state, &o);
    keep(&k, 15);
    expect(&k, 0, 0, 0);
    keep(&k, 40);
    keep(&k, 30);
    expect(&k, 2, 0, 40); /* 40 is used */
    keep(&k, 20);
    expect(&k, 2, 0, 40);
    assert_int_equal(prefix_longest(k.p, k.ids, 40), 20); /* so 30 went */
    const uint64_t two = 2 * state_bytes(&k, 40);
    keeper_close(&k);
    o.entries = 16;
    o.bytes = two;
    keeper_open(&k, *state, &o);
    keep(&k, 30);
    keep(&k, 40);
    expect(&k, 2, 0, 40);
    keep(&k, 20);
    expect(&k, 2, 0, 40);
    assert_int_equal(prefix_longest(k.p, k.ids, 40), 20);
    struct prefix_stats s;
    prefix_stats(k.p, &s);
    assert_true(s.bytes <= o.bytes);
    keeper_close(&k);
}

/* Once that is known, none so long is made again, nor drives anything out. */
static void test_a_state_that_never_fits(void **state)
{
    struct keeper k;
    struct prefix_options o = {.bytes = UINT64_MAX, .entries = 16, .idle_s = 900, .tokens_min = 16};
    keeper_open(&k, *state, &o);
    o.bytes = state_bytes(&k, 40);
    keeper_close(&k);
    keeper_open(&k, *state, &o);
    keep(&k, 150);
    expect(&k, 0, 0, 0);
    keep(&k, 40);
    keep(&k, 160);
    expect(&k, 1, 0, 40);
    keeper_close(&k);
}

static void test_idle_entries_go(void **state)
{
    struct keeper k;
    struct prefix_stats s;
    const struct prefix_options o = {
        .bytes = UINT64_MAX, .entries = 16, .idle_s = 1e-3, .tokens_min = 16};
    keeper_open(&k, *state, &o);
    keep(&k, 40);
    expect(&k, 1, 0, 40);
    usleep(2000);
    prefix_tidy(k.p);
    expect(&k, 0, 0, 0);
    prefix_stats(k.p, &s);
    assert_int_equal(s.bytes, 0);
    keeper_close(&k);
}

static void wait_files(struct keeper *k, int files)
{
    struct prefix_stats s = {.files = -1};
    for (int ms = 0; s.files != files && ms < 10000; ms++) {
        prefix_stats(k->p, &s);
        usleep(1000);
    }
    assert_int_equal(s.files, files);
}

/* Files stay when memory is let go of, and are the oldest to go when there are too many bytes. */
static void test_disk_limit(void **state)
{
    struct keeper k;
    char *dir = aid_tmpdir();
    struct prefix_options o = {
        .bytes = UINT64_MAX, .entries = 1, .idle_s = 900, .tokens_min = 16, .dir = dir};
    o.file_bytes = UINT64_MAX;
    keeper_open(&k, *state, &o);
    keep(&k, 30);
    wait_files(&k, 1);
    keep(&k, 40);
    wait_files(&k, 2);
    expect(&k, 1, 2, 40);
    assert_int_equal(prefix_longest(k.p, k.ids, 40), 30); /* on disk alone; the last used now */
    assert_int_equal(prefix_restore(k.p, k.ids, 30, k.seq), 0);
    assert_int_equal(cpu_engine.sequence_length(k.seq), 30);
    struct prefix_stats s;
    prefix_stats(k.p, &s);
    o.file_bytes = s.file_bytes;
    keeper_close(&k);
    keeper_open(&k, *state, &o);
    expect(&k, 0, 2, 40);
    assert_int_equal(prefix_longest(k.p, k.ids, 40), 30);
    keep(&k, 50); /* 40 has to go for it, and 30 too */
    wait_files(&k, 1);
    expect(&k, 1, 1, 50);
    assert_int_equal(prefix_longest(k.p, k.ids, 50), 0);
    prefix_stats(k.p, &s);
    assert_true(s.file_bytes <= o.file_bytes);
    keeper_close(&k);
    aid_rmdir(dir);
}

/* A file under another's name would never be found: it is told of and left alone. */
static void test_a_renamed_file(void **state)
{
    struct keeper k;
    char *dir = aid_tmpdir();
    const struct prefix_options o = {.bytes = UINT64_MAX,
                                     .entries = 16,
                                     .idle_s = 900,
                                     .tokens_min = 16,
                                     .dir = dir,
                                     .file_bytes = UINT64_MAX};
    keeper_open(&k, *state, &o);
    keep(&k, 30);
    char *path = saves_path(dir, k.ids, 30), *other = saves_path(dir, k.ids, 31);
    keeper_close(&k);
    assert_int_equal(rename(path, other), 0);
    keeper_open(&k, *state, &o);
    expect(&k, 0, 0, 0);
    assert_true(file_exists(other));
    keeper_close(&k);
    mem_free(path);
    mem_free(other);
    aid_rmdir(dir);
}

/* Killed at any point of a save: the file is not there, or whole. */
static void test_kill(void **state)
{
    (void)state;
    int32_t tokens[100];
    aid_tokens(1, 500, 100, tokens);
    for (long nth = 1, killed = 1; killed; nth++) {
        struct err e = {0};
        char *dir = aid_tmpdir(), *path = saves_path(dir, tokens, 100);
        const pid_t pid = fork();
        if (pid == 0) {
            struct buf data = BUF_INIT;
            buf_puts(&data, "a state");
            file_fault_at(FILE_FAULT_KILL, nth);
            _exit(saves_write(path, "cpu", tokens, 100, &data, &e) ? 1 : 0);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        killed = WIFSIGNALED(status);
        assert_true(killed || WEXITSTATUS(status) == 0);
        struct save_head h = {0};
        const int rc = saves_read_head(path, "cpu", &h, &e);
        if (rc)
            assert_int_equal(e.code, E_NOTFOUND);
        else
            assert_int_equal(h.n, 100);
        assert_true(killed || !rc);
        assert_true(nth < 20);
        mem_free(h.tokens);
        mem_free(path);
        aid_rmdir(dir);
    }
}

/* Ids that encoding would not give come back for a text that begins with what they said. */
static void test_turns(void **state)
{
    (void)state;
    struct err e = {0};
    struct tokenizer *t;
    struct turns *s;
    assert_ok(tokenizer_open(DEMO, &t, &e), e);
    assert_ok(turns_open(t, &s, &e), e);
    const char *prompt = "one two ", *answer = "three four", *next = "one two three four five six";
    struct tokens ids = {0}, said = {0}, got = {0}, rest = {0};
    assert_ok(tokenizer_encode(t, prompt, strlen(prompt), false, &ids, &e), e);
    for (const char *c = answer; *c; c++) /* a letter at a time */
        assert_ok(tokenizer_encode(t, c, 1, false, &said, &e), e);
    assert_int_equal(said.n, strlen(answer));
    turns_keep(s, prompt, strlen(prompt), &ids, &said);
    assert_ok(turns_encode(s, next, strlen(next), 100, &got, &e), e);
    assert_ok(tokenizer_encode(t, " five six", 9, false, &rest, &e), e);
    assert_int_equal(got.n, ids.n + said.n + rest.n);
    assert_memory_equal(got.ids, ids.ids, ids.n * sizeof *ids.ids);
    assert_memory_equal(got.ids + ids.n, said.ids, said.n * sizeof *said.ids);
    assert_memory_equal(got.ids + ids.n + said.n, rest.ids, rest.n * sizeof *rest.ids);
    got.n = 0;
    assert_ok(turns_encode(s, "one two thre", 12, 100, &got, &e), e);
    rest.n = 0;
    assert_ok(tokenizer_encode(t, "one two thre", 12, false, &rest, &e), e);
    assert_int_equal(got.n, rest.n);
    tokens_free(&ids);
    tokens_free(&said);
    tokens_free(&got);
    tokens_free(&rest);
    turns_close(s);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cold_memory_disk),
        cmocka_unit_test(test_next_turn),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_entry_and_byte_limits),
        cmocka_unit_test(test_a_state_that_never_fits),
        cmocka_unit_test(test_idle_entries_go),
        cmocka_unit_test(test_disk_limit),
        cmocka_unit_test(test_a_renamed_file),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
