/* What a client asks for, in the words of no API: each API reads its own fields into this
 * (openai_chat.c, anthropic.c, ...), and reply.c makes the answer of it. */
#ifndef SERVER_ASK_H
#define SERVER_ASK_H

#include "runner/generate.h"
#include "server/fields.h"

enum { ASK_TOKENS_ALL = -1, ASK_STOP_MAX = 16, ASK_CHOICES_MAX = 16, ASK_STOP_BYTES_MAX = 1024 };

enum ask_tools { ASK_TOOLS_AUTO, ASK_TOOLS_NONE, ASK_TOOLS_REQUIRED, ASK_TOOLS_NAMED };
enum ask_format { ASK_TEXT, ASK_JSON, ASK_SCHEMA, ASK_GRAMMAR };

/* Set at a start or a reload; what a request leaves out. NAN, -1: as the model's own
 * generation_config.json has it. */
struct ask_defaults {
    int64_t max_tokens; /* 0: until the context is full */
    double temperature, top_p, min_p, presence, frequency, repetition;
    int64_t top_k;
    bool thinking;
};

struct ask {
    json_t *body;         /* the parsed request, owned: what is borrowed below is its */
    const char *model;    /* as asked for, or NULL */
    json_t *messages;     /* normalised (messages.h), owned; NULL: text or ids */
    json_t *tools;        /* [{type: "function", function: {...}}], owned; NULL: none */
    json_t *variables;    /* of the template, owned; NULL: none but thinking's */
    struct buf text;      /* a prompt that is fed as it is */
    struct tokens ids;    /* or its tokens, when the client sent those */
    bool echo;            /* the prompt comes back in front of the answer */
    int thinking;         /* 1, 0; -1: by default */
    const char *effort;   /* of thinking, in the template's words, or NULL */
    int64_t think_budget; /* tokens of it; -1: any number */
    int64_t max_tokens;   /* 0: by default; ASK_TOKENS_ALL: until the context is full */
    const char *max_field, *prompt_field; /* what the API calls that, and messages or text */
    int64_t n;                            /* choices */
    int64_t seed;                         /* -1: another each time */
    int64_t top_k;                        /* -1: by default */
    double temperature, top_p, min_p, presence, frequency, repetition; /* NAN: by default */
    bool logprobs;
    int64_t top_logprobs;
    const char *stop[ASK_STOP_MAX]; /* borrowed from body */
    size_t n_stop;
    bool ignore_eos;
    struct sample_bias *bias; /* owned */
    int n_bias;
    enum ask_tools tool_choice;
    const char *tool_name; /* ASK_TOOLS_NAMED */
    bool parallel_tools;
    json_t *strict; /* {"NAME": true}: tools to whose schemas calls keep, owned; NULL: none */
    enum ask_format format;
    const char *format_field; /* where that was asked for */
    const json_t *schema;     /* ASK_SCHEMA */
    bool lenient;             /* what cannot be kept of it is passed over */
    const char *grammar;      /* ASK_GRAMMAR */
    bool stream, stream_usage;
    json_t *keep; /* what the API's form needs of the request for later, owned; NULL: nothing */
    const char *session; /* that it is a turn of, or NULL */
    bool no_cache;       /* nothing kept of earlier requests is used */
};

/* All by default. body is taken over. */
void ask_init(struct ask *a, json_t *body);
void ask_free(struct ask *a);

/* Values that several APIs share; name is the field's. */
/* A string, or an array of up to ASK_STOP_MAX of them. */
int ask_stop(struct ask *a, const json_t *v, const char *name, struct wrong *w);
/* {"token id": bias in -100..100}. */
int ask_bias(struct ask *a, const json_t *v, const char *name, struct wrong *w);
/* A schema, as a value of the body; name is kept. */
int ask_schema(struct ask *a, const json_t *v, const char *name, struct wrong *w);
/* "none", "minimal", "low", "medium", "high", "xhigh": switches thinking on or off, unless another
 * field has switched it the other way. */
int ask_effort(struct ask *a, const char *word, const char *name, struct wrong *w);
/* Further variables of the template; enable_thinking and reasoning_effort among them are those of
 * this request. */
int ask_variables(struct ask *a, const json_t *v, const char *name, struct wrong *w);
/* One tool in OpenAI's form, checked: name, description, parameters. Parameters is a schema or
 * NULL; where names the tool in messages. */
int ask_tool(struct ask *a, const char *name, const char *description, const json_t *parameters,
             const char *where, struct wrong *w);
/* The tool added last is strict: its calls keep to its schema. */
int ask_strict(struct ask *a, struct wrong *w);
/* A grammar, which nothing else may contradict. */
int ask_grammar(struct ask *a, struct wrong *w);
/* Whether the answer is to be calls of tools alone. */
bool ask_must_call(const struct ask *a);
/* What contradicts itself once all is read: a tool_choice without tools, ... */
int ask_check(const struct ask *a, struct wrong *w);

/* What is left out by the defaults, and those by the model's own. seed is drawn. */
void ask_sample(const struct ask *a, const struct ask_defaults *d, const struct model *m,
                struct sample_options *out);

#endif
