/* Drives a prebuilt libllama (llama.cpp v0.5.0, loaded at run time, no headers) for bench/peer.sh.
 *
 *   peer_llama bench  LIBDIR MODEL.gguf [-p 512] [-n 64] [-r 3] [-t 2] [-ngl 0] [-ub 512]
 *                     [--no-repack] [--no-warmup]
 *   peer_llama logits LIBDIR MODEL.gguf 1,2,3      the best five next tokens after the last id
 *
 * One JSON line for each repetition: tokens a second, the share of its threads' time that the
 * process got (below 0.95 somebody else had the processors: not to be quoted), bytes read.
 *
 * The structures below are those of that version; defaults at known places are checked at start,
 * so that another version is refused. */
#include <dlfcn.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/rng.h"

enum { TOKENS_MAX = 8192, BEST = 5 };

struct model_params {
    void *devices, *overrides;
    int32_t n_gpu_layers, split_mode, load_mode, lazy_mode, main_gpu;
    const float *tensor_split;
    void *progress, *progress_user, *kv_overrides;
    bool vocab_only, check_tensors, use_extra_bufts, no_host, no_alloc, load_mtp;
};

struct context_params {
    uint32_t n_ctx, n_batch, n_ubatch, n_seq_max, n_rs_seq, n_outputs_max, n_outputs_max_per_seq;
    int32_t n_threads, n_threads_batch, ctx_type, rope_scaling, pooling, attention, flash_attention;
    float rope_base, rope_scale, yarn_ext, yarn_attn, yarn_fast, yarn_slow;
    uint32_t yarn_orig_ctx;
    float defrag;
    void *eval, *eval_user;
    int32_t type_k, type_v;
    void *abort, *abort_user;
    bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified;
    void *samplers;
    size_t n_samplers;
    void *other;
};

struct batch {
    int32_t n_tokens;
    int32_t *token;
    float *embd;
    int32_t *pos, *n_seq_id;
    int32_t **seq_id;
    int8_t *logits;
};
_Static_assert(sizeof(struct model_params) == 80 && sizeof(struct context_params) == 160 &&
                   sizeof(struct batch) == 56,
               "layouts of llama.cpp v0.5.0");

/* The functions used, under their names behind "llama_" or "ggml_". */
static struct {
    void *(*model_defaults)(struct model_params *);
    void *(*context_defaults)(struct context_params *);
    void (*log_set)(void (*)(int, const char *, void *), void *);
    void (*backend_init)(void);
    void (*load_backends)(const char *);
    void *(*load)(const char *, struct model_params);
    void *(*open)(void *, struct context_params);
    const void *(*vocab)(const void *);
    int32_t (*n_vocab)(const void *);
    int32_t (*decode)(void *, struct batch);
    float *(*logits)(void *, int32_t);
    void *(*memory)(const void *);
    void (*clear)(void *, bool);
    void (*wait)(void *);
    int (*load_mode)(const char *);
} api;

struct run {
    const char *lib, *model;
    int prompt, tokens, repetitions, threads;
    int gpu_layers, chunk; /* layers on the device; tokens that a prompt is cut into */
    bool repack, warm_up;
    void *context;
    int n_vocab;
    int32_t token[TOKENS_MAX], pos[TOKENS_MAX], n_seq[TOKENS_MAX], *seq[TOKENS_MAX];
    int8_t wanted[TOKENS_MAX];
};

static void die(const char *what, const char *which)
{
    fprintf(stderr, "peer_llama: %s %s\n", what, which);
    exit(1);
}

static void on_log(int level, const char *text, void *user)
{
    (void)user;
    if (level >= 4)
        fputs(text, stderr);
}

static void *open_one(const char *dir, const char *stem)
{
    char pattern[1024];
    glob_t g;
    snprintf(pattern, sizeof pattern, "%s/%s.*so", dir, stem); /* libllama.so, libllama.v1.so */
    if (glob(pattern, 0, NULL, &g) || !g.gl_pathc)
        die("there is no library", pattern);
    void *h = dlopen(g.gl_pathv[0], RTLD_NOW | RTLD_GLOBAL);
    if (!h)
        die("dlopen:", dlerror());
    globfree(&g);
    return h;
}

static void open_library(const char *dir)
{
    void *base = open_one(dir, "libggml-base"), *ggml = open_one(dir, "libggml");
    void *llama = open_one(dir, "libllama");
    const struct {
        void *from;
        const char *name;
        void *to;
    } symbols[] = {
        {llama, "llama_model_default_params", &api.model_defaults},
        {llama, "llama_context_default_params", &api.context_defaults},
        {llama, "llama_log_set", &api.log_set},
        {llama, "llama_backend_init", &api.backend_init},
        {ggml, "ggml_backend_load_all_from_path", &api.load_backends},
        {llama, "llama_model_load_from_file", &api.load},
        {llama, "llama_init_from_model", &api.open},
        {llama, "llama_model_get_vocab", &api.vocab},
        {llama, "llama_vocab_n_tokens", &api.n_vocab},
        {llama, "llama_decode", &api.decode},
        {llama, "llama_get_logits_ith", &api.logits},
        {llama, "llama_get_memory", &api.memory},
        {llama, "llama_memory_clear", &api.clear},
        {llama, "llama_synchronize", &api.wait},
        {llama, "llama_load_mode_from_str", &api.load_mode},
    };
    (void)base;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(symbols[i].from, symbols[i].name);
        if (!found)
            die("the library has no", symbols[i].name);
        memcpy(symbols[i].to, &found, sizeof found);
    }
    api.log_set(on_log, NULL);
    api.load_backends(dir);
    api.backend_init();
}

static void open_model(struct run *r)
{
    struct model_params m;
    struct context_params c;
    open_library(r->lib);
    api.model_defaults(&m);
    api.context_defaults(&c);
    if (m.n_gpu_layers != -1 || m.split_mode != 1 || !m.use_extra_bufts || m.load_mtp ||
        c.n_ctx != 512 || c.n_batch != 2048 || c.n_ubatch != 512 || c.type_k != 1 ||
        c.yarn_ext != -1)
        die("unexpected defaults: another version of", r->lib);
    m.n_gpu_layers = r->gpu_layers;
    m.load_mode = api.load_mode("mmap");
    m.use_extra_bufts = r->repack;
    void *model = api.load(r->model, m);
    if (!model)
        die("cannot load", r->model);
    int need = r->prompt > r->tokens ? r->prompt : r->tokens;
    c.n_ctx = c.n_batch = (uint32_t)(need + 8 + 255) / 256 * 256;
    c.n_ubatch = (uint32_t)r->chunk;
    c.n_threads = c.n_threads_batch = r->threads;
    r->context = api.open(model, c);
    if (!r->context)
        die("cannot make a context for", r->model);
    r->n_vocab = api.n_vocab(api.vocab(model));
}

/* n tokens of r->token from `first` on, at positions from pos on. */
static void feed(struct run *r, int first, int n, int pos)
{
    static int32_t zero;
    for (int i = 0; i < n; i++) {
        r->pos[i] = pos + i;
        r->n_seq[i] = 1;
        r->seq[i] = &zero;
        r->wanted[i] = i == n - 1;
    }
    struct batch b = {n, r->token + first, NULL, r->pos, r->n_seq, r->seq, r->wanted};
    if (api.decode(r->context, b))
        die("decoding failed:", r->model);
    api.wait(r->context);
}

static double processor_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static double read_bytes(void)
{
    char line[128];
    double bytes = 0;
    FILE *f = fopen("/proc/self/io", "r");
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "read_bytes: %lf", &bytes);
    if (f)
        fclose(f);
    return bytes;
}

static void repeat(struct run *r, const char *test, int n, int step, bool show)
{
    static uint64_t drawn; /* every repetition has tokens of its own */
    for (int k = 0; k < n; k++)
        r->token[k] = (int32_t)(rng_at(0, drawn++) % (uint64_t)r->n_vocab);
    api.clear(api.memory(r->context), true);
    double used = processor_seconds(), bytes = read_bytes();
    uint64_t start = clock_ns();
    for (int i = 0; i < n; i += step)
        feed(r, i, step, i);
    double seconds = clock_seconds_since(start);
    if (!show)
        return;
    printf(
        "{\"test\": \"%s\", \"tokens\": %d, \"tok_s\": %.3f, \"share\": %.3f, \"read_mb\": %.1f}\n",
        test, n, n / seconds, (processor_seconds() - used) / seconds / r->threads,
        (read_bytes() - bytes) * 1e-6);
    fflush(stdout);
}

static void bench(struct run *r)
{
    if (r->warm_up && r->prompt)
        repeat(r, "prefill", r->prompt, r->prompt, false);
    for (int i = 0; i < r->repetitions && r->prompt; i++)
        repeat(r, "prefill", r->prompt, r->prompt, true);
    if (r->warm_up && r->tokens)
        repeat(r, "decode", 4, 1, false);
    for (int i = 0; i < r->repetitions && r->tokens; i++)
        repeat(r, "decode", r->tokens, 1, true);
}

static void logits(struct run *r, const char *list)
{
    int n = 0;
    for (char *at = (char *)(uintptr_t)list; *at && n < TOKENS_MAX; at += *at == ',')
        r->token[n++] = (int32_t)strtol(at, &at, 10);
    feed(r, 0, n, 0);
    float *x = api.logits(r->context, n - 1);
    for (int k = 0; k < BEST; k++) {
        int best = 0;
        for (int i = 1; i < r->n_vocab; i++)
            best = x[i] > x[best] ? i : best;
        printf("%s%d %.4f", k ? "  " : "", best, (double)x[best]);
        x[best] = -1e30f;
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    static struct run r = {.prompt = 512,
                           .tokens = 64,
                           .repetitions = 3,
                           .threads = 2,
                           .chunk = 512,
                           .repack = true,
                           .warm_up = true};
    if (argc < 4 || (strcmp(argv[1], "logits") == 0 && argc != 5))
        die("usage:", "bench|logits LIBDIR MODEL.gguf ...");
    r.lib = argv[2];
    r.model = argv[3];
    bool just_logits = strcmp(argv[1], "logits") == 0;
    const struct {
        const char *name;
        int *to;
    } numbers[] = {{"-p", &r.prompt},  {"-n", &r.tokens},       {"-r", &r.repetitions},
                   {"-t", &r.threads}, {"-ngl", &r.gpu_layers}, {"-ub", &r.chunk}};
    for (int i = 4; i < argc && !just_logits; i++) {
        r.repack = r.repack && strcmp(argv[i], "--no-repack") != 0;
        r.warm_up = r.warm_up && strcmp(argv[i], "--no-warmup") != 0;
        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
            if (strcmp(argv[i], numbers[k].name) == 0 && i + 1 < argc)
                *numbers[k].to = atoi(argv[++i]);
    }
    if (r.prompt > TOKENS_MAX || r.tokens > TOKENS_MAX)
        die("too many tokens:", "at most 8192");
    open_model(&r);
    if (just_logits)
        logits(&r, argv[4]);
    else
        bench(&r);
    fflush(stdout);
    _Exit(0); /* the library's own threads need no farewell */
}
