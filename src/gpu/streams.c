/* Dispatches of what works on streams: embed.comp, ple_gate.comp, ple_mix.comp, mtp_norm.comp,
 * mtp_add.comp. */
#include "gpu/mix.h"

enum { COLUMNS = 256 }; /* of a workgroup */

static int columns(int n)
{
    return (n + COLUMNS - 1) / COLUMNS;
}

int ple_mix(const struct mix *m, const struct ple_params *p, int n_segments, struct err *e)
{
    const struct config *c = m->config;
    int R = (int)p->n, keep = c->ngram_size * (c->ple_kernel - 1);
    const uint32_t of_gate[] = {(uint32_t)c->h, (uint32_t)c->S};
    const uint32_t of_mix[] = {(uint32_t)(c->S * c->h), (uint32_t)c->ple_kernel,
                               (uint32_t)c->ngram_size};
    const struct grid gate_groups = {c->S, R, 1};
    const struct grid mix_groups = {columns(c->S * c->h), R + n_segments * keep, 1};
    const struct kernel *gate, *mix;
    int rc = device_kernel(m->device, "ple_gate", of_gate, 2, &gate, e);
    if (!rc)
        rc = device_kernel(m->device, "ple_mix", of_mix, 3, &mix, e);
    if (rc)
        return rc;
    tape_dispatch(m->tape, gate, p, sizeof *p, gate_groups);
    tape_barrier(m->tape);
    tape_dispatch(m->tape, mix, p, sizeof *p, mix_groups);
    return 0;
}

int embed_rows(const struct mix *m, const struct embed_params *p, const struct matrix *embed, int R,
               struct err *e)
{
    const struct config *c = m->config;
    const uint32_t constants[] = {(uint32_t)c->h, (uint32_t)c->S, (uint32_t)embed->format,
                                  (uint32_t)embed->group};
    const struct grid groups = {columns(c->h), R, 1};
    const struct kernel *k;
    int rc = device_kernel(m->device, "embed", constants, 4, &k, e);
    if (!rc)
        tape_dispatch(m->tape, k, p, sizeof *p, groups);
    return rc;
}

int mtp_norm(const struct mix *m, const struct mtp_norm_params *p, const struct matrix *embed,
             const struct mtp_form *form, int R, struct err *e)
{
    const struct config *c = m->config;
    const uint32_t constants[] = {(uint32_t)c->h,
                                  (uint32_t)c->S,
                                  (uint32_t)embed->format,
                                  (uint32_t)embed->group,
                                  form->norm == MTP_NORM_ALL,
                                  form->embed_codes,
                                  form->stream_codes};
    const struct grid groups = {c->S + 1, R, 1};
    const struct kernel *k;
    int rc = device_kernel(m->device, "mtp_norm", constants, 7, &k, e);
    if (!rc)
        tape_dispatch(m->tape, k, p, sizeof *p, groups);
    return rc;
}

int mtp_add(const struct mix *m, const struct mtp_add_params *p, int R, struct err *e)
{
    const uint32_t constants[] = {(uint32_t)m->config->h, (uint32_t)m->config->S};
    const struct grid groups = {columns(m->config->h), R, 1};
    const struct kernel *k;
    int rc = device_kernel(m->device, "mtp_add", constants, 2, &k, e);
    if (!rc)
        tape_dispatch(m->tape, k, p, sizeof *p, groups);
    return rc;
}
