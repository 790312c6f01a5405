/* cherenkov inspect: what a checkpoint or a store holds, what is missing, unused and skipped. The
 * facts are gathered into one JSON value; --json prints it, and the text is made from it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "pack/plan.h"
#include "pack/structure.h"

enum { NAMES_SHOWN = 10 }; /* of each kind of problem, in the text */

static const char *const problem_keys[PROBLEM_COUNT] = {
    [PROBLEM_ENCODING] = "refused", [PROBLEM_MISSING] = "missing", [PROBLEM_UNKNOWN] = "unknown",
    [PROBLEM_UNUSED] = "unused",    [PROBLEM_NORMS] = "undecided",
};

static const char *const kind_words[] = {
    [NAME_DENSE] = "dense", [NAME_EXPERTS] = "experts", [NAME_EXPERT] = "expert",
    [NAME_NGRAM] = "ngram", [NAME_VISION] = "vision",   [NAME_UNKNOWN] = "unknown",
};

static json_t *integer(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *tensor_json(const char *name, enum dtype dtype, const uint64_t *shape, int n_dims,
                           uint64_t bytes)
{
    json_t *o = json_object(), *dims = json_array();
    for (int i = 0; i < n_dims; i++)
        json_array_append_new(dims, integer(shape[i]));
    json_object_set_new(o, "name", json_string(name));
    json_object_set_new(o, "dtype", json_string(dtype_name(dtype)));
    json_object_set_new(o, "shape", dims);
    json_object_set_new(o, "bytes", integer(bytes));
    return o;
}

/* Adds to o[key] = {"tensors", "bytes"}. */
static void tally(json_t *o, const char *key, uint64_t bytes)
{
    json_t *at = json_object_get(o, key);
    if (!at) {
        at = json_object();
        json_object_set_new(o, key, at);
        json_object_set_new(at, "tensors", json_integer(0));
        json_object_set_new(at, "bytes", json_integer(0));
    }
    json_int_t n = json_integer_value(json_object_get(at, "tensors"));
    json_int_t sum = json_integer_value(json_object_get(at, "bytes"));
    json_object_set_new(at, "tensors", json_integer(n + 1));
    json_object_set_new(at, "bytes", json_integer(sum + (json_int_t)bytes));
}

static json_t *model_json(const struct config *c)
{
    json_t *o = json_object();
    int n_attention = 0;
    for (int il = 0; il < c->n_layers; il++)
        n_attention += c->attention[il];
    json_object_set_new(o, "layers", json_integer(c->n_layers));
    json_object_set_new(o, "attention_layers", json_integer(n_attention));
    json_object_set_new(o, "draft_layers", json_integer(c->n_mtp));
    json_object_set_new(o, "hidden", json_integer(c->h));
    json_object_set_new(o, "vocabulary", json_integer(c->vocab));
    json_object_set_new(o, "experts", json_integer(c->E));
    json_object_set_new(o, "experts_per_token", json_integer(c->K));
    json_object_set_new(o, "expert_width", json_integer(c->inter));
    json_object_set_new(o, "ngram_tables", json_integer(c->n_ple));
    return o;
}

static json_t *files_json(const uint64_t bytes[PIECE_FILES])
{
    json_t *o = json_object();
    for (int i = 0; i < PIECE_FILES; i++)
        if (bytes[i])
            json_object_set_new(o, piece_file_names[i], integer(bytes[i]));
    return o;
}

static json_t *problems_json(const struct plan *p)
{
    json_t *o = json_object();
    for (int k = 0; k < PROBLEM_COUNT; k++)
        json_object_set_new(o, problem_keys[k], json_array());
    for (size_t i = 0; i < p->n_problems; i++)
        json_array_append_new(json_object_get(o, problem_keys[p->problems[i].kind]),
                              json_string(p->problems[i].text));
    return o;
}

static json_t *norms_json(const struct plan *p)
{
    json_t *o = json_object();
    json_object_set_new(o, "convention",
                        json_string(p->norms.norms == NORMS_RAW ? "raw" : "folded"));
    json_object_set_new(o, "because", json_string(p->norms.because));
    return o;
}

static int checkpoint_json(const char *path, const struct plan_choices *choices, json_t *root,
                           struct err *e)
{
    struct plan *p;
    int rc = plan_open(path, choices, &p, e);
    if (rc)
        return rc;
    json_t *tensors = json_array(), *types = json_object(), *fates = json_object();
    for (size_t i = 0; i < p->source.n; i++) {
        const struct source_tensor *s = &p->source.at[i];
        const struct tensor *t = s->tensor;
        json_t *o = tensor_json(t->name, t->dtype, t->shape, t->n_dims, t->nbytes);
        json_object_set_new(o, "kind", json_string(kind_words[s->info.kind]));
        json_object_set_new(o, "file", json_string(p->checkpoint->files[t->file].path));
        json_array_append_new(tensors, o);
        tally(types, dtype_name(t->dtype), t->nbytes);
    }
    for (int f = 0; f < FATE_COUNT; f++) {
        json_t *o = json_object();
        json_object_set_new(o, "tensors", integer(p->fate[f].tensors));
        json_object_set_new(o, "bytes", integer(p->fate[f].bytes));
        json_object_set_new(fates, plan_fate_name((enum plan_fate)f), o);
    }
    json_object_set_new(root, "kind", json_string("checkpoint"));
    json_object_set_new(root, "path", json_string(p->checkpoint->dir));
    json_object_set_new(root, "files", json_integer(p->checkpoint->n_files));
    json_object_set_new(root, "bytes", integer(p->checkpoint->nbytes));
    json_object_set_new(root, "encoding", json_string(plan_encoding(p)));
    json_object_set_new(root, "model", model_json(&p->config));
    json_object_set_new(root, "norms", norms_json(p));
    json_object_set_new(root, "types", types);
    json_object_set_new(root, "fates", fates);
    json_object_set_new(root, "problems", problems_json(p));
    json_object_set_new(root, "packs_to", files_json(p->bytes));
    json_object_set_new(root, "tensors", tensors);
    plan_close(p);
    return 0;
}

static void note_problem(void *ctx, enum structure_problem kind, const char *text)
{
    static const char *const keys[STRUCTURE_PROBLEMS] = {[STRUCTURE_MISSING] = "missing",
                                                         [STRUCTURE_WRONG] = "wrong",
                                                         [STRUCTURE_UNUSED] = "unused"};
    json_t *list = json_object_get(ctx, keys[kind]);
    if (!list) {
        list = json_array();
        json_object_set_new(ctx, keys[kind], list);
    }
    json_array_append_new(list, json_string(text));
}

/* Files of copies in fewer bits, and why one cannot be used. */
static void note_copies(const struct store *s, json_t *files, json_t *problems)
{
    for (int bits = 3; bits >= RECORDS_BITS_MIN; bits--) {
        const struct records *r = &s->records[bits];
        if (r->present)
            json_object_set_new(files, records_file(bits), integer(r->map.size));
        else if (r->why.code != E_NOTFOUND)
            json_object_set_new(problems, records_file(bits), json_pack("[s]", r->why.msg));
    }
}

static int store_json(const char *path, json_t *root, struct err *e)
{
    struct store *s = NULL;
    json_t *problems = json_object();
    int rc = store_open(path, &s, e);
    json_object_set_new(root, "problems", problems);
    if (!rc)
        rc = structure_check(s, note_problem, problems, e);
    if (rc) {
        store_close(s);
        return rc;
    }
    const struct manifest *m = &s->manifest;
    const uint64_t bytes[PIECE_FILES] = {s->dense.size, s->experts.size, s->ngram.size};
    json_t *tensors = json_array(), *types = json_object();
    json_t *records = json_object(), *rows = json_object();
    for (size_t i = 0; i < m->n_dense; i++) {
        const struct dense_entry *d = &m->dense[i];
        json_t *o = tensor_json(d->name, d->dtype, d->shape, d->n_dims, d->nbytes);
        json_object_set_new(o, "offset", integer(d->offset));
        json_array_append_new(tensors, o);
        tally(types, dtype_name(d->dtype), d->nbytes);
    }
    json_object_set_new(records, "layers", json_integer(m->experts.n_layers));
    json_object_set_new(records, "experts", json_integer(m->experts.E));
    json_object_set_new(records, "record_bytes", integer(m->experts.bytes));
    json_object_set_new(records, "record_stride", integer(m->experts.stride));
    json_object_set_new(rows, "rows", integer(m->ngram.rows));
    json_object_set_new(rows, "row_bytes", json_integer(m->ngram.row_bytes));
    json_object_set_new(root, "kind", json_string("store"));
    json_object_set_new(root, "path", json_string(s->dir));
    json_object_set_new(root, "source", json_string(m->source_dir));
    json_object_set_new(root, "model", model_json(&s->config));
    json_object_set_new(root, "checksums", json_boolean(json_object_get(m->root, "checksums")));
    json_object_set_new(root, "types", types);
    json_object_set_new(root, "data", files_json(bytes));
    note_copies(s, json_object_get(root, "data"), problems);
    json_object_set_new(root, "records", records);
    json_object_set_new(root, "ngram_rows", rows);
    json_object_set_new(root, "tensors", tensors);
    store_close(s);
    return 0;
}

static uint64_t number(const json_t *o, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(o, key));
}

static const char *word(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* Lines "LABEL  N tensors  BYTES bytes  KEY" for {KEY: {tensors, bytes}}. */
static void print_tallies(const char *label, json_t *of)
{
    const char *key;
    json_t *at;
    json_object_foreach(of, key, at) {
        char n[UNITS_ROOM], bytes[UNITS_ROOM];
        if (number(at, "tensors"))
            printf("%-12s %8s tensors %19s bytes  %s\n", label,
                   units_count(n, number(at, "tensors")), units_count(bytes, number(at, "bytes")),
                   key);
    }
}

static void print_files(const char *label, json_t *of)
{
    const char *key;
    json_t *at;
    json_object_foreach(of, key, at) {
        char bytes[UNITS_ROOM];
        printf("%-12s %-16s %19s bytes\n", label, key,
               units_count(bytes, (uint64_t)json_integer_value(at)));
    }
}

static void print_problems(json_t *of)
{
    const char *key;
    json_t *list, *name;
    size_t i;
    json_object_foreach(of, key, list) {
        json_array_foreach(list, i, name) {
            if (i < NAMES_SHOWN)
                printf("%-12s %s\n", key, json_string_value(name));
        }
        if (json_array_size(list) > NAMES_SHOWN)
            printf("%-12s and %zu more (--json lists all)\n", key,
                   json_array_size(list) - NAMES_SHOWN);
    }
}

static void print_text(const json_t *root)
{
    const json_t *m = json_object_get(root, "model"), *norms = json_object_get(root, "norms");
    bool store = strcmp(word(root, "kind"), "store") == 0;
    char n[UNITS_ROOM];
    printf("%-12s %s\n", word(root, "kind"), word(root, "path"));
    if (store)
        printf("%-12s %s\n", "made from", word(root, "source"));
    else
        printf("%-12s %s\n", "encoding", word(root, "encoding"));
    printf("%-12s %d layers (%d of attention), %d draft, hidden %d, vocabulary %s\n", "model",
           (int)number(m, "layers"), (int)number(m, "attention_layers"),
           (int)number(m, "draft_layers"), (int)number(m, "hidden"),
           units_count(n, number(m, "vocabulary")));
    printf("%-12s %d of width %d in a layer, %d used for a token\n", "experts",
           (int)number(m, "experts"), (int)number(m, "expert_width"),
           (int)number(m, "experts_per_token"));
    printf("%-12s %d\n", "n-gram tables", (int)number(m, "ngram_tables"));
    if (norms)
        printf("%-12s %s: %s\n", "norms", word(norms, "convention"), word(norms, "because"));
    print_tallies("type", json_object_get(root, "types"));
    if (store) {
        print_files("file", json_object_get(root, "data"));
        printf("%-12s %s\n", "checksums",
               json_is_true(json_object_get(root, "checksums")) ? "yes" : "none");
    } else {
        print_tallies("packing", json_object_get(root, "fates"));
        print_files("packs to", json_object_get(root, "packs_to"));
    }
    print_problems(json_object_get(root, "problems"));
}

static void print_tensors(const json_t *root)
{
    size_t i, k;
    json_t *t, *dim;
    json_array_foreach(json_object_get(root, "tensors"), i, t) {
        printf("%s\t%s\t", word(t, "name"), word(t, "dtype"));
        json_array_foreach(json_object_get(t, "shape"), k, dim)
            printf("%s%lld", k ? "," : "", (long long)json_integer_value(dim));
        printf("\t%llu\n", (unsigned long long)number(t, "bytes"));
    }
}

static int print_json(const json_t *root, struct err *e)
{
    if (json_dumpf(root, stdout, JSON_INDENT(2)))
        return ERR(e, E_IO, "writing JSON to standard output failed");
    putchar('\n');
    return 0;
}

/* A folder with a manifest is a store; one with tensors of its own a checkpoint; else store_open
 * looks for packed/ in it. */
static int gather(const char *path, const struct plan_choices *choices, json_t *root, struct err *e)
{
    char *manifest = file_join(path, "manifest.json"), *packed = file_join(path, "packed");
    int rc;
    if (!manifest || !packed)
        rc = ERR(e, E_NOMEM, "out of memory opening %s", path);
    else if (file_exists(manifest))
        rc = store_json(path, root, e);
    else
        rc = checkpoint_json(path, choices, root, e);
    if (rc && e->code == E_NOTFOUND && packed && file_is_dir(packed)) {
        err_clear(e);
        rc = store_json(path, root, e);
    }
    mem_free(manifest);
    mem_free(packed);
    return rc;
}

static int run(int argc, char **argv, struct err *e)
{
    bool as_json = false, tensors = false;
    const struct flag flag[] = {
        {"json", FLAG_BOOL, &as_json, NULL, "print everything as one JSON object", 0, 0},
        {"tensors", FLAG_BOOL, &tensors, NULL, "list name, type, shape and bytes of each", 0, 0},
        {0},
    };
    struct flags f = {.command = &cmd_inspect, .flag = flag, .min_args = 1, .max_args = 1};
    const struct plan_choices choices = {.norms = PLAN_NORMS_DETECT};
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    json_t *root = json_object();
    rc = gather(f.args[0], &choices, root, e);
    if (!rc && as_json)
        rc = print_json(root, e);
    else if (!rc && tensors)
        print_tensors(root);
    else if (!rc)
        print_text(root);
    json_decref(root);
    return rc;
}

const struct command cmd_inspect = {"inspect", "PATH", "show what a checkpoint or store holds",
                                    run};
