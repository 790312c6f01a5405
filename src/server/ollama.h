/* Ollama's API: /api/chat, generate, tags, show, pull, ps, version. */
#ifndef SERVER_OLLAMA_H
#define SERVER_OLLAMA_H

#include "server/reply.h"

void ollama_chat(struct server *s, struct exchange *x);
void ollama_generate(struct server *s, struct exchange *x);
void ollama_tags(struct server *s, struct exchange *x);
void ollama_show(struct server *s, struct exchange *x);
void ollama_pull(struct server *s, struct exchange *x);
void ollama_version(struct server *s, struct exchange *x);

#endif
