/* A model folder's chat format: finds its template, supplies the variables that the tokenizer's
 * configuration defines, renders conversations. */
#ifndef TEXT_CHAT_H
#define TEXT_CHAT_H

#include <stdbool.h>

#include "text/template.h"

struct chat;

/* path: a folder that holds chat_template.jinja, or tokenizer_config.json whose chat_template is a
 * string or a list of {name, template} with one named "default"; a folder that holds such a folder
 * as packed/; or a template file itself. */
int chat_open(const char *path, struct chat **out, struct err *e);
void chat_close(struct chat *c);
/* messages: array of {role, content, ...}; tools: array or NULL (an empty one counts as absent);
 * set: object of further variables (enable_thinking, reasoning_effort, ...) or NULL, last word over
 * all others. The prompt ends with the opening of the assistant's turn, unless set has
 * add_generation_prompt false. Appends to out, which stays as it was on failure. Any number of
 * threads may use one chat. */
int chat_render(const struct chat *c, const json_t *messages, const json_t *tools,
                const json_t *set, struct buf *out, struct err *e);

/* What a template can show, by what it makes of a conversation made up for that. */
struct chat_can {
    bool tools;    /* declared tools, calls of them and their results */
    bool thinking; /* enable_thinking decides how the assistant's turn opens */
};
void chat_can(const struct chat *c, struct chat_can *out);

#endif
