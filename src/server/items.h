/* The items of OpenAI's responses API: the input of a request as messages of a chat, and the list
 * that a later request goes on from. */
#ifndef SERVER_ITEMS_H
#define SERVER_ITEMS_H

#include "server/ask.h"
#include "server/kept.h"

enum { ITEM_ID_ROOM = 96 };

/* Between a namespace and a function's name, in the name that the model knows. */
#define ITEM_SPACE_END "__"

/* What was said before: the items of a stored response (a new array, for json_decref). What is not
 * there is a 400 that names `previous_response_id`. */
int items_before(struct kept *responses, const char *id, json_t **items, struct wrong *w);
/* Appends the input (a string, or an array of items; NULL: none) to items. References are replaced
 * by what they refer to in stored responses. Everything is checked. */
int items_add(struct kept *responses, const json_t *input, json_t *items, struct wrong *w);
/* a->messages of all items; instructions (or NULL) come in front. */
int items_messages(struct ask *a, const char *instructions, const json_t *items, struct wrong *w);

/* Of a stored response's items, how many it answered: all but its own output, which comes last. */
size_t items_n_input(const json_t *stored);

/* The id of an item of a response: prefix ("msg"; "in" for an input item that came without one),
 * the response's own, place in its output or input. */
void items_id(const char *prefix, const char *response_id, int place, char to[ITEM_ID_ROOM]);

#endif
