/* Finds, for every tensor that a config asks for, the published tensors it is made of, and
 * decides how (plan.h). What is missing or comes in a form that is not packed goes to
 * plan.problems. */
#ifndef PACK_MATCH_H
#define PACK_MATCH_H

#include "pack/plan.h"

/* Fills dense (without entries), experts and ngram from expected and source. E_NOMEM. */
int match_all(struct plan *p, struct err *e);
/* Notes that t is of a type that is not packed, and what to do. */
void match_refuse_type(struct plan *p, const struct tensor *t);

#endif
