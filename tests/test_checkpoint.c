/* Opening folders of safetensors: one file, shards with an index, shards without; and every way in
 * which files and index can disagree. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"

#define INDEX "model.safetensors.index.json"

/* A folder of small files, made from a description. */
struct folder {
    const char *index;    /* contents, or NULL */
    const char *files[6]; /* name, then tensor names (comma-separated), in turns; NULL at the end */
};

/* Each tensor is U8 [4] and holds its name's first letter. */
static void write_shard(const char *path, const char *names)
{
    struct buf head = BUF_INIT, data = BUF_INIT, all = BUF_INIT;
    buf_putc(&head, '{');
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, ",");
        buf_printf(&head, "%s\"%.*s\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[%zu,%zu]}",
                   head.len > 1 ? "," : "", (int)n, p, data.len, data.len + 4);
        for (int i = 0; i < 4; i++)
            buf_putc(&data, p[0]);
        p += n + (p[n] == ',');
    }
    buf_putc(&head, '}');
    for (int i = 0; i < 8; i++)
        buf_putc(&all, (char)(head.len >> 8 * i));
    buf_add(&all, head.data, head.len);
    buf_add(&all, data.data, data.len);
    aid_write(path, all.data, all.len);
    buf_free(&head);
    buf_free(&data);
    buf_free(&all);
}

static char *make_folder(const struct folder *f)
{
    char *dir = aid_tmpdir();
    if (f->index) {
        char *path = file_join(dir, INDEX);
        aid_write(path, f->index, strlen(f->index));
        mem_free(path);
    }
    for (int i = 0; i < 6 && f->files[i]; i += 2) {
        char *path = file_join(dir, f->files[i]);
        write_shard(path, f->files[i + 1]);
        mem_free(path);
    }
    return dir;
}

static const struct {
    struct folder folder;
    int code; /* 0: opens with tensors "a" and "b" */
    const char *says;
} cases[] = {
    {{NULL, {"model.safetensors", "b,a"}}, 0, NULL},
    {{"{\"weight_map\":{\"a\":\"x\",\"b\":\"y\"}}", {"x", "a", "y", "b"}}, 0, NULL},
    {{"{\"metadata\":{},\"weight_map\":{\"a\":\"model.safetensors\",\"b\":\"model.safetensors\"}}",
      {"model.safetensors", "a,b"}},
     0,
     NULL},
    {{NULL, {"model-00002-of-00002.safetensors", "a", "model-00001-of-00002.safetensors", "b"}},
     0,
     NULL},
    /* what is not listed in an index does not belong to the checkpoint */
    {{"{\"weight_map\":{\"a\":\"x\",\"b\":\"x\"}}", {"x", "a,b", "model.safetensors", "c"}},
     0,
     NULL},

    {{NULL, {NULL}}, E_NOTFOUND, "holds no checkpoint"},
    {{NULL, {"model.safetensors", ""}}, E_FORMAT, "holds no tensors"},
    {{"{}", {NULL}}, E_FORMAT, INDEX ".weight_map: is required"},
    {{"{\"weight_map\":[]}", {NULL}}, E_FORMAT, "want an object, found an empty array"},
    {{"{\"weight_map\":{}}", {NULL}}, E_FORMAT, "weight_map: is empty"},
    {{"{\"weight_map\":{\"a\":7}}", {NULL}}, E_FORMAT, "a: want the name of a file beside it"},
    {{"{\"weight_map\":{\"a\":\"../x\"}}", {NULL}}, E_FORMAT, "found ../x"},
    {{"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", {NULL}}, E_FORMAT, "found /etc/passwd"},
    {{"{\"weight_map\":{\"a\":\"..\"}}", {NULL}}, E_FORMAT, "found .."},
    {{"{\"weight_map\":{\"a\":\".\"}}", {NULL}}, E_FORMAT, "found ."},
    {{"{\"weight_map\":{\"a\":\"\"}}", {NULL}}, E_FORMAT, "want the name of a file"},
    {{"{\"weight_map\":{\"a\":\"x\",\"a\":\"y\"}}", {NULL}}, E_FORMAT, "duplicate"},
    {{"{\"weight_map\":{\"a\":\"x\"}", {NULL}}, E_FORMAT, "not valid JSON"},
    {{"{\"weight_map\":{\"a\":\"x\",\"b\":\"y\",\"c\":\"z\"}}", {"y", "b"}},
     E_NOTFOUND,
     "names 3 files of which 2 are not there, the first being x"},
    {{"{\"weight_map\":{\"a\":\"x\",\"b\":\"y\"}}", {"x", "a", "y", "c"}},
     E_FORMAT,
     "says that y holds b, which it does not"},
    {{"{\"weight_map\":{\"a\":\"x\",\"b\":\"y\"}}", {"x", "b", "y", "a"}},
     E_FORMAT,
     "says that x holds a, which is in y"},
    {{"{\"weight_map\":{\"a\":\"x\",\"b\":\"y\"}}", {"x", "a,c", "y", "b"}},
     E_FORMAT,
     "x: holds c, which "},
    {{"{\"weight_map\":{\"a\":\"x\",\"b\":\"y\"}}", {"x", "a", "y", "b,a"}},
     E_FORMAT,
     "a: is both in "},
    {{NULL, {"model-00001-of-00003.safetensors", "a", "model-00003-of-00003.safetensors", "b"}},
     E_NOTFOUND,
     "but not shard 2 before it"},
    {{NULL, {"model-00001-of-00003.safetensors", "a", "model-00002-of-00003.safetensors", "b"}},
     E_NOTFOUND,
     "2 shards of 3"},
    {{NULL, {"model-00001-of-00002.safetensors", "a", "model-00001-of-00003.safetensors", "b"}},
     E_NOTFOUND,
     "but not shard 2 before it"},
    {{NULL, {"model-1-of-1.safetensors", "a", "model-00000-of-00001.safetensors", "b"}},
     E_NOTFOUND,
     "holds no checkpoint"},
};

static void test_folders(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct checkpoint *c = NULL;
        struct err e = {0};
        char *dir = make_folder(&cases[i].folder);
        int rc = checkpoint_open(dir, &c, &e);
        if (rc != -cases[i].code || (rc && (!strstr(e.msg, cases[i].says) || !strstr(e.msg, dir))))
            fail_msg("case %zu gave %d, \"%s\"; want %d, \"%s\"", i, rc, e.msg, -cases[i].code,
                     cases[i].says ? cases[i].says : "");
        if (!rc) {
            assert_int_equal(c->n_tensors, 2);
            assert_int_equal(c->nbytes, 8);
            for (int k = 0; k < 2; k++) {
                char name[2] = {"ab"[k]}, got[3];
                const struct tensor *t = checkpoint_find(c, name);
                assert_ptr_equal(t, &c->tensors[k]);
                assert_ok(checkpoint_read(c, t, 1, got, 3, &e), e);
                assert_memory_equal(got, k ? "bbb" : "aaa", 3);
            }
            assert_null(checkpoint_find(c, "c"));
            checkpoint_close(c);
        } else {
            assert_null(c);
        }
        aid_rmdir(dir);
    }
    struct checkpoint *c = NULL;
    struct err e = {0};
    assert_int_equal(checkpoint_open("/no/such/folder", &c, &e), -E_NOTFOUND);
    checkpoint_close(NULL);
}

/* Every golden opens, and what the index of a sharded one says is what the files hold. */
static void test_goldens(void **state)
{
    (void)state;
    static const char *const dirs[] = {GOLDENS "micro/bf16", GOLDENS "micro/mlx4",
                                       GOLDENS "v-ple2/mlx4", GOLDENS "v-nople/mlx4", DEMO};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        struct checkpoint *c;
        struct err e = {0};
        uint64_t nbytes = 0;
        assert_ok(checkpoint_open(dirs[i], &c, &e), e);
        for (size_t k = 0; k < c->n_tensors; k++) {
            assert_ptr_equal(checkpoint_find(c, c->tensors[k].name), &c->tensors[k]);
            nbytes += c->tensors[k].nbytes;
        }
        assert_int_equal(nbytes, c->nbytes);
        printf("note: %s: %zu tensors in %d files, %llu bytes\n", dirs[i], c->n_tensors, c->n_files,
               (unsigned long long)nbytes);
        checkpoint_close(c);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    int rc = -1;
    long nth = 0;
    char *dir = make_folder(&cases[1].folder);
    while (rc) {
        struct checkpoint *c;
        struct err e = {0};
        mem_fail_at(++nth);
        rc = checkpoint_open(dir, &c, &e);
        mem_fail_at(0);
        if (rc)
            assert_int_equal(rc, -E_NOMEM);
        else
            checkpoint_close(c);
        assert_true(nth < 1000);
    }
    printf("note: %ld allocations failed in turn\n", nth - 1);
    aid_rmdir(dir);
}

/* Reads that fail, and reads that return a byte at a time. */
static void test_read_faults(void **state)
{
    (void)state;
    char *dir = make_folder(&cases[1].folder);
    struct checkpoint *c;
    struct err e = {0};
    int rc = -1;
    for (long nth = 1; rc; nth++) {
        err_clear(&e);
        file_fault_at(FILE_FAULT_READ, nth);
        rc = checkpoint_open(dir, &c, &e);
        file_fault_at(FILE_FAULT_READ, 0);
        if (rc)
            assert_int_equal(rc, -E_IO);
        assert_true(nth < 100);
    }
    checkpoint_close(c);
    file_fault_at(FILE_FAULT_SHORT, 1);
    rc = checkpoint_open(dir, &c, &e);
    file_fault_at(FILE_FAULT_SHORT, 0);
    assert_ok(rc, e);
    checkpoint_close(c);
    aid_rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_read_faults),
    };
    json_set_alloc_funcs(mem_alloc, mem_free); /* so that the parser's allocations can fail too */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
