/* Kept states as files: see saves.h. */
#include "server/saves.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/mem.h"

#define MAGIC "cherenkov keep1\n"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are written as they are");

enum { ENGINE_NAME_MAX = 16, NAME_MAX_BYTES = 32 };

struct header {
    char magic[16];
    uint64_t bytes;
    char engine[ENGINE_NAME_MAX];
    uint64_t tokens, state;
    uint64_t sum;
};
_Static_assert(sizeof(struct header) == 64, "as in saves.h");
_Static_assert(offsetof(struct header, sum) == 56, "as in saves.h");

char *saves_path(const char *dir, const int32_t *tokens, int n)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%016llx.keep",
             (unsigned long long)XXH3_64bits(tokens, (size_t)n * sizeof *tokens));
    return file_join(dir, name);
}

static uint64_t sum_of(const struct header *h, const void *tokens)
{
    const XXH64_hash_t head = XXH3_64bits(h, offsetof(struct header, sum));
    return XXH3_64bits_withSeed(tokens, (size_t)h->tokens * sizeof(int32_t), head);
}

int saves_write(const char *path, const char *engine, const int32_t *tokens, int n,
                const struct buf *state, struct err *e)
{
    const size_t token_bytes = (size_t)n * sizeof *tokens;
    struct header h = {.magic = MAGIC,
                       .bytes = sizeof h + token_bytes + state->len,
                       .tokens = (uint64_t)n,
                       .state = state->len};
    snprintf(h.engine, sizeof h.engine, "%s", engine);
    h.sum = sum_of(&h, tokens);
    const struct file_part parts[] = {
        {&h, sizeof h}, {tokens, token_bytes}, {state->data, state->len}};
    return file_replace_parts(path, parts, 3, e);
}

/* Everything but the state, which its engine checks. */
int saves_parse(const void *data, size_t bytes, const char *path, const char *engine,
                struct save_view *out, struct err *e)
{
    struct header h;
    if (bytes < sizeof h || memcmp(data, MAGIC, sizeof h.magic) != 0)
        return ERR(e, E_FORMAT, "%s: is no kept state of version 1", path);
    memcpy(&h, data, sizeof h);
    const char *tokens = (const char *)data + sizeof h;
    if (h.bytes != bytes || h.tokens > bytes || h.state > bytes ||
        sizeof h + h.tokens * sizeof(int32_t) + h.state != bytes)
        return ERR(e, E_FORMAT, "%s: has %zu bytes, want %llu: it was cut or grew", path, bytes,
                   (unsigned long long)h.bytes);
    if (sum_of(&h, tokens) != h.sum)
        return ERR(e, E_FORMAT, "%s: does not match its checksum: it is damaged", path);
    if (strncmp(h.engine, engine, sizeof h.engine) != 0)
        return ERR(e, E_FORMAT, "%s: was kept by engine %.16s, this is %s", path, h.engine, engine);
    if (h.tokens < 1 || h.tokens > INT32_MAX)
        return ERR(e, E_FORMAT, "%s: a state of %llu tokens, want 1 or more", path,
                   (unsigned long long)h.tokens);
    *out = (struct save_view){tokens, (int)h.tokens, tokens + h.tokens * sizeof(int32_t),
                              (size_t)h.state};
    return 0;
}

static int read_head(const struct map *m, const char *path, const char *engine,
                     struct save_head *out, struct err *e)
{
    struct save_view v;
    if (saves_parse(m->data, m->size, path, engine, &v, e))
        return -e->code;
    out->tokens = mem_array((size_t)v.n, sizeof *out->tokens);
    if (!out->tokens)
        return ERR(e, E_NOMEM, "no memory for %d tokens", v.n);
    memcpy(out->tokens, v.tokens, (size_t)v.n * sizeof *out->tokens);
    out->n = v.n;
    out->bytes = m->size;
    return 0;
}

int saves_read_head(const char *path, const char *engine, struct save_head *out, struct err *e)
{
    struct map m;
    struct file f;
    if (file_open(path, &f, e))
        return -e->code;
    *out = (struct save_head){.mtime_ns = f.mtime_ns};
    file_drop(&f);
    if (map_open(path, &m, e))
        return -e->code;
    const int rc = read_head(&m, path, engine, out, e);
    map_close(&m);
    return rc;
}

int saves_restore(const char *path, struct engine *g, const int32_t *tokens, int n,
                  struct sequence *seq, struct err *e)
{
    struct map m;
    struct save_view v;
    if (map_open(path, &m, e))
        return -e->code;
    int rc = saves_parse(m.data, m.size, path, g->ops->name, &v, e);
    if (!rc && (v.n != n || memcmp(v.tokens, tokens, (size_t)n * sizeof *tokens) != 0))
        rc = ERR(e, E_FORMAT, "%s: holds other tokens than it was kept for", path);
    if (!rc) {
        rc = g->ops->restore(g, seq, v.state, v.state_bytes, e);
        if (rc)
            err_prefix(e, "%s", path);
    }
    map_close(&m);
    return rc;
}
