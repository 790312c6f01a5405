/* Chat templates: a Jinja interpreter for what chat templates use, with trim_blocks and
 * lstrip_blocks on, as transformers renders them. docs/templates.md lists what there is. */
#ifndef TEXT_TEMPLATE_H
#define TEXT_TEMPLATE_H

#include <jansson.h>
#include <stddef.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"

struct template;

struct template_limits {
    long steps;   /* statements, operations, elements gone through; 0 means 1,000,000 */
    int depth;    /* macros, call blocks and recursive loops within one another; 0 means 64 */
    size_t bytes; /* of output and of any string (all memory: 4 times this); 0 means 64 MiB */
    time_t now;   /* what strftime_now tells, in local time; 0 means the time of the call */
};

/* `name` opens messages ("chat_template.jinja, line 3: ..."). The source is copied. */
int template_compile(const char *source, size_t len, const char *name, struct template **out,
                     struct err *e);
void template_close(struct template *t);
/* vars: an object, the template's variables. Appends to out; on failure out is as before.
 * raise_exception in the template is E_FORMAT with the template's own words. Immutable: threads may
 * render one template at the same time. */
int template_render(const struct template *t, const json_t *vars, const struct template_limits *lim,
                    struct buf *out, struct err *e);

#endif
