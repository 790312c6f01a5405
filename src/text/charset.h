/* Sets of characters as ranges, and as the byte sequences of their UTF-8. */
#ifndef TEXT_CHARSET_H
#define TEXT_CHARSET_H

#include <stdbool.h>
#include <stdint.h>

enum { CHARSET_RANGES_MAX = 256 };

struct charset {
    struct {
        uint32_t low, high;
    } ranges[CHARSET_RANGES_MAX + 1];
    int n;
};

bool charset_add(struct charset *s, uint32_t low, uint32_t high); /* false: no room */
/* Sorts and merges; negated: what was not in it. */
void charset_finish(struct charset *s, bool negated);
/* Calls fn with sequences of n bytes, byte i from low[i] to high[i], that together are the UTF-8 of
 * the set, each once; surrogates are left out. Ends when fn returns nonzero. */
void charset_each(const struct charset *s,
                  int (*fn)(void *ctx, const uint8_t *low, const uint8_t *high, int n), void *ctx);

#endif
