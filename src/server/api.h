/* What the endpoints of all APIs share: the server they belong to, and errors in each API's own
 * form. */
#ifndef SERVER_API_H
#define SERVER_API_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/fields.h"
#include "server/http.h"
#include "server/id.h"
#include "server/server.h"

#define TYPE_JSON   "application/json"
#define TYPE_EVENTS "text/event-stream"
#define TYPE_LINES  "application/x-ndjson"
#define TYPE_TEXT   "text/plain; charset=utf-8"

/* v [released] as the whole answer. */
void api_reply(struct exchange *x, int status, json_t *v);
/* An error in the form of the API that the path belongs to. */
void api_refuse(struct exchange *x, int status, const struct wrong *w);
/* The same for a failure; the status follows from its code. */
void api_fail(struct exchange *x, const struct wrong *w);
/* The error's object; status as in HTTP. For json_decref. */
json_t *api_error(const char *path, int status, const struct wrong *w);
/* The object of a 503 for which there is no memory: static. */
const char *api_starved(const char *path);
int api_status(int code); /* of an enum err_code */

/* The request's body, an object, for json_decref. NULL: it was none, and x has been answered. */
json_t *api_body(struct exchange *x);
/* The name that the body gives the request (NULL: none) becomes the exchange's. */
int api_name(struct exchange *x, const char *name, struct wrong *w);
/* RFC 3339, of seconds. */
json_t *api_date(int64_t unix_s);
/* Whether the server has a model of that name (NULL: any); if not, x has been answered. */
bool api_model(struct server *s, struct exchange *x, const char *name);

#endif
