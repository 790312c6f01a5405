/* Rows of a matrix as Q4: see encode.h. */
#include "pack/encode.h"

#include "pack/finite.h"
#include "quant/half.h"
#include "quant/q4.h"

/* What one read needs, so that the three forms share one signature. */
struct job {
    const struct encode_source *m;
    const struct checkpoint *c;
    const struct encode_scratch *s;
};

static uint64_t groups(const struct encode_source *m)
{
    return m->cols / m->group;
}

/* Rows of scales or biases: read, and checked. */
static int read_bf16(const struct job *j, const struct tensor *t, uint64_t first, uint64_t n,
                     uint16_t *to, struct err *e)
{
    int rc = checkpoint_read(j->c, t, first * 2, to, n * 2, e);
    return rc ? rc : finite_check(t, first, to, n, e);
}

static int read_parts(const struct job *j, struct encode_rows to, struct err *e)
{
    const struct encode_source *m = j->m;
    const uint64_t row = to.first, n = to.n;
    uint64_t code_bytes = m->cols / 2, per_row = m->cols / m->source_group;
    int rc = checkpoint_read(j->c, m->weight, row * code_bytes, to.codes, n * code_bytes, e);
    if (!rc)
        rc = read_bf16(j, m->scales, row * per_row, n * per_row, to.scales, e);
    if (!rc)
        rc = read_bf16(j, m->biases, row * per_row, n * per_row, to.biases, e);
    return rc;
}

/* The values of one row, in groups of m->group, to row i of the result. */
static int encode_row(const struct encode_source *m, const float *values, uint64_t i,
                      struct encode_rows to)
{
    uint64_t n = groups(m);
    for (uint64_t g = 0; g < n; g++) {
        uint8_t *codes = to.codes + (i * m->cols + g * m->group) / 2;
        if (q4_encode_group(values + g * m->group, m->group, codes, &to.scales[i * n + g],
                            &to.biases[i * n + g]))
            return -1;
    }
    return 0;
}

static int too_wide(const struct encode_source *m, uint64_t row, struct err *e)
{
    return ERR(
        e, E_NONFINITE,
        "%s: row %llu spans more than 4-bit codes with a bf16 scale can: the file is damaged "
        "or was badly converted; fetch it again",
        m->weight->name, (unsigned long long)row);
}

static int encode_bf16(const struct job *j, struct encode_rows to, struct err *e)
{
    const struct encode_source *m = j->m;
    const uint64_t row = to.first, n = to.n;
    const uint16_t *raw = (const uint16_t *)(const void *)j->s->raw;
    int rc = checkpoint_read(j->c, m->weight, row * m->cols * 2, j->s->raw, n * m->cols * 2, e);
    for (uint64_t i = 0; i < n && !rc; i++) {
        bf16_widen(raw + i * m->cols, m->cols, j->s->values);
        if (!encode_row(m, j->s->values, i, to))
            continue;
        rc = finite_check(m->weight, (row + i) * m->cols, raw + i * m->cols, m->cols, e);
        if (!rc)
            rc = too_wide(m, row + i, e);
    }
    return rc;
}

static int regroup(const struct job *j, struct encode_rows to, struct err *e)
{
    const struct encode_source *m = j->m;
    const uint64_t n = to.n, per_row = m->cols / m->source_group;
    struct encode_rows from = {.first = to.first, .n = n, .codes = j->s->raw};
    from.scales = (uint16_t *)(void *)(j->s->raw + n * m->cols / 2);
    from.biases = from.scales + n * per_row;
    int rc = read_parts(j, from, e);
    for (uint64_t i = 0; i < n && !rc; i++) {
        q4_decode_row(from.codes + i * m->cols / 2, from.scales + i * per_row,
                      from.biases + i * per_row, m->cols, m->source_group, j->s->values);
        if (encode_row(m, j->s->values, i, to))
            rc = too_wide(m, to.first + i, e);
    }
    return rc;
}

uint64_t encode_row_bytes(const struct encode_source *m)
{
    if (m->form == ENCODE_BF16)
        return m->cols * 2;
    return m->cols / 2 + m->cols / m->source_group * 4;
}

int encode_read(const struct encode_source *m, const struct checkpoint *c, struct encode_rows to,
                const struct encode_scratch *s, struct err *e)
{
    struct job j = {m, c, s};
    if (m->form == ENCODE_COPY)
        return read_parts(&j, to, e);
    const uint64_t n = to.n, step = s->raw_bytes / encode_row_bytes(m);
    for (uint64_t done = 0; done < n; done += step) {
        struct encode_rows part = {to.first + done, n - done < step ? n - done : step,
                                   to.codes + done * m->cols / 2, to.scales + done * groups(m),
                                   to.biases + done * groups(m)};
        int rc = m->form == ENCODE_BF16 ? encode_bf16(&j, part, e) : regroup(&j, part, e);
        if (rc)
            return rc;
    }
    return 0;
}
