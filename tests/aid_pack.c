/* Packing in tests: see aid_pack.h. */
#include "tests/aid_pack.h"

#include "tests/aid_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "pack/verify.h"

int aid_pack(const char *source, const char *dir, const struct plan_choices *choices,
             struct pack_report *r, struct err *e)
{
    static const struct plan_choices plain = {.norms = PLAN_NORMS_DETECT};
    const struct pack_options o = {.output = dir};
    struct pack_report mine;
    struct plan *p;
    int rc = plan_open(source, choices ? choices : &plain, &p, e);
    if (rc)
        return rc;
    rc = pack_run(p, &o, r ? r : &mine, e);
    plan_close(p);
    return rc;
}

void aid_pack_ok(const char *source, const char *dir, const struct plan_choices *choices)
{
    struct err e = {0};
    assert_ok(aid_pack(source, dir, choices, NULL, &e), e);
}

int aid_verify(const char *dir, struct err *e)
{
    struct verify_report r;
    int rc = verify_store(dir, 2, &r, e);
    verify_free(&r);
    return rc;
}

const char *aid_path(const char *dir, const char *name)
{
    static char room[64][512];
    static int next;
    char *to = room[next++ % 64];
    snprintf(to, sizeof room[0], "%s/%s", dir, name);
    return to;
}

bool aid_has(const char *dir, const char *name)
{
    return file_exists(aid_path(dir, name));
}

static void read_file(const char *dir, const char *name, struct buf *out)
{
    struct err e = {0};
    *out = BUF_INIT;
    assert_ok(file_read_all(aid_path(dir, name), 1 << 30, out, &e), e);
}

void aid_same_file(const char *dir_a, const char *dir_b, const char *name)
{
    struct buf a, b;
    read_file(dir_a, name, &a);
    read_file(dir_b, name, &b);
    size_t n = a.len < b.len ? a.len : b.len, i = 0;
    while (i < n && a.data[i] == b.data[i])
        i++;
    if (a.len != b.len || i < n)
        fail_msg("%s: %s has %zu bytes, %s has %zu; they differ from byte %zu on", name, dir_a,
                 a.len, dir_b, b.len, i);
    buf_free(&a);
    buf_free(&b);
}

static void manifest_text(const char *dir, struct buf *out)
{
    struct err e = {0};
    json_t *root;
    *out = BUF_INIT;
    assert_ok(json_read_file(aid_path(dir, "manifest.json"), 1 << 26, &root, &e), e);
    assert_int_equal(json_object_del(root, "source_dir"), 0);
    assert_ok(json_print(root, JSON_INDENT(1), out, &e), e);
    json_decref(root);
}

void aid_same_store(const char *dir_a, const char *dir_b)
{
    struct buf a, b;
    aid_same_file(dir_a, dir_b, "dense.bin");
    aid_same_file(dir_a, dir_b, "experts.bin");
    assert_int_equal(aid_has(dir_a, "ngram.bin"), aid_has(dir_b, "ngram.bin"));
    if (aid_has(dir_a, "ngram.bin"))
        aid_same_file(dir_a, dir_b, "ngram.bin");
    aid_same_file(dir_a, dir_b, "checksums.bin");
    manifest_text(dir_a, &a);
    manifest_text(dir_b, &b);
    assert_string_equal(buf_str(&a), buf_str(&b));
    buf_free(&a);
    buf_free(&b);
}
