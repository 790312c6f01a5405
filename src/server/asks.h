/* The readers of requests, one for each endpoint: the fields of a->body into a, which ask_init has
 * set. They are tables of fields (fields.h) and what the tables cannot say. On failure w names the
 * field, and a is for ask_free. */
#ifndef SERVER_ASKS_H
#define SERVER_ASKS_H

#include "server/ask.h"

/* openai_ask.c. *id: the name the request gives itself, or NULL. */
int openai_ask_chat(struct ask *a, const char **id, struct wrong *w);
int openai_ask_text(struct ask *a, const char **id, struct wrong *w);
/* openai_responses_ask.c. responses: what was stored of earlier ones. */
struct kept;
int openai_ask_responses(struct ask *a, struct kept *responses, const char **id, struct wrong *w);
/* A word, or {type: "function", function: {name}} or {type: "function", name}. */
int openai_tool_choice(struct ask *a, const json_t *v, struct wrong *w);
/* Rows of tables whose struct begins with its struct ask: how tokens are drawn; penalties besides;
 * what says something about the client. */
extern const struct field openai_sampling_fields[], openai_penalty_fields[], openai_hint_fields[];
/* The format of an answer. inside: response_format, whose schema is in an object of its own; else
 * text.format. */
int openai_format(struct ask *a, const json_t *v, bool inside, struct wrong *w);
/* tools: an array of {type: "function", function: {...}}. */
int openai_tools(struct ask *a, const json_t *v, struct wrong *w);

/* anthropic_ask.c. counts: only its tokens are asked for. */
int anthropic_ask(struct ask *a, bool counts, struct wrong *w);

/* ollama_ask.c. *empty: there is nothing to answer; the client wants the model to be loaded. */
int ollama_ask_chat(struct ask *a, bool *empty, struct wrong *w);
int ollama_ask_generate(struct ask *a, bool *empty, struct wrong *w);

#endif
