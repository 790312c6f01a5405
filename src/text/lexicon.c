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

int lexicon_kind(uint8_t byte)
{
    int kind = 9; /* of punctuation: so many printable bytes that are no others come before it */
    if (byte >= 'a' && byte <= 'z')
        return 0;
    if (byte >= 'A' && byte <= 'Z')
        return 1;
    if (byte >= '0' && byte <= '9')
        return 2;
    if (byte < ' ' || byte == 0x7F)
        return 3;
    if (byte >= 0x80)
        return byte < 0xC2 || byte > 0xF4 ? LEXICON_TORN
               : byte < 0xE0              ? LEXICON_TWO
               : byte < 0xF0              ? LEXICON_THREE
                                          : LEXICON_FOUR;
    if (byte == ' ')
        return 8;
    kind += byte - '!';
    kind -= byte > '9' ? 10 : 0;
    kind -= byte > 'Z' ? 26 : 0;
    kind -= byte > 'z' ? 26 : 0;
    return kind;
}

int32_t lexicon_ids_end(const struct lexicon *x, int32_t node)
{
    const int32_t end = x->nodes[node].end;
    return end < x->n_nodes ? x->nodes[end].first : x->n_ids;
}

/* Where a walk down is in a character: bytes that must follow, and the range of the next. */
struct place {
    int more;
    uint8_t low, high;
};

/* The place behind a byte; *bit: what it adds to the kinds of its node and of those above. */
static struct place step(struct place at, uint8_t byte, uint64_t *bit)
{
    const int kind = lexicon_kind(byte);
    const bool goes_on = byte >= 0x80 && byte < 0xC0;
    const bool good = at.more ? byte >= at.low && byte <= at.high : kind != LEXICON_TORN;
    *bit = !good ? (uint64_t)1 << LEXICON_TORN : goes_on ? 0 : (uint64_t)1 << kind;
    if (!good)
        return (struct place){0};
    if (goes_on)
        return (struct place){at.more - 1, 0x80, 0xBF};
    const uint8_t low = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
    return (struct place){byte < 0x80 ? 0 : kind - LEXICON_TWO + 1, low, high};
}

/* What each node is by itself, down from the first; then what is below it, from the last on:
 * below[d] gathers for the next node of depth d - 1 what its nodes of depth d have. */
static int gather(struct lexicon *x, struct err *e)
{
    struct below {
        struct place at;
        uint64_t kinds;
        int levels; /* of nodes below */
    } *below = mem_zalloc((size_t)x->depth_max + 2, sizeof *below);
    if (!below)
        return ERR(e, E_NOMEM, "no memory for the tree of tokens");
    for (int32_t i = 0; i < x->n_nodes; i++) {
        struct lexicon_node *node = &x->nodes[i];
        below[node->depth + 1].at = step(below[node->depth].at, node->byte, &node->kinds);
    }
    for (int32_t i = x->n_nodes; i-- > 0;) {
        struct lexicon_node *node = &x->nodes[i];
        struct below *mine = &below[node->depth + 1], *level = &below[node->depth];
        node->kinds |= mine->kinds;
        node->height = (uint16_t)mine->levels;
        level->kinds |= node->kinds;
        level->levels = mine->levels + 1 > level->levels ? mine->levels + 1 : level->levels;
        *mine = (struct below){0};
    }
    mem_free(below);
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
    if (!rc)
        rc = gather(x, e);
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
