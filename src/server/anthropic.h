/* Anthropic's API: POST /v1/messages and /v1/messages/count_tokens. */
#ifndef SERVER_ANTHROPIC_H
#define SERVER_ANTHROPIC_H

#include "server/reply.h"

void anthropic_messages(struct server *s, struct exchange *x);
void anthropic_count(struct server *s, struct exchange *x);

#endif
