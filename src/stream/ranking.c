/* The ranking file: see ranking.h. */
#include "stream/ranking.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"

enum { NAME = 8, HEAD = 24, SUM = 8 };
#define BYTES_MAX ((uint64_t)64 << 20)

static const char magic[NAME + 1] = "CKVRANK1";

static size_t n_uses(const struct store *s)
{
    return (size_t)s->manifest.experts.n_layers * (size_t)s->manifest.experts.E;
}

/* The manifest's seal, which is of the contents; without one, the shape of all that is there. */
static uint64_t identity(const struct store *s)
{
    const struct manifest *m = &s->manifest;
    const char *seal = json_string_value(json_object_get(m->root, "seal"));
    if (seal)
        return XXH3_64bits(seal, strlen(seal));
    const uint64_t shape[] = {(uint64_t)m->experts.n_layers,
                              (uint64_t)m->experts.E,
                              m->experts.bytes,
                              m->n_dense,
                              s->dense.size,
                              m->ngram.rows};
    return XXH3_64bits(shape, sizeof shape);
}

static void put(uint8_t *to, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get(const uint8_t *from, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++)
        v |= (uint64_t)from[i] << (8 * i);
    return v;
}

int ranking_read(const struct store *s, float *use, struct err *e)
{
    struct buf b = BUF_INIT;
    char *path = file_join(s->dir, "ranking.bin");
    int rc = path ? file_read_all(path, BYTES_MAX, &b, e) : ERR(e, E_NOMEM, "out of memory");
    if (!rc)
        rc = ranking_parse(s, b.data, b.len, use, e);
    buf_free(&b);
    mem_free(path);
    return rc;
}

static float use_at(const uint8_t *p, size_t i)
{
    uint32_t v = (uint32_t)get(p + HEAD + 4 * i, 4);
    float f;
    memcpy(&f, &v, sizeof f);
    return f;
}

int ranking_parse(const struct store *s, const void *data, size_t n, float *use, struct err *e)
{
    const uint8_t *p = data;
    size_t count = n_uses(s), want = HEAD + 4 * count + SUM;
    if (n < NAME || memcmp(p, magic, NAME) != 0)
        return ERR(e, E_FORMAT, "%s/ranking.bin: does not begin with %s", s->dir, magic);
    if (n != want)
        return ERR(e, E_FORMAT, "%s/ranking.bin: has %zu bytes, want %zu", s->dir, n, want);
    if (get(p + want - SUM, SUM) != XXH3_64bits(p, want - SUM))
        return ERR(e, E_FORMAT, "%s/ranking.bin: its checksum is wrong", s->dir);
    if (get(p + 8, 8) != identity(s) || get(p + 16, 4) != (uint64_t)s->manifest.experts.n_layers ||
        get(p + 20, 4) != (uint64_t)s->manifest.experts.E)
        return ERR(e, E_FORMAT, "%s/ranking.bin: is of another store", s->dir);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(use_at(p, i)) || use_at(p, i) < 0)
            return ERR(e, E_FORMAT, "%s/ranking.bin: use %zu is no count", s->dir, i);
    for (size_t i = 0; i < count; i++)
        use[i] = use_at(p, i);
    return 0;
}

int ranking_write(const struct store *s, const float *use, struct err *e)
{
    size_t count = n_uses(s), n = HEAD + 4 * count + SUM;
    char *path = file_join(s->dir, "ranking.bin");
    uint8_t *p = mem_alloc(n);
    struct file lock = FILE_CLOSED;
    int rc = path && p ? 0 : ERR(e, E_NOMEM, "out of memory");
    rc = rc ? rc : file_lock_dir(s->dir, &lock, e);
    if (!rc) {
        memcpy(p, magic, NAME);
        put(p + 8, identity(s), 8);
        put(p + 16, (uint64_t)s->manifest.experts.n_layers, 4);
        put(p + 20, (uint64_t)s->manifest.experts.E, 4);
        for (size_t i = 0; i < count; i++) {
            uint32_t v;
            memcpy(&v, &use[i], sizeof v);
            put(p + HEAD + 4 * i, v, 4);
        }
        put(p + n - SUM, XXH3_64bits(p, n - SUM), SUM);
        rc = file_replace(path, p, n, e);
    }
    file_drop(&lock);
    mem_free(p);
    mem_free(path);
    return rc;
}
