/* The tree of tokens: see lexicon.h. */
#include "text/lexicon.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { TOKEN_BYTES_MAX = 4096 }; /* longer ones are left out */

static int order(const void *x, const void *y, void *tokenizer)
{
    const int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    size_t n, m;
    const char *s = tokenizer_bytes(tokenizer, a, &n), *t = tokenizer_bytes(tokenizer, b, &m);
    int c = memcmp(s, t, n < m ? n : m);
    return c ? c : n != m ? (n > m) - (n < m) : (a > b) - (a < b);
}

static int add_node(struct lexicon *x, uint8_t byte, int depth, int32_t first, struct err *e)
{
    if (x->n_nodes == x->cap) {
        int32_t want = x->cap ? 2 * x->cap : 1 << 14;
        void *more = mem_realloc(x->nodes, (size_t)want * sizeof *x->nodes);
        if (!more)
            return ERR(e, E_NOMEM, "no memory for the tree of tokens");
        x->nodes = more;
        x->cap = want;
    }
    x->nodes[x->n_nodes++] =
        (struct lexicon_node){.first = first, .depth = (uint16_t)depth, .byte = byte};
    return 0;
}

static int build(struct lexicon *x, int32_t *path, struct err *e)
{
    const char *before = "";
    size_t n_before = 0;
    int depth = 0; /* of path: nodes that are open */
    for (int32_t i = 0; i < x->n_ids; i++) {
        size_t n, same = 0;
        const char *s = tokenizer_bytes(x->tokenizer, x->ids[i], &n);
        while (same < n && same < n_before && s[same] == before[same])
            same++;
        while (depth > (int)same)
            x->nodes[path[--depth]].end = x->n_nodes;
        for (size_t k = same; k < n; k++) {
            path[depth] = x->n_nodes;
            if (add_node(x, (uint8_t)s[k], depth++, i, e))
                return -e->code;
        }
        if ((int)n > x->depth_max)
            x->depth_max = (int)n;
        x->nodes[path[n - 1]].n_ids++;
        before = s;
        n_before = n;
    }
    while (depth)
        x->nodes[path[--depth]].end = x->n_nodes;
    return 0;
}

int lexicon_open(const struct tokenizer *t, struct lexicon **out, struct err *e)
{
    struct lexicon *x = mem_zalloc(1, sizeof *x);
    int32_t *path = mem_array(TOKEN_BYTES_MAX, sizeof *path);
    int rc = 0;
    *out = NULL;
    if (x) {
        x->tokenizer = t;
        x->n_tokens = tokenizer_count(t);
        x->ids = mem_array((size_t)x->n_tokens, sizeof *x->ids);
    }
    if (!x || !x->ids || !path)
        rc = ERR(e, E_NOMEM, "no memory for the tree of tokens");
    for (int32_t id = 0; !rc && id < x->n_tokens; id++) {
        size_t n;
        tokenizer_bytes(t, id, &n);
        if (n && n <= TOKEN_BYTES_MAX && !tokenizer_is_special(t, id))
            x->ids[x->n_ids++] = id;
    }
    if (!rc) {
        qsort_r(x->ids, (size_t)x->n_ids, sizeof *x->ids, order, (void *)t);
        rc = build(x, path, e);
    }
    mem_free(path);
    if (rc)
        lexicon_close(x);
    else
        *out = x;
    return rc;
}

void lexicon_close(struct lexicon *x)
{
    if (!x)
        return;
    mem_free(x->nodes);
    mem_free(x->ids);
    mem_free(x);
}
