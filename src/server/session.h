/* Sessions: conversations that the server remembers, so that a client sends its new messages alone.
 *
 *      POST /v1/sessions --> kept --a chat with its session_id--> claimed --answer whole--> longer
 *                             ^                                      |
 *                             +----- failed, cancelled, client gone -+
 *
 * A turn changes all or nothing: what it adds is kept before its end is told, and never otherwise.
 * With the messages the text and ids of the last turn are kept, as they were fed and generated, so
 * that the next turn's prompt begins with exactly those, whatever the template would make of them.
 * server.sessions (server/kept.h) holds them. */
#ifndef SERVER_SESSION_H
#define SERVER_SESSION_H

#include "server/reply.h"

/* Endpoints. */
void session_create(struct server *s, struct exchange *x);
void session_get(struct server *s, struct exchange *x);
void session_delete(struct server *s, struct exchange *x);

/* --- for replies; r->ask.session names it --- */

/* Claims it, and puts its messages in front of the request's. */
int session_begin(struct reply *r, struct wrong *w);
/* r->ask.text is all messages rendered, with these tools and variables: where the last turn was
 * made with the same, text and ids become those that continue it. */
int session_prompt(struct reply *r, const json_t *tools, const json_t *variables, struct err *e);
/* The answer is whole: it becomes part of the session. E_LIMIT: it would be longer than sessions
 * may be; then it stays as it was. */
int session_commit(struct reply *r, struct err *e);
/* Ends the claim of a turn that was not committed; for every reply, at last. */
void session_release(struct reply *r);

#endif
