/* The pre-tokenizer: see pretoken.h. */
#include "text/pretoken.h"

#include <stdbool.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "text/expression.h"

#define GPT2_EXPRESSION                                                                            \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Backtracking steps allowed for a match: a run of blanks costs one a byte. */
enum { STEPS_MIN = 1000000, STEPS_PER_BYTE = 64 };

static int read_one(struct pretoken *p, const json_t *spec, const char *where, bool last,
                    struct err *e);

static void *context_alloc(size_t bytes, void *ctx)
{
    (void)ctx;
    return mem_alloc(bytes);
}

static void context_free(void *block, void *ctx)
{
    (void)ctx;
    mem_free(block);
}

int pretoken_init(struct pretoken *p, const json_t *spec, const char *where, struct err *e)
{
    *p = (struct pretoken){0};
    p->memory = pcre2_general_context_create(context_alloc, context_free, NULL);
    if (!p->memory)
        return ERR(e, E_NOMEM, "%s: out of memory", where);
    const char *type = "";
    int rc = json_field_str(spec, where, "type", true, &type, e);
    if (!rc && strcmp(type, "Sequence") != 0) {
        rc = read_one(p, spec, where, true, e);
    } else if (!rc) {
        json_t *list = NULL;
        rc = json_field_arr(spec, where, "pretokenizers", true, &list, e);
        size_t n = rc ? 0 : json_array_size(list);
        if (!rc && !n)
            rc = ERR(e, E_UNSUPPORTED, "%s: this Sequence is empty; ByteLevel is needed", where);
        for (size_t i = 0; i < n && !rc; i++) {
            char place[256];
            snprintf(place, sizeof place, "%.200s.pretokenizers[%zu]", where, i);
            rc = read_one(p, json_array_get(list, i), place, i + 1 == n, e);
        }
    }
    if (rc)
        pretoken_free(p);
    return rc;
}

void pretoken_free(struct pretoken *p)
{
    for (int i = 0; i < p->n; i++)
        pcre2_code_free(p->code[i]);
    pcre2_general_context_free(p->memory);
    *p = (struct pretoken){0};
}

static int compile(struct pretoken *p, const char *pattern, uint32_t options, const char *where,
                   struct err *e)
{
    int code;
    size_t at;
    if (p->n == PRETOKEN_MAX)
        return ERR(e, E_UNSUPPORTED, "%s: more than %d expressions", where, PRETOKEN_MAX);
    pcre2_compile_context *ctx = pcre2_compile_context_create(p->memory);
    if (!ctx)
        return ERR(e, E_NOMEM, "%s: out of memory", where);
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options | PCRE2_UTF,
                                   &code, &at, ctx);
    pcre2_compile_context_free(ctx);
    if (!re) {
        PCRE2_UCHAR8 why[160] = "unknown";
        pcre2_get_error_message(code, why, sizeof why);
        return ERR(e, code == PCRE2_ERROR_HEAP_FAILED ? E_NOMEM : E_FORMAT,
                   "%s: expression does not compile: %s (near '%.24s')", where, (const char *)why,
                   at < strlen(pattern) ? pattern + at : "its end");
    }
    /* Where the system forbids JIT code this does nothing: matching is slower, not different. */
    pcre2_jit_compile(re, PCRE2_JIT_COMPLETE);
    p->code[p->n++] = re;
    return 0;
}

static int add_expression(struct pretoken *p, const char *expression, const char *where,
                          struct err *e)
{
    struct buf b = BUF_INIT;
    int rc = expression_rewrite(expression, strlen(expression), where, &b, e);
    if (!rc)
        rc = compile(p, buf_str(&b), PCRE2_UCP, where, e);
    buf_free(&b);
    return rc;
}

static int read_split(struct pretoken *p, const json_t *spec, const char *where, struct err *e)
{
    const char *behavior = "", *regex = NULL, *string = NULL;
    json_t *pattern = NULL;
    bool invert = false;
    char place[256];
    snprintf(place, sizeof place, "%.200s.pattern", where);
    int rc = json_field_str(spec, where, "behavior", true, &behavior, e);
    rc = rc ? rc : json_field_bool(spec, where, "invert", false, &invert, e);
    rc = rc ? rc : json_field_obj(spec, where, "pattern", true, &pattern, e);
    rc = rc ? rc : json_field_str(pattern, place, "Regex", false, &regex, e);
    rc = rc ? rc : json_field_str(pattern, place, "String", false, &string, e);
    if (rc)
        return rc;
    if (strcmp(behavior, "Isolated") != 0)
        return ERR(e, E_UNSUPPORTED, "%s.behavior: \"%s\" is not supported, only \"Isolated\" is",
                   where, behavior);
    if (regex)
        return add_expression(p, regex, place, e);
    if (string && string[0])
        return compile(p, string, PCRE2_LITERAL, place, e);
    return ERR(e, E_FORMAT, "%s: want {\"Regex\": ...} or {\"String\": ...}", place);
}

static int read_byte_level(struct pretoken *p, const json_t *spec, const char *where, struct err *e)
{
    bool use_regex = true, prefix = true; /* what the format means when they are absent */
    int rc = json_field_bool(spec, where, "use_regex", false, &use_regex, e);
    rc = rc ? rc : json_field_bool(spec, where, "add_prefix_space", false, &prefix, e);
    if (rc)
        return rc;
    if (prefix)
        return ERR(e, E_UNSUPPORTED, "%s.add_prefix_space: true is not supported", where);
    return use_regex ? add_expression(p, GPT2_EXPRESSION, where, e) : 0;
}

static int read_one(struct pretoken *p, const json_t *spec, const char *where, bool last,
                    struct err *e)
{
    const char *type = "";
    int rc = json_field_str(spec, where, "type", true, &type, e);
    if (rc)
        return rc;
    if (strcmp(type, "ByteLevel") == 0 && last)
        return read_byte_level(p, spec, where, e);
    if (strcmp(type, "Split") == 0 && !last)
        return read_split(p, spec, where, e);
    return ERR(e, E_UNSUPPORTED,
               "%s: a pre-tokenizer of type \"%s\"%s is not supported, only Splits followed by "
               "ByteLevel are",
               where, type, last ? " at the end" : " here");
}

int pretoken_run_init(struct pretoken_run *r, const struct pretoken *p, size_t text_bytes,
                      pretoken_fn fn, void *ctx, struct err *e)
{
    *r = (struct pretoken_run){.p = p, .fn = fn, .ctx = ctx};
    size_t steps = STEPS_MIN + STEPS_PER_BYTE * (text_bytes < UINT32_MAX ? text_bytes : UINT32_MAX);
    bool ok = (r->limits = pcre2_match_context_create(p->memory));
    for (int i = 0; i < p->n && ok; i++)
        ok = (r->match[i] = pcre2_match_data_create(1, p->memory));
    if (!ok) {
        pretoken_run_free(r);
        return ERR(e, E_NOMEM, "out of memory while splitting text");
    }
    pcre2_set_match_limit(r->limits, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
    return 0;
}

void pretoken_run_free(struct pretoken_run *r)
{
    for (int i = 0; i < PRETOKEN_MAX; i++)
        pcre2_match_data_free(r->match[i]);
    pcre2_match_context_free(r->limits);
    *r = (struct pretoken_run){0};
}

static int match_failed(int rc, size_t at, size_t n, struct err *e)
{
    if (rc == PCRE2_ERROR_NOMEMORY)
        return ERR(e, E_NOMEM, "out of memory while splitting %zu bytes of text", n);
    PCRE2_UCHAR8 why[160] = "unknown";
    pcre2_get_error_message(rc, why, sizeof why);
    return ERR(e, E_LIMIT, "the pre-tokenizer's expression gave up at byte %zu of %zu: %s", at, n,
               (const char *)why);
}

struct span {
    size_t from, to;
};

/* The next match of expression `level` in s from byte at->from on, left in *at; {n, n} if
 * there is none. */
static int find(const struct pretoken_run *r, int level, const char *s, size_t n, struct span *at,
                struct err *e)
{
    const pcre2_code *re = r->p->code[level];
    pcre2_match_data *m = r->match[level];
    size_t from = at->from;
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int rc = pcre2_match(re, (PCRE2_SPTR)s, n, from, options, m, r->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
        options |= PCRE2_NO_JIT; /* deep groups: the interpreter keeps them on the heap */
        rc = pcre2_match(re, (PCRE2_SPTR)s, n, from, options, m, r->limits);
    }
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
        return match_failed(rc, from, n, e);
    const size_t *found = pcre2_get_ovector_pointer(m);
    *at = rc < 0 ? (struct span){n, n} : (struct span){found[0], found[1]};
    return 0;
}

static size_t character_bytes(const char *s)
{
    unsigned char c = (unsigned char)*s;
    return c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* Cuts s by expression `level` and hands what results to the next one. An empty match cuts too. */
static int split_level(const struct pretoken_run *r, int level, const char *s, size_t n,
                       struct err *e)
{
    size_t done = 0, from = 0;
    int rc = 0;
    if (!n)
        return 0;
    if (level == r->p->n)
        return r->fn(r->ctx, s, n, e);
    while (!rc && done < n) {
        struct span found = {from, 0};
        rc = find(r, level, s, n, &found, e);
        rc = rc ? rc : split_level(r, level + 1, s + done, found.from - done, e);
        rc = rc ? rc : split_level(r, level + 1, s + found.from, found.to - found.from, e);
        done = from = found.to;
        if (found.from == found.to && done < n)
            from += character_bytes(s + done);
    }
    return rc;
}

int pretoken_split(struct pretoken_run *r, const char *s, size_t n, struct err *e)
{
    return split_level(r, 0, s, n, e);
}
