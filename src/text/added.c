/* Added tokens: see added.h. */
#include "text/added.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/unicode.h"

struct added_node {
    uint32_t child, sibling;  /* the first below, the next beside; 0 none (the root is neither) */
    struct added_token token; /* that ends here; id -1: none does */
    unsigned char byte;
};

void added_free(struct added *a)
{
    mem_free(a->nodes);
    *a = (struct added){0};
}

/* A new node, whose number is never 0 except for the root; or UINT32_MAX. */
static uint32_t new_node(struct added *a, unsigned char byte, struct err *e)
{
    if (a->n == a->cap) {
        size_t cap = 2 * a->cap + 64;
        struct added_node *p = cap < UINT32_MAX ? mem_realloc(a->nodes, cap * sizeof *p) : NULL;
        if (!p) {
            ERR(e, E_NOMEM, "out of memory for added tokens");
            return UINT32_MAX;
        }
        a->nodes = p;
        a->cap = cap;
    }
    a->nodes[a->n] = (struct added_node){.token.id = -1, .byte = byte};
    return (uint32_t)a->n++;
}

static uint32_t child_of(const struct added *a, uint32_t node, unsigned char byte)
{
    if (!node)
        return a->first[byte];
    uint32_t c = a->nodes[node].child;
    while (c && a->nodes[c].byte != byte)
        c = a->nodes[c].sibling;
    return c;
}

int added_put(struct added *a, const char *content, size_t n, struct added_token token,
              struct err *e)
{
    uint32_t node = 0;
    if (!a->n && new_node(a, 0, e) == UINT32_MAX)
        return -E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)content[i];
        uint32_t next = child_of(a, node, byte);
        if (!next) {
            next = new_node(a, byte, e);
            if (next == UINT32_MAX)
                return -E_NOMEM;
            if (!node) {
                a->first[byte] = next;
            } else {
                a->nodes[next].sibling = a->nodes[node].child;
                a->nodes[node].child = next;
            }
        }
        node = next;
    }
    struct added_token *here = &a->nodes[node].token;
    if (here->id >= 0)
        return ERR(e, E_FORMAT, "added tokens %d and %d are the same text", here->id, token.id);
    *here = token;
    return 0;
}

/* The node of the longest token that s starts with, 0 if none; its length in *len. */
static uint32_t longest(const struct added *a, const char *s, size_t n, size_t *len)
{
    uint32_t best = 0, node = 0;
    for (size_t i = 0; i < n; i++) {
        node = child_of(a, node, (unsigned char)s[i]);
        if (!node)
            break;
        if (a->nodes[node].token.id >= 0) {
            best = node;
            *len = i + 1;
        }
    }
    return best;
}

/* Where the White_Space that ends at byte `end` begins, not before `lo`. */
static size_t white_before(const char *s, size_t lo, size_t end)
{
    while (end > lo) {
        size_t i = end - 1;
        uint32_t cp = 0;
        while (i > lo && ((unsigned char)s[i] & 0xC0) == 0x80)
            i--;
        if (!utf8_decode(s + i, end - i, &cp) || !unicode_is_white(cp))
            break;
        end = i;
    }
    return end;
}

static size_t white_after(const char *s, size_t at, size_t n)
{
    uint32_t cp = 0;
    while (at < n) {
        int k = utf8_decode(s + at, n - at, &cp);
        if (!k || !unicode_is_white(cp))
            break;
        at += (size_t)k;
    }
    return at;
}

bool added_find(const struct added *a, const char *s, size_t n, size_t at, struct added_hit *hit)
{
    for (size_t i = at; a->n && i < n; i++) {
        size_t len = 0;
        if (!a->first[(unsigned char)s[i]])
            continue;
        uint32_t node = longest(a, s + i, n - i, &len);
        if (!node)
            continue;
        const struct added_token *t = &a->nodes[node].token;
        hit->id = t->id;
        hit->from = t->lstrip ? white_before(s, at, i) : i;
        hit->to = t->rstrip ? white_after(s, i + len, n) : i + len;
        return true;
    }
    return false;
}
