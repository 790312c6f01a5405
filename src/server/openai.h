/* OpenAI's API. openai_chat.c has the chat, openai_text.c the older completions,
 * openai_responses.c the newer responses, openai_items.c what they answered. */
#ifndef SERVER_OPENAI_H
#define SERVER_OPENAI_H

#include "server/reply.h"

void openai_chat(struct server *s, struct exchange *x);
void openai_text(struct server *s, struct exchange *x);
void openai_responses(struct server *s, struct exchange *x);
void openai_response_get(struct server *s, struct exchange *x);
void openai_response_items(struct server *s, struct exchange *x);
void openai_response_delete(struct server *s, struct exchange *x);
void openai_response_cancel(struct server *s, struct exchange *x);
void openai_models(struct server *s, struct exchange *x);
void openai_model(struct server *s, struct exchange *x);

extern const struct reply_form openai_responses_form;

/* --- shared --- */

/* Reads the request, and answers it in this form. */
void openai_answer(struct server *s, struct exchange *x,
                   int (*read)(struct ask *a, const char **id, struct wrong *w),
                   const struct reply_form *form, const char *id_prefix);
/* {"prompt_tokens", "completion_tokens", ...}. For json_decref. */
json_t *openai_usage(const struct reply *r);
/* A choice as the event of a stream that it is; taken over. */
void openai_stream_choice(struct choice *c, const char *object, json_t *choice);
/* Usage, if it was asked for, and [DONE]. */
void openai_stream_end(struct reply *r, const char *object);
void openai_last_words(const struct reply *r, char *to, size_t n);
/* {"error": ...} as the last event of a stream. */
void openai_stream_error(struct reply *r, int status, const struct err *why);
/* The answer at once: choices, usage, timings. For json_decref. */
json_t *openai_whole(struct reply *r, const char *object,
                     json_t *(*choice)(const struct choice *c));

#endif
