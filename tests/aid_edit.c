/* Checkpoints in memory: see aid_edit.h. */
#include "tests/aid_edit.h"

#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"

void aid_edit_read(const char *dir, struct aid_edit *out)
{
    struct checkpoint *c;
    struct err e = {0};
    assert_ok(checkpoint_open(dir, &c, &e), e);
    *out =
        (struct aid_edit){mem_strdup(dir), mem_zalloc(c->n_tensors, sizeof *out->at), c->n_tensors};
    assert_non_null(out->at);
    for (size_t i = 0; i < c->n_tensors; i++) {
        const struct tensor *t = &c->tensors[i];
        struct aid_edit_tensor *w = &out->at[i];
        *w = (struct aid_edit_tensor){.dtype = t->dtype, .n_dims = t->n_dims, .nbytes = t->nbytes};
        snprintf(w->name, sizeof w->name, "%s", t->name);
        memcpy(w->shape, t->shape, sizeof w->shape);
        w->data = mem_alloc(t->nbytes);
        assert_non_null(w->data);
        assert_ok(checkpoint_read(c, t, 0, w->data, t->nbytes, &e), e);
    }
    checkpoint_close(c);
}

void aid_edit_free(struct aid_edit *c)
{
    for (size_t i = 0; i < c->n; i++)
        mem_free(c->at[i].data);
    mem_free(c->at);
    mem_free(c->dir);
    *c = (struct aid_edit){0};
}

struct aid_edit_tensor *aid_edit_find(struct aid_edit *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->at[i].name, name) == 0)
            return &c->at[i];
    fail_msg("%s has no tensor %s", c->dir, name);
    return NULL;
}

void aid_edit_reshape(struct aid_edit_tensor *w, enum dtype dtype, const uint64_t *shape)
{
    mem_free(w->data);
    w->dtype = dtype;
    w->n_dims = 0;
    w->nbytes = dtype_bytes(dtype);
    for (; shape[w->n_dims]; w->n_dims++) {
        w->shape[w->n_dims] = shape[w->n_dims];
        w->nbytes *= shape[w->n_dims];
    }
    w->data = mem_zalloc(w->nbytes, 1);
    assert_non_null(w->data);
}

struct aid_edit_tensor *aid_edit_add(struct aid_edit *c, const char *name, enum dtype dtype,
                                     const uint64_t *shape)
{
    struct aid_edit_tensor *more = mem_realloc(c->at, (c->n + 1) * sizeof *more);
    assert_non_null(more);
    c->at = more;
    struct aid_edit_tensor *w = &c->at[c->n++];
    *w = (struct aid_edit_tensor){0};
    snprintf(w->name, sizeof w->name, "%s", name);
    aid_edit_reshape(w, dtype, shape);
    return w;
}

static void copy_text(const char *from, const char *dir, const char *name)
{
    struct err e = {0};
    struct buf b = BUF_INIT;
    char *a = file_join(from, name), *z = file_join(dir, name);
    if (file_exists(a)) {
        assert_ok(file_read_all(a, 1 << 24, &b, &e), e);
        aid_write(z, b.data, b.len);
    }
    buf_free(&b);
    mem_free(a);
    mem_free(z);
}

void aid_edit_write(const struct aid_edit *c, const char *dir)
{
    static const char *const texts[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                        "chat_template.jinja", "generation_config.json"};
    struct err e = {0};
    struct buf b = BUF_INIT;
    uint64_t at = 0, len;
    buf_add(&b, "\0\0\0\0\0\0\0\0{", 9);
    for (size_t i = 0; i < c->n; i++) {
        const struct aid_edit_tensor *w = &c->at[i];
        if (!w->name[0])
            continue;
        buf_printf(&b, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", at ? "," : "", w->name,
                   dtype_name(w->dtype));
        for (int d = 0; d < w->n_dims; d++)
            buf_printf(&b, "%s%llu", d ? "," : "", (unsigned long long)w->shape[d]);
        buf_printf(&b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                   (unsigned long long)(at + w->nbytes));
        at += w->nbytes;
    }
    buf_puts(&b, "}");
    len = b.len - 8;
    for (size_t i = 0; i < c->n; i++)
        if (c->at[i].name[0])
            buf_add(&b, c->at[i].data, c->at[i].nbytes);
    assert_ok(buf_check(&b, &e), e);
    memcpy(b.data, &len, 8);
    assert_ok(file_make_dir(dir, &e), e);
    char *path = file_join(dir, "model.safetensors");
    aid_write(path, b.data, b.len);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        copy_text(c->dir, dir, texts[i]);
    mem_free(path);
    buf_free(&b);
}
