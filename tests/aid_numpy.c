/* numpy's legacy generator: see aid_numpy.h. MT19937 is by Matsumoto and Nishimura (1998); the
 * order in which numbers are drawn from it is numpy's. */
#include "tests/aid_numpy.h"

#include <math.h>

#define SHIFT 397

void aid_numpy_seed(struct aid_numpy *r, uint32_t seed)
{
    *r = (struct aid_numpy){.next = AID_NUMPY_WORDS};
    for (uint32_t i = 0; i < AID_NUMPY_WORDS; i++) {
        r->word[i] = seed;
        seed = 1812433253u * (seed ^ seed >> 30) + i + 1;
    }
}

static void refill(struct aid_numpy *r)
{
    for (int i = 0; i < AID_NUMPY_WORDS; i++) {
        int next = i + 1 < AID_NUMPY_WORDS ? i + 1 : 0;
        int far = i + SHIFT < AID_NUMPY_WORDS ? i + SHIFT : i + SHIFT - AID_NUMPY_WORDS;
        uint32_t y = (r->word[i] & 0x80000000u) | (r->word[next] & 0x7FFFFFFFu);
        r->word[i] = r->word[far] ^ y >> 1 ^ (y & 1 ? 0x9908B0DFu : 0);
    }
    r->next = 0;
}

static uint32_t draw(struct aid_numpy *r)
{
    if (r->next == AID_NUMPY_WORDS)
        refill(r);
    uint32_t y = r->word[r->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9D2C5680u;
    y ^= y << 15 & 0xEFC60000u;
    return y ^ y >> 18;
}

double aid_numpy_uniform(struct aid_numpy *r)
{
    uint32_t high = draw(r) >> 5, low = draw(r) >> 6;
    return ((double)high * 67108864.0 + (double)low) / 9007199254740992.0;
}

double aid_numpy_gauss(struct aid_numpy *r)
{
    double x, y, square;
    if (r->has_spare) {
        r->has_spare = false;
        return r->spare;
    }
    do {
        x = 2.0 * aid_numpy_uniform(r) - 1.0;
        y = 2.0 * aid_numpy_uniform(r) - 1.0;
        square = x * x + y * y;
    } while (square >= 1.0 || square == 0.0);
    double f = sqrt(-2.0 * log(square) / square);
    r->spare = f * x;
    r->has_spare = true;
    return f * y;
}
