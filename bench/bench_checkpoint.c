/* Checkpoints: how long a header takes, beside the general JSON parser on the same text, and how
 * long a folder takes to open.
 *
 *   bench_checkpoint [FOLDER]
 *
 * The header is made up: 40,000 tensors under the names that FP8 experts have. Times are of the
 * processor; the best of several runs. */
#include <stdio.h>
#include <time.h>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

enum { TENSORS = 40000, RUNS = 5 };

static double ms_since(clock_t start)
{
    return (double)(clock() - start) / CLOCKS_PER_SEC * 1e3;
}

static void make_header(struct buf *b)
{
    buf_putc(b, '{');
    for (int i = 0; i < TENSORS; i++)
        buf_printf(b,
                   "%s\"model.language_model.layers.0.mlp.experts.%d.gate_proj.weight_scale_inv\":"
                   "{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[%d,%d]}",
                   i ? "," : "", i, i * 8, i * 8 + 8);
    buf_putc(b, '}');
}

static int measure_header(struct err *e)
{
    struct buf b = BUF_INIT;
    double scanned = 1e9, parsed = 1e9;
    make_header(&b);
    int rc = buf_check(&b, e);
    for (int i = 0; i < RUNS && !rc; i++) {
        struct safetensors s;
        json_t *root;
        clock_t start = clock();
        rc = safetensors_parse(b.data, b.len, 8 + b.len + TENSORS * 8, "header", &s, e);
        double took = ms_since(start);
        scanned = took < scanned ? took : scanned;
        safetensors_free(&s);
        start = clock();
        if (!rc)
            rc = json_parse(b.data, b.len, "header", &root, e);
        if (!rc)
            json_decref(root);
        took = ms_since(start);
        parsed = took < parsed ? took : parsed;
    }
    if (!rc)
        printf("header of %d tensors, %.1f MB: %.1f ms; the general parser: %.1f ms\n", TENSORS,
               (double)b.len * 1e-6, scanned, parsed);
    buf_free(&b);
    return rc;
}

static int measure_folder(const char *dir, struct err *e)
{
    double best = 1e9;
    for (int i = 0; i < RUNS; i++) {
        struct checkpoint *c;
        clock_t start = clock();
        int rc = checkpoint_open(dir, &c, e);
        if (rc)
            return rc;
        double took = ms_since(start);
        best = took < best ? took : best;
        if (i + 1 == RUNS)
            printf("%s: %zu tensors in %d files, opened in %.1f ms\n", dir, c->n_tensors,
                   c->n_files, best);
        checkpoint_close(c);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    if (measure_header(&e) || measure_folder(argc > 1 ? argv[1] : "models/demo", &e)) {
        fprintf(stderr, "bench_checkpoint: %s\n", e.msg);
        return 1;
    }
    return 0;
}
