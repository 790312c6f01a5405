/* Arenas: see arena.h. Chunks grow from 4 KiB to 256 KiB; a larger piece gets a chunk of its own,
 * behind the newest, so that the room left there is not lost. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

enum { CHUNK_MIN = 4 << 10, CHUNK_MAX = 256 << 10, ALIGN = alignof(max_align_t) };

struct arena_chunk {
    struct arena_chunk *next;
    size_t bytes; /* of data */
    alignas(max_align_t) char data[];
};

static struct arena_chunk *chunk_new(size_t bytes)
{
    if (bytes > SIZE_MAX - sizeof(struct arena_chunk))
        return NULL;
    struct arena_chunk *c = mem_alloc(sizeof *c + bytes);
    if (c)
        c->bytes = bytes;
    return c;
}

static void *alloc_alone(struct arena *a, size_t bytes)
{
    struct arena_chunk *c = chunk_new(bytes);
    if (!c)
        return NULL;
    if (a->chunks) {
        c->next = a->chunks->next;
        a->chunks->next = c;
    } else {
        c->next = NULL;
        a->chunks = c;
        a->room = 0;
    }
    a->used += bytes;
    return c->data;
}

void *arena_alloc(struct arena *a, size_t n, size_t bytes)
{
    if (bytes && n > (SIZE_MAX / 2) / bytes)
        return NULL;
    size_t want = (n * bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (a->limit && want > a->limit - a->used) {
        a->full = true;
        return NULL;
    }
    if (want > CHUNK_MAX / 4)
        return alloc_alone(a, want);
    if (want > a->room || !a->chunks) {
        size_t size = a->chunks ? a->chunks->bytes * 2 : CHUNK_MIN;
        if (size < CHUNK_MIN)
            size = CHUNK_MIN;
        if (size > CHUNK_MAX)
            size = CHUNK_MAX;
        while (size < want)
            size *= 2;
        struct arena_chunk *c = chunk_new(size);
        if (!c)
            return NULL;
        c->next = a->chunks;
        a->chunks = c;
        a->room = size;
    }
    void *p = a->chunks->data + (a->chunks->bytes - a->room);
    a->room -= want;
    a->used += want;
    return p;
}

char *arena_copy(struct arena *a, const void *p, size_t n)
{
    char *to = n < SIZE_MAX ? arena_alloc(a, n + 1, 1) : NULL;
    if (!to)
        return NULL;
    if (n)
        memcpy(to, p, n);
    to[n] = '\0';
    return to;
}

void arena_free(struct arena *a)
{
    for (struct arena_chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        mem_free(c);
    }
    *a = (struct arena){.limit = a->limit};
}
