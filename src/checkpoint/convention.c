/* Raw or folded norms: see convention.h. */
#include "checkpoint/convention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "checkpoint/names.h"
#include "quant/half.h"

#define CONFIG_BYTES_MAX (16 << 20)
#define NORM_BYTES_MAX   (16 << 20)
#define MARKER           "mererun_conversion" /* left by a converter that folds */
#define PROBED           ".attn_hyper_connection.hc_norm.weight"

/* Bands of the probe. Raw norms lie around 0, folded ones around 1; training moves them (by layer,
 * 0.91 to 1.33 in the demo model, folded), and between the bands nothing is said. */
#define RAW_MAX    0.4
#define FOLDED_MIN 0.6
#define FOLDED_MAX 2.5

enum marker { MARKER_NONE, MARKER_CONVERTER, MARKER_ORIGINAL };

static const struct {
    enum norm_convention norms;
    const char *because;
} markers[] = {
    [MARKER_CONVERTER] = {NORMS_FOLDED, MARKER " in its metadata"},
    [MARKER_ORIGINAL] = {NORMS_RAW, "its experts are stored as in the originals"},
};

static int find_marker(const struct checkpoint *c, enum marker *out, struct err *e);
static int probe_norms(const struct checkpoint *c, double *median, size_t *n, struct err *e);

int convention_detect(const struct checkpoint *c, struct convention *out, struct err *e)
{
    struct convention v = {0};
    enum marker m;
    size_t n;
    int rc = find_marker(c, &m, e);
    if (!rc)
        rc = probe_norms(c, &v.probe, &n, e);
    if (rc)
        return rc;
    bool raw = n && fabs(v.probe) <= RAW_MAX;
    bool folded = n && v.probe >= FOLDED_MIN && v.probe <= FOLDED_MAX;
    if (m == MARKER_NONE && !n)
        return ERR(
            e, E_NOTFOUND,
            "%s: holds no layers.N%s to tell whether its norms are raw or folded: say it with "
            "--norms raw|folded",
            c->dir, PROBED);
    if (m == MARKER_NONE && !raw && !folded)
        return ERR(
            e, E_UNSUPPORTED,
            "%s: cannot tell whether its norms are raw or folded: the median of hc_norm over "
            "%zu layers is %.3f, want about 0 or about 1: say it with --norms raw|folded",
            c->dir, n, v.probe);
    if (m == MARKER_NONE) {
        v.norms = raw ? NORMS_RAW : NORMS_FOLDED;
        snprintf(v.because, sizeof v.because, "the median of hc_norm over %zu layers is %.3f", n,
                 v.probe);
    } else {
        v.norms = markers[m].norms;
        bool against = v.norms == NORMS_RAW ? folded : raw;
        snprintf(v.because, sizeof v.because, "%s%s", markers[m].because,
                 against ? ", though the values of its norms look otherwise" : "");
    }
    *out = v;
    return 0;
}

int convention_is_folded_norm(const char *canonical)
{
    static const char *const leaves[] = {"hc_norm",     "q_norm",   "k_norm",     "q_layernorm",
                                         "k_layernorm", "norm_key", "norm_query", "norm_conv"};
    const char *suffix = strrchr(canonical, '.'), *leaf = suffix;
    if (!suffix || strcmp(suffix, ".weight") != 0)
        return 0;
    while (leaf > canonical && leaf[-1] != '.')
        leaf--;
    for (size_t i = 0; i < sizeof leaves / sizeof leaves[0]; i++) {
        if ((size_t)(suffix - leaf) == strlen(leaves[i]) &&
            memcmp(leaf, leaves[i], strlen(leaves[i])) == 0)
            return 1;
    }
    return 0;
}

/* The BF16 original holds gate and up of all experts in one tensor per layer, the FP8 one holds
 * each expert by itself; converters to MLX do neither. */
static bool is_original(const struct checkpoint *c)
{
    for (size_t i = 0; i < c->n_tensors; i++) {
        struct name_info info;
        name_parse(c->tensors[i].name, &info);
        if (info.kind == NAME_EXPERT || (info.kind == NAME_EXPERTS && info.matrix == NAME_GATE_UP))
            return true;
    }
    return false;
}

static int find_in_json(const char *text, size_t n, const char *where, enum marker *m,
                        struct err *e)
{
    json_t *v;
    int rc = json_parse(text, n, where, &v, e);
    if (!rc && json_object_get(v, MARKER))
        *m = MARKER_CONVERTER;
    json_decref(v);
    return rc;
}

static int find_in_config(const struct checkpoint *c, enum marker *m, struct err *e)
{
    struct buf text = BUF_INIT;
    int rc = 0;
    char *path = file_join(c->dir, "config.json");
    if (!path)
        return ERR(e, E_NOMEM, "%s: no memory to open its config.json", c->dir);
    if (file_exists(path))
        rc = file_read_all(path, CONFIG_BYTES_MAX, &text, e);
    if (!rc && text.len)
        rc = find_in_json(text.data, text.len, path, m, e);
    buf_free(&text);
    mem_free(path);
    return rc;
}

static int find_marker(const struct checkpoint *c, enum marker *out, struct err *e)
{
    *out = MARKER_NONE;
    int rc = find_in_config(c, out, e);
    for (int i = 0; i < c->n_files && !rc && *out == MARKER_NONE; i++) {
        if (c->metadata[i])
            rc = find_in_json(c->metadata[i], strlen(c->metadata[i]), c->files[i].path, out, e);
    }
    if (!rc && *out == MARKER_NONE && is_original(c))
        *out = MARKER_ORIGINAL;
    return rc;
}

static float element(const void *data, enum dtype type, size_t i)
{
    switch (type) {
    case DTYPE_BF16:
        return bf16_to_f32(((const uint16_t *)data)[i]);
    case DTYPE_F16:
        return f16_to_f32(((const uint16_t *)data)[i]);
    default:
        return ((const float *)data)[i];
    }
}

static int read_mean(const struct checkpoint *c, const struct tensor *t, double *mean,
                     struct err *e)
{
    const char *path = c->files[t->file].path;
    size_t n = (size_t)(t->nbytes / dtype_bytes(t->dtype));
    double sum = 0;
    if (t->dtype != DTYPE_BF16 && t->dtype != DTYPE_F16 && t->dtype != DTYPE_F32)
        return ERR(e, E_UNSUPPORTED, "%s: %s: is %s, want a norm in BF16, F16 or F32", path,
                   t->name, dtype_name(t->dtype));
    if (!n || t->nbytes > NORM_BYTES_MAX)
        return ERR(e, E_FORMAT, "%s: %s: has %zu elements, which no norm has", path, t->name, n);
    void *data = mem_alloc((size_t)t->nbytes);
    if (!data)
        return ERR(e, E_NOMEM, "%s: no memory to read %s", path, t->name);
    int rc = checkpoint_read(c, t, 0, data, (size_t)t->nbytes, e);
    for (size_t i = 0; i < n && !rc; i++)
        sum += (double)element(data, t->dtype, i);
    mem_free(data);
    *mean = sum / (double)n;
    if (!rc && !isfinite(*mean))
        rc = ERR(e, E_NONFINITE, "%s: %s: holds NaN or infinity: download it again", path, t->name);
    return rc;
}

static bool is_probed(const char *published)
{
    struct name_info info;
    name_parse(published, &info);
    size_t n = strlen(info.canonical), tail = strlen(PROBED);
    return info.kind == NAME_DENSE && !info.mtp && n > tail &&
           strcmp(info.canonical + n - tail, PROBED) == 0;
}

static int compare_doubles(const void *pa, const void *pb)
{
    double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

static int probe_norms(const struct checkpoint *c, double *median, size_t *n, struct err *e)
{
    double *mean = mem_array(c->n_tensors, sizeof *mean);
    int rc = 0;
    *n = 0;
    *median = 0;
    if (!mean)
        return ERR(e, E_NOMEM, "%s: no memory to look at its norms", c->dir);
    for (size_t i = 0; i < c->n_tensors && !rc; i++) {
        if (is_probed(c->tensors[i].name))
            rc = read_mean(c, &c->tensors[i], &mean[(*n)++], e);
    }
    if (!rc && *n) {
        qsort(mean, *n, sizeof *mean, compare_doubles);
        *median = (mean[(*n - 1) / 2] + mean[*n / 2]) / 2;
    }
    mem_free(mean);
    return rc;
}
