/* The list of engines: engines.c is the only file that names them. */
#ifndef RUNNER_ENGINES_H
#define RUNNER_ENGINES_H

#include "model/engine.h"

/* By name; NULL or "auto" is the best one for this machine. E_ARG lists the names there are. */
int engines_find(const char *name, const struct engine_ops **out, struct err *e);
/* What "auto" takes where ops turns out not to run a model here; NULL: nothing else does. */
const struct engine_ops *engines_instead(const struct engine_ops *ops);
const struct engine_ops *engines_at(int i); /* NULL behind the last */

#endif
