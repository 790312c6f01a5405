/* numpy's legacy generator (RandomState): the numbers that the goldens' weights are made of. Its
 * streams are frozen, so these are the same numbers for ever. */
#ifndef TESTS_AID_NUMPY_H
#define TESTS_AID_NUMPY_H

#include <stdbool.h>
#include <stdint.h>

enum { AID_NUMPY_WORDS = 624 };

struct aid_numpy {
    uint32_t word[AID_NUMPY_WORDS]; /* Mersenne Twister MT19937 */
    int next;                       /* word to use next; AID_NUMPY_WORDS: none is left */
    bool has_spare;                 /* gauss makes two numbers at a time */
    double spare;
};

void aid_numpy_seed(struct aid_numpy *r, uint32_t seed); /* RandomState(seed) */
double aid_numpy_uniform(struct aid_numpy *r);           /* random_sample(): [0, 1), 53 bits */
double aid_numpy_gauss(struct aid_numpy *r);             /* standard_normal(): polar method */

#endif
