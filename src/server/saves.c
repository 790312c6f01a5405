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
static int check(const struct map *m, const char *path, const char *engine, struct header *h,
                 struct err *e)
{
    if (m->size < sizeof *h || memcmp(m->data, MAGIC, sizeof h->magic) != 0)
        return ERR(e, E_FORMAT, "%s: is no kept state of version 1", path);
    memcpy(h, m->data, sizeof *h);
    if (h->bytes != m->size || h->tokens > m->size || h->state > m->size ||
        sizeof *h + h->tokens * sizeof(int32_t) + h->state != m->size)
        return ERR(e, E_FORMAT, "%s: has %zu bytes, want %llu: it was cut or grew", path, m->size,
                   (unsigned long long)h->bytes);
    if (sum_of(h, m->data + sizeof *h) != h->sum)
        return ERR(e, E_FORMAT, "%s: does not match its checksum: it is damaged", path);
    if (strncmp(h->engine, engine, sizeof h->engine) != 0)
        return ERR(e, E_FORMAT, "%s: was kept by engine %.16s, this is %s", path, h->engine,
                   engine);
    return 0;
}

int saves_read_head(const char *path, const char *engine, struct save_head *out, struct err *e)
{
    struct map m;
    struct header h;
    struct file f;
    if (file_open(path, &f, e))
        return -e->code;
    *out = (struct save_head){.mtime_ns = f.mtime_ns};
    file_drop(&f);
    if (map_open(path, &m, e))
        return -e->code;
    int rc = check(&m, path, engine, &h, e);
    if (!rc && !(out->tokens = mem_array((size_t)h.tokens, sizeof *out->tokens)))
        rc = ERR(e, E_NOMEM, "no memory for %llu tokens", (unsigned long long)h.tokens);
    if (!rc) {
        memcpy(out->tokens, m.data + sizeof h, (size_t)h.tokens * sizeof *out->tokens);
        out->n = (int)h.tokens;
        out->bytes = h.bytes;
    }
    map_close(&m);
    return rc;
}

int saves_restore(const char *path, struct engine *g, const int32_t *tokens, int n,
                  struct sequence *seq, struct err *e)
{
    struct map m;
    struct header h;
    if (map_open(path, &m, e))
        return -e->code;
    int rc = check(&m, path, g->ops->name, &h, e);
    const size_t token_bytes = (size_t)n * sizeof *tokens;
    if (!rc && (h.tokens != (uint64_t)n || memcmp(m.data + sizeof h, tokens, token_bytes) != 0))
        rc = ERR(e, E_FORMAT, "%s: holds other tokens than it was kept for", path);
    if (!rc) {
        rc = g->ops->restore(g, seq, m.data + sizeof h + token_bytes, (size_t)h.state, e);
        if (rc)
            err_prefix(e, "%s", path);
    }
    map_close(&m);
    return rc;
}
