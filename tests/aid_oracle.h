/* Everything that the goldens say of a model, against engine "reference": values of each block,
 * routes, QSA sets, n-gram rows, logits, drafts, greedy continuations, experts of 3 and 2 bits. */
#ifndef TESTS_AID_ORACLE_H
#define TESTS_AID_ORACLE_H

#include "model/weights.h"

/* goldens: a folder with goldens.json. Ends the test at the first difference; prints the worst. */
void oracle_check(const struct weights *w, const char *goldens);

#endif
