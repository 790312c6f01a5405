/* What an answer may say next, for the runner (text/constraint.h): thinking within its budget, then
 * what a grammar allows, then the ids that end an answer.
 *
 *      thinking --</think>--> answer, under the grammar --rule is fulfilled--> stop ids
 *         | the budget is used up
 *         v
 *      REASONING_ENOUGH, token by token */
#ifndef TEXT_GUIDE_H
#define TEXT_GUIDE_H

#include "text/constraint.h"
#include "text/mask.h"

struct guide_options {
    const struct tokenizer *tokenizer; /* borrowed */
    /* Of a grammar, made with GRAMMAR_THINKING if and only if opened. Borrowed; NULL: anything. */
    struct mask_table *table;
    bool opened;             /* the prompt ends inside <think> */
    int budget;              /* tokens of thinking; -1: any number */
    const int32_t *stop_ids; /* [n_stop_ids], copied */
    int n_stop_ids;
};

enum { GUIDE_STOP_MAX = 16 };

struct guide;

int guide_open(const struct guide_options *o, struct guide **out, struct err *e);
void guide_close(struct guide *g);
/* For the runner; borrowed until guide_close. */
const struct constraint *guide_constraint(const struct guide *g);

#endif
