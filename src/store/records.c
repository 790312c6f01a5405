/* Experts in one precision: see records.h. */
#include "store/records.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/json.h"
#include "base/mem.h"
#include "quant/lowbit.h"

enum { FILE_BYTES_MAX = 256 << 20, SUM_DIGITS = 16, SAMPLES = 4 };

static const struct {
    const char *file, *manifest;
} names[RECORDS_BITS_MAX + 1] = {
    [2] = {"experts2.bin", "manifest2.json"},
    [3] = {"experts3.bin", "manifest3.json"},
    [4] = {"experts.bin", NULL},
};

static int parse_offsets(const json_t *root, const char *where, const struct records *r,
                         struct err *e);
static int parse_sums(const json_t *root, const char *where, struct records *r, struct err *e);
static int open_file(struct records *r, struct err *why);
static int read_manifest(const char *dir, const struct manifest *m, struct records *r,
                         struct err *why);
static int check_samples(const struct manifest *m, const struct records *q4,
                         const struct records *r, struct err *why);

const char *records_file(int bits)
{
    return names[bits].file;
}

const char *records_manifest(int bits)
{
    return names[bits].manifest;
}

const char *records_matrix(enum expert_matrix i)
{
    static const char *const matrices[EXPERT_MATRICES] = {
        [EXPERT_GATE] = "gate", [EXPERT_UP] = "up", [EXPERT_DOWN] = "down"};
    return matrices[i];
}

static uint64_t codes_of(const struct expert_layout *x)
{
    return (uint64_t)x->inter * (uint64_t)x->h;
}

void records_layout(const struct expert_layout *x, int bits, struct records *out)
{
    *out =
        (struct records){.bits = bits, .n = (size_t)x->n_layers * (size_t)x->E, .bytes = x->bytes};
    out->stride = x->stride;
    memcpy(out->w, x->w, sizeof out->w);
    memcpy(out->s, x->s, sizeof out->s);
    memcpy(out->b, x->b, sizeof out->b);
    if (bits == 4)
        return;
    uint64_t codes = lowbit_bytes(bits, codes_of(x)), at = 0;
    uint64_t side = codes_of(x) / (uint64_t)x->group * sizeof(uint16_t);
    for (int i = 0; i < EXPERT_MATRICES; i++, at += codes)
        out->w[i] = at;
    for (int i = 0; i < EXPERT_MATRICES; i++, at += 2 * side) {
        out->s[i] = at;
        out->b[i] = at + side;
    }
    out->bytes = at;
    out->stride = (at + STORE_PAGE - 1) / STORE_PAGE * STORE_PAGE;
}

void records_reduce(const struct expert_layout *x, const uint8_t *record,
                    const struct records *out_layout, uint8_t *out)
{
    const struct records *r = out_layout;
    size_t side = codes_of(x) / (uint64_t)x->group * sizeof(uint16_t);
    for (int i = 0; i < EXPERT_MATRICES; i++) {
        lowbit_from_q4(r->bits, record + x->w[i], codes_of(x), out + r->w[i]);
        memcpy(out + r->s[i], record + x->s[i], side);
        memcpy(out + r->b[i], record + x->b[i], side);
    }
    memset(out + r->bytes, 0, (size_t)(r->stride - r->bytes));
}

/* obj[key] must be the number that the layout has. */
static int want_number(const json_t *obj, const char *where, const char *key, uint64_t want,
                       struct err *e)
{
    int64_t found = 0;
    int rc = json_field_int(obj, where, key, true, 0, INT64_MAX, &found, e);
    if (rc || (uint64_t)found == want)
        return rc;
    return ERR(e, E_FORMAT, "%s.%s: is %" PRId64 ", want %" PRIu64, where, key, found, want);
}

int records_parse(const json_t *root, const char *where, struct records *r, const char **source,
                  struct err *e)
{
    const char *layout = NULL;
    int rc = want_number(root, where, "bits", (uint64_t)r->bits, e);
    if (!rc)
        rc = json_field_str(root, where, "layout", true, &layout, e);
    if (!rc && strcmp(layout, RECORDS_LAYOUT) != 0)
        rc = ERR(e, E_UNSUPPORTED, "%s.layout: is \"%.40s\", want \"%s\"", where, layout,
                 RECORDS_LAYOUT);
    if (!rc)
        rc = want_number(root, where, "stride", r->stride, e);
    if (!rc)
        rc = want_number(root, where, "records", r->n, e);
    if (!rc)
        rc = parse_offsets(root, where, r, e);
    if (!rc)
        rc = parse_sums(root, where, r, e);
    if (!rc)
        *source = json_string_value(json_object_get(root, "source"));
    return rc;
}

static int parse_offsets(const json_t *root, const char *where, const struct records *r,
                         struct err *e)
{
    json_t *w = NULL, *s = NULL;
    char at[600], key[16];
    int rc = json_field_obj(root, where, "w", true, &w, e);
    if (!rc)
        rc = json_field_obj(root, where, "s", true, &s, e);
    for (int i = 0; !rc && i < EXPERT_MATRICES; i++) {
        snprintf(at, sizeof at, "%s.w", where);
        rc = want_number(w, at, records_matrix(i), r->w[i], e);
        snprintf(at, sizeof at, "%s.s", where);
        snprintf(key, sizeof key, "%s_s", records_matrix(i));
        if (!rc)
            rc = want_number(s, at, key, r->s[i], e);
        snprintf(key, sizeof key, "%s_b", records_matrix(i));
        if (!rc)
            rc = want_number(s, at, key, r->b[i], e);
    }
    return rc;
}

static int parse_sums(const json_t *root, const char *where, struct records *r, struct err *e)
{
    json_t *list = NULL;
    int rc = json_field_arr(root, where, "xxh3", false, &list, e);
    if (rc || !list)
        return rc;
    if (json_array_size(list) != r->n)
        return ERR(e, E_FORMAT, "%s.xxh3: has %zu entries, want %zu (records)", where,
                   json_array_size(list), r->n);
    uint64_t *sum = mem_array(r->n, sizeof *sum);
    if (!sum)
        return ERR(e, E_NOMEM, "out of memory for %zu checksums of %s", r->n, where);
    for (size_t i = 0; i < r->n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text || strlen(text) != SUM_DIGITS || strspn(text, "0123456789abcdef") != SUM_DIGITS) {
            mem_free(sum);
            return ERR(e, E_FORMAT, "%s.xxh3[%zu]: want 16 hexadecimal digits", where, i);
        }
        sum[i] = strtoull(text, NULL, 16);
    }
    r->sum = sum;
    return 0;
}

int records_open(const char *dir, const struct manifest *m, int bits, const struct records *q4,
                 struct records *out, struct err *e)
{
    struct records r;
    struct err why = {0};
    records_layout(&m->experts, bits, &r);
    r.path = file_join(dir, records_file(bits));
    int rc = r.path ? 0 : err_set(&why, E_NOMEM, "out of memory opening %s", dir);
    if (!rc && bits < 4)
        rc = read_manifest(dir, m, &r, &why);
    if (!rc)
        rc = open_file(&r, &why);
    if (!rc && bits < 4)
        rc = check_samples(m, q4, &r, &why);
    r.present = !rc;
    r.why = why;
    if (rc)
        map_close(&r.map);
    if (why.code == E_NOMEM) {
        records_close(&r);
        return ERR(e, E_NOMEM, "%s", why.msg);
    }
    *out = r;
    return 0;
}

void records_close(struct records *r)
{
    map_close(&r->map);
    mem_free(r->path);
    mem_free(r->sum);
    *r = (struct records){0};
}

static int open_file(struct records *r, struct err *why)
{
    if (!file_exists(r->path))
        return ERR(why, E_NOTFOUND, "%s: is not there", r->path);
    int rc = map_open(r->path, &r->map, why);
    if (rc || r->map.size >= r->n * r->stride)
        return rc;
    return ERR(why, E_FORMAT,
               "%s: has %zu bytes, want %" PRIu64 " by its manifest: it is cut short; copy or pack "
               "it again",
               r->path, r->map.size, (uint64_t)(r->n * r->stride));
}

/* Both name the store that they are of or were made of: manifests of ours. */
static bool is_stale(const struct manifest *m, const struct records *r, const char *source)
{
    const char *seal = json_string_value(json_object_get(m->root, "seal"));
    return r->sum && seal && source && strcmp(seal, source) != 0;
}

static int read_manifest(const char *dir, const struct manifest *m, struct records *r,
                         struct err *why)
{
    json_t *root = NULL;
    const char *source = NULL;
    char *path = file_join(dir, records_manifest(r->bits));
    int rc = path ? 0 : err_set(why, E_NOMEM, "out of memory opening %s", dir);
    if (!rc && !file_exists(path))
        rc = ERR(why, E_NOTFOUND, "%s: there are no experts of %d bits", dir, r->bits);
    if (!rc)
        rc = json_read_file(path, FILE_BYTES_MAX, &root, why);
    if (!rc)
        rc = records_parse(root, path, r, &source, why);
    if (!rc && is_stale(m, r, source))
        rc = ERR(why, E_FORMAT, "%s: was made of another store (%.20s)", path, source);
    json_decref(root);
    mem_free(path);
    return rc;
}

static int check_sample(const struct manifest *m, const struct records *q4, const struct records *r,
                        size_t i, uint8_t *room, struct err *why)
{
    const uint8_t *record = records_at(r, i);
    if (q4->present) {
        records_reduce(&m->experts, records_at(q4, i), r, room);
        if (memcmp(record, room, (size_t)r->bytes) == 0)
            return 0;
        return ERR(why, E_FORMAT, "%s: record %zu is not what record %zu of %s makes", r->path, i,
                   i, records_file(4));
    }
    if (XXH3_64bits(record, (size_t)r->stride) == r->sum[i])
        return 0;
    return ERR(why, E_FORMAT, "%s: record %zu does not have its checksum", r->path, i);
}

/* Four records say enough: a copy of another store, or an unfinished one, differs in them. */
static int check_samples(const struct manifest *m, const struct records *q4,
                         const struct records *r, struct err *why)
{
    const size_t samples[SAMPLES] = {0, r->n / 3, 2 * r->n / 3, r->n - 1};
    if (!q4->present && !r->sum)
        return ERR(why, E_FORMAT, "%s: neither %s nor checksums are there to compare it with",
                   r->path, records_file(4));
    uint8_t *room = mem_alloc((size_t)r->stride);
    int rc = room ? 0 : ERR(why, E_NOMEM, "out of memory checking %s", r->path);
    for (int k = 0; !rc && k < SAMPLES; k++)
        rc = check_sample(m, q4, r, samples[k], room, why);
    mem_free(room);
    return rc;
}
