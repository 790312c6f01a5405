/* A rendering in progress, and what its parts offer one another. Private to text/.
 *
 * Everything that can fail returns 0 or a negative code with the message in the rendering's struct
 * err. Three bounds hold everywhere: steps (work), nesting (stack), bytes (memory). */
#ifndef TEXT_TEMPLATE_RUN_H
#define TEXT_TEMPLATE_RUN_H

#include <time.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "text/template.h"
#include "text/template_ast.h"
#include "text/template_value.h"

enum {
    NEST_MAX = 1000,    /* evaluations within one another */
    STEP_BYTES = 1024,  /* bytes of text worked on that count as one step */
    RANGE_MAX = 100000, /* elements of range() */
    ARENA_TIMES = 4,    /* all memory of a rendering, in multiples of its bytes limit */
    BUILTIN_ARGS_MAX = 8,
};

struct template
{
    char *name;
    struct arena arena;
    struct nodes body;
    struct scope *scope;
    struct routine routine;
};

/* One activation of a routine: its slots, and the activation that its text stands in. */
struct activation {
    struct activation *up;
    struct value *slot;
};

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

struct render {
    const struct template *t;
    struct template_limits lim; /* all set */
    struct arena arena;
    struct err *e;
    struct dict *vars; /* the template's variables */
    struct activation *act;
    struct buf *out; /* where printed text goes now */
    enum flow flow;
    struct value captured; /* what the innermost filter of a filter or set block is applied to */
    int line;              /* being worked on, for messages */
    int nest, calls;
    long steps;
};

/* Records "NAME, line N: ...", returns -code. */
int render_fail(struct render *r, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The code of a failure that is recorded already, negative. */
static inline int render_failed(const struct render *r)
{
    return err_failed(-r->e->code);
}
/* Zeroed memory of the rendering; NULL after recording the failure. */
void *render_alloc(struct render *r, size_t n, size_t bytes);
int render_steps(struct render *r, size_t n); /* counts n steps; error past the limit */
int render_bytes(struct render *r, size_t n); /* counts the work on n bytes of text */
/* One level deeper; error past NEST_MAX. Each success needs its render_leave. */
int render_enter(struct render *r);
void render_leave(struct render *r);
/* Checks that a text of n bytes may exist, of which `added` are new work. */
int render_grown(struct render *r, size_t n, size_t added);
/* The text of b, as a string value; frees b. Passes a failure rc on. */
int render_take(struct render *r, struct buf *b, int rc, struct value *out);

/* template_eval.c, template_exec.c, template_call.c */
int eval(struct render *r, const struct node *n, struct value *out);
int exec_all(struct render *r, const struct nodes *body);
int exec_template(struct render *r);
/* Runs body with its own output; the text becomes *out. */
int exec_captured(struct render *r, const struct nodes *body, struct value *out);
int scope_enter(struct render *r, const struct scope *s);
struct activation *activation_new(struct render *r, const struct routine *routine,
                                  struct activation *up);
int assign(struct render *r, const struct node *target, const struct value *v);
struct value *slot_at(struct render *r, struct ref ref);

/* Arguments of a call, evaluated. */
struct args {
    struct value *at;
    size_t n;
    struct pair *named; /* keys are strings */
    size_t n_named;
};
int eval_args(struct render *r, const struct node *call, struct args *out);
int args_add_named(struct render *r, struct args *a, struct text name, struct value v);
int call_value(struct render *r, const struct value *callee, const struct args *a,
               struct value *out);

struct macro {
    const struct node *node; /* N_MACRO or N_CALLBLOCK */
    struct activation *up;
};

/* A built-in function, filter, test or method.
 *
 * params: the names of its arguments with blanks between, "?" behind optional ones; a leading
 * "/" for arguments that cannot be given by name; "*" takes everything as it is (call.raw).
 * Filters, tests and methods get their subject apart. */
struct call {
    struct value self;
    struct value arg[BUILTIN_ARGS_MAX]; /* K_MISSING where not given */
    const struct args *raw;
    const struct builtin *builtin;
};
struct builtin {
    const char *name, *params;
    int (*run)(struct render *r, const struct call *c, struct value *out);
};
/* A function, or a method with the value it belongs to. */
struct bound {
    const struct builtin *builtin;
    struct value self;
};
int builtin_call(struct render *r, const struct builtin *b, const struct value *self,
                 const struct args *a, struct value *out);
const struct builtin *builtin_find(const struct builtin *table, struct text name);

/* The argument as a whole number, text, truth; what = its name in messages. *out keeps its value
 * when the argument is missing. */
int call_wrong(struct render *r, const struct call *c, int i, const char *want);
int call_int(struct render *r, const struct call *c, int i, int64_t *out);
int call_text(struct render *r, const struct call *c, int i, struct text *out);
bool call_truth(const struct call *c, int i, bool otherwise);
static inline bool call_has(const struct call *c, int i)
{
    return c->arg[i].kind != K_MISSING;
}

/* Tables end with a NULL name. A builtin without `run` exists in Jinja2 but is not supported
 * here. */
extern const struct builtin filters_text[], filters_list[], methods_str[];
const struct builtin *filter_find(struct text name); /* NULL: there is none */
const struct builtin *test_find(struct text name);
const struct builtin *method_find(const struct value *v, struct text name);
/* A global function or NULL. */
const struct builtin *function_find(struct text name);

/* Attributes and elements: template_attr.c. What is not there is undefined, not an error.
 * value_own_attr does not fall back to elements and leaves K_MISSING. */
int value_own_attr(struct render *r, const struct value *v, struct text name, struct value *out);
int value_attr(struct render *r, const struct value *v, struct text name, struct value *out);
int value_item(struct render *r, const struct value *v, const struct value *key, struct value *out);
int value_slice(struct render *r, const struct value *v, const struct value part[3],
                struct value *out);
/* The error of using an undefined value. */
int value_undefined(struct render *r, const struct value *v);
int value_refuse_undefined(struct render *r, const struct value *v); /* 0 for all others */

/* Work on texts that filters and methods share: template_str.c. */
/* t with the first `count` (all if negative) `old` replaced, appended to out. */
int text_replace(struct render *r, struct text t, struct text old, struct text by, int64_t count,
                 struct buf *out);
/* s padded with fill (one character) to width characters; side 'l', 'r' or 'c' is where s
 * stands. */
int text_pad(struct render *r, const struct value *s, int64_t width, struct text fill, char side,
             struct value *out);
/* Cuts the first line off *rest; returns the length of the line break that ended it, 0 at the
 * end. */
size_t text_take_line(struct text *rest, struct text *line);
/* Methods of texts that answer yes or no: template_is.c. */
int str_is_all(struct render *r, const struct call *c, struct value *out);
int str_is_cased(struct render *r, const struct call *c, struct value *out);
int str_is_ascii(struct render *r, const struct call *c, struct value *out);
int str_is_identifier(struct render *r, const struct call *c, struct value *out);
/* Copies of text values with HTML's special characters escaped, unless marked safe. */
int value_escape(struct render *r, const struct value *v, struct value *out);

/* Operators: template_op.c, template_compare.c. */
int op_binary(struct render *r, enum token_type op, const struct value *a, const struct value *b,
              struct value *out);
int op_negate(struct render *r, const struct value *v, bool minus, struct value *out);
int op_equal(struct render *r, const struct value *a, const struct value *b, bool *out);
int op_less(struct render *r, const struct value *a, const struct value *b, bool *out);
int op_compare(struct render *r, enum token_type op, const struct value *a, const struct value *b,
               bool *out);
int op_contains(struct render *r, const struct value *in, const struct value *what, bool *out);
/* Stable; keys[i] belongs to items[i]; both are reordered. */
int value_sort(struct render *r, struct value *keys, struct value *items, size_t n, bool reverse);

/* Values as text: template_print.c, template_json.c, template_format.c. */
int value_print(struct render *r, const struct value *v, struct buf *out); /* str() */
int value_repr(struct render *r, const struct value *v, struct buf *out);
int value_str(struct render *r, const struct value *v, struct value *out); /* a string value */
void number_repr(double f, struct buf *out);
struct json_style {
    bool ascii, sort;
    struct text indent;    /* p NULL: on one line */
    struct text item, key; /* separators */
};
int value_json(struct render *r, const struct value *v, const struct json_style *style,
               struct buf *out);
int format_percent(struct render *r, const struct value *fmt, const struct value *args,
                   struct value *out);
int format_braces(struct render *r, const struct value *fmt, const struct args *a,
                  struct value *out);
/* One value by a format specification ("<10", ".2f"). */
int format_spec(struct render *r, const struct value *v, struct text spec, struct buf *out);
int parse_int_text(struct text t, int base, int64_t *out); /* 0, or -1: not one */
int parse_float_text(struct text t, double *out);

/* Loops, as the `loop` variable sees them: template_loop.c. */
struct loop {
    struct cursor cursor;
    const struct node *node;     /* N_FOR */
    struct activation *up, *act; /* where the loop stands; where its body runs */
    int64_t index0, length;      /* length -1: not known yet */
    int64_t depth0;
    struct value before, current, after;
    bool after_known;     /* after has been looked at */
    bool sifted;          /* the cursor holds only what passes the loop's filter */
    struct list *changed; /* what loop.changed saw last, or NULL */
};
int loop_init(struct render *r, struct loop *l, const struct node *n, const struct value *over);
int loop_next(struct render *r, struct loop *l, struct value *out); /* K_MISSING at the end */
int loop_attr(struct render *r, struct loop *l, struct text name, struct value *out);
/* Runs the body of a recursive loop over another value: what loop(value) gives. */
int loop_recurse(struct render *r, const struct loop *l, const struct value *over,
                 struct value *out);

struct cycler {
    struct list *items;
    size_t at;
};
struct joiner {
    struct value sep;
    bool used;
};

#endif
