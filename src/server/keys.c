/* API keys: see keys.h. */
#include "server/keys.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"

enum { FILE_BYTES_MAX = 64 << 10 };

static int add(struct keys *k, const char *key, size_t len, const char *where, int line,
               struct err *e)
{
    if (len == 0 || len > KEY_BYTES_MAX || memchr(key, '\0', len))
        return ERR(e, E_FORMAT, "%s: line %d: a key has 1 to %d bytes", where, line, KEY_BYTES_MAX);
    if (k->n == KEYS_MAX)
        return ERR(e, E_LIMIT, "%s: line %d: more than %d keys", where, line, KEYS_MAX);
    memcpy(k->keys[k->n++], key, len);
    return 0;
}

static int add_lines(struct keys *k, const struct buf *text, const char *path, struct err *e)
{
    const char *at = buf_str(text), *end = at + text->len;
    for (int line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        const char *next = at + len + 1;
        while (len && strchr(" \t\r", at[len - 1]))
            len--;
        if (len && *at != '#' && add(k, at, len, path, line, e))
            return -e->code;
        at = next;
    }
    return 0;
}

int keys_read(const char *path, const char *extra, struct keys *out, struct err *e)
{
    struct buf text = BUF_INIT;
    struct keys k = {.keys = mem_zalloc(KEYS_MAX, sizeof *k.keys)};
    int rc = k.keys ? 0 : ERR(e, E_NOMEM, "no memory for API keys");
    if (!rc && path)
        rc = file_read_all(path, FILE_BYTES_MAX, &text, e);
    if (!rc && path)
        rc = add_lines(&k, &text, path, e);
    if (!rc && path && k.n == 0)
        rc = ERR(e, E_FORMAT, "%s: there is no key in it; leave the setting out to let all in",
                 path);
    if (!rc && extra)
        rc = add(&k, extra, strlen(extra), "CHERENKOV_API_KEY", 1, e);
    if (text.data)
        memset(text.data, 0, text.cap);
    buf_free(&text);
    if (rc)
        keys_free(&k);
    else
        *out = k;
    return rc;
}

void keys_free(struct keys *k)
{
    if (k->keys)
        memset(k->keys, 0, KEYS_MAX * sizeof *k->keys);
    mem_free(k->keys);
    *k = (struct keys){0};
}

bool keys_match(const struct keys *k, const char *word)
{
    char padded[KEY_BYTES_MAX + 1] = {0};
    const size_t len = word ? strlen(word) : 0;
    bool found = false;
    memcpy(padded, word ? word : "", len < KEY_BYTES_MAX ? len : KEY_BYTES_MAX);
    for (int i = 0; i < k->n; i++) {
        unsigned char differ = 0;
        for (int b = 0; b < KEY_BYTES_MAX; b++)
            differ |= (unsigned char)(padded[b] ^ k->keys[i][b]);
        found |= differ == 0;
    }
    return found && len && len <= KEY_BYTES_MAX;
}
