/* Checksums of a store: see sums.h. */
#include "pack/sums.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/json.h"
#include "base/mem.h"

#define BLOCK_ROWS_MAX ((uint64_t)1 << 40)
#define SUMS_BYTES_MAX ((uint64_t)1 << 30)

static const char magic[] = "CKVSUMS1";

int sums_make(const struct pieces *p, const uint64_t *sum, struct buf *out, struct err *e)
{
    struct sums_header h = {
        .n_records = p->n_records, .n_blocks = p->n_blocks, .block_rows = p->block_rows};
    memcpy(h.magic, magic, sizeof h.magic);
    buf_add(out, &h, sizeof h);
    buf_add(out, sum + p->n_dense, (p->n - p->n_dense) * sizeof *sum);
    return buf_check(out, e);
}

int sums_parse(const struct buf *bytes, const struct manifest *m, const char *where,
               struct pieces *p, uint64_t **sum, struct err *e)
{
    size_t n = bytes->len;
    struct sums_header h = {{0}, 0, 0, 0};
    memcpy(&h, buf_str(bytes), n < sizeof h ? n : sizeof h);
    if (memcmp(h.magic, magic, sizeof h.magic) != 0)
        return ERR(e, E_FORMAT, "%s: does not start with %s", where, magic);
    if ((h.block_rows == 0) != (m->ngram.rows == 0) || h.block_rows > BLOCK_ROWS_MAX)
        return ERR(e, E_FORMAT, "%s: has blocks of %llu rows, for a table of %llu", where,
                   (unsigned long long)h.block_rows, (unsigned long long)m->ngram.rows);
    pieces_init(p, m, h.block_rows);
    size_t n_sums = p->n_records + p->n_blocks;
    if (h.n_records != p->n_records || h.n_blocks != p->n_blocks ||
        n != sizeof h + n_sums * sizeof **sum)
        return ERR(e, E_FORMAT,
                   "%s: has %zu bytes for %llu records and %llu blocks, want %zu for %zu and %zu",
                   where, n, (unsigned long long)h.n_records, (unsigned long long)h.n_blocks,
                   sizeof h + n_sums * sizeof **sum, p->n_records, p->n_blocks);
    *sum = mem_array(p->n + 1, sizeof **sum);
    if (!*sum)
        return ERR(e, E_NOMEM, "out of memory for %zu checksums", p->n);
    for (size_t i = 0; i < p->n_dense; i++)
        (*sum)[i] = m->dense[i].has_sum ? m->dense[i].xxh3 : 0;
    memcpy(*sum + p->n_dense, bytes->data + sizeof h, n_sums * sizeof **sum);
    return 0;
}

int sums_load(const struct store *s, struct pieces *p, uint64_t **sum, struct err *e)
{
    const json_t *sums = json_object_get(s->manifest.root, "checksums");
    const char *hex = json_string_value(json_object_get(sums, "xxh3"));
    uint64_t want = 0;
    *sum = NULL;
    pieces_init(p, &s->manifest, 0);
    if (!sums)
        return 0;
    char *path = file_join(s->dir, SUMS_FILE);
    struct buf bytes = BUF_INIT;
    int rc = path ? file_read_all(path, SUMS_BYTES_MAX, &bytes, e)
                  : ERR(e, E_NOMEM, "out of memory reading checksums");
    if (!rc && (!hex || sums_unhex(hex, &want)))
        rc = ERR(e, E_FORMAT, "manifest.json: checksums.xxh3 is not 16 digits");
    if (!rc && want != XXH3_64bits(bytes.data, bytes.len))
        rc = ERR(e, E_FORMAT,
                 SUMS_FILE ": does not have the checksum that manifest.json "
                           "names: experts and n-gram rows are not compared");
    if (!rc)
        rc = sums_parse(&bytes, &s->manifest, SUMS_FILE, p, sum, e);
    buf_free(&bytes);
    mem_free(path);
    return rc;
}

const char *sums_hex(uint64_t sum, char room[SUMS_HEX])
{
    snprintf(room, SUMS_HEX, "%016llx", (unsigned long long)sum);
    return room;
}

int sums_unhex(const char *text, uint64_t *sum)
{
    if (strlen(text) != SUMS_HEX - 1 || strspn(text, "0123456789abcdef") != SUMS_HEX - 1)
        return -1;
    *sum = strtoull(text, NULL, 16);
    return 0;
}

int sums_seal(const json_t *root, uint64_t *sum, struct err *e)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)root);
    json_object_del(copy, "source_dir");
    json_object_del(copy, "seal");
    struct buf text = BUF_INIT;
    int rc = json_print(copy, JSON_COMPACT | JSON_SORT_KEYS, &text, e);
    if (!rc)
        *sum = XXH3_64bits(text.data, text.len);
    json_decref(copy);
    buf_free(&text);
    return rc;
}
