/* Values of the template language: what expressions give and variables hold. Private to text/.
 *
 * A value is 24 bytes, copied freely; what it points to lives in the rendering's arena, in the
 * template, or in the JSON that the caller lent for the rendering. Lists, tuples and dictionaries
 * never change after they are made (the language's sandbox forbids it); namespaces, loops, cyclers,
 * joiners and half-consumed iterators do. */
#ifndef TEXT_TEMPLATE_VALUE_H
#define TEXT_TEMPLATE_VALUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of valid UTF-8, borrowed, no NUL behind them. */
struct text {
    const char *p;
    size_t len;
};
#define TEXT(literal) ((struct text){(literal), sizeof(literal) - 1})
struct text text_of(const char *s);
bool text_eq(struct text a, struct text b);
bool text_is(struct text a, const char *s);

enum kind {
    K_MISSING,   /* no value at all: an argument not given, a variable not yet set */
    K_UNDEFINED, /* what an unknown name or attribute gives: prints as nothing */
    K_NONE,
    K_BOOL,
    K_INT,
    K_FLOAT,
    K_STR,
    K_LIST,
    K_TUPLE,
    K_DICT,
    K_RANGE,
    K_VIEW, /* a dictionary's keys, values or items */
    K_ITER, /* what `map` and its kin give: can be gone through once, has no length */
    K_NAMESPACE,
    K_LOOP,
    K_MACRO,
    K_FUNCTION, /* a built-in function */
    K_METHOD,   /* a built-in function of a value: "text".upper */
    K_CYCLER,
    K_JOINER,
};

/* Why a value is undefined; decides the message when it is used after all. */
enum undefined_why {
    WHY_NAME,      /* no variable of that name */
    WHY_ATTRIBUTE, /* an object without that attribute */
    WHY_ELEMENT,   /* an object without that element; the name is the key's repr */
    WHY_UNSAFE,    /* an attribute that templates may not touch */
    WHY_PARAM,     /* a parameter that got no argument */
    WHY_HINT,      /* the name is the message */
};

enum view_of { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };

struct list {
    size_t n;
    struct value *at;
    bool grouped; /* a pair of `groupby`: also has .grouper and .list */
};

struct range {
    int64_t start, stop, step;
    int64_t n;
};

struct value {
    uint8_t kind; /* enum kind */
    uint8_t flag; /* K_STR: marked safe; K_UNDEFINED: enum undefined_why; K_VIEW: enum view_of */
    uint8_t of;   /* K_UNDEFINED: enum kind of the object that was asked */
    union {
        bool b;
        int64_t i;
        double f;
        struct text s;     /* K_STR; K_UNDEFINED: the name */
        struct list *list; /* K_LIST, K_TUPLE */
        struct dict *dict; /* K_DICT, K_VIEW, K_NAMESPACE */
        struct range *range;
        struct cursor *cursor; /* K_ITER */
        struct loop *loop;     /* K_LOOP */
        struct macro *macro;   /* K_MACRO */
        struct bound *bound;   /* K_FUNCTION, K_METHOD */
        struct cycler *cycler; /* K_CYCLER */
        struct joiner *joiner; /* K_JOINER */
    };
};

/* A dictionary in insertion order; from 9 entries on, looked up through a hash index. */
struct pair {
    struct value key, value;
    uint64_t hash;
};
struct dict {
    size_t n, cap;
    struct pair *at;
    uint32_t *index; /* n_index places, entry number + 1 or 0; NULL while small */
    size_t n_index;  /* a power of two */
};

struct render;

#define V_NONE       ((struct value){.kind = K_NONE})
#define V_BOOL(x)    ((struct value){.kind = K_BOOL, .b = (x)})
#define V_INT(x)     ((struct value){.kind = K_INT, .i = (x)})
#define V_FLOAT(x)   ((struct value){.kind = K_FLOAT, .f = (x)})
#define V_STR(t)     ((struct value){.kind = K_STR, .s = (t)})
#define V_LIST(l)    ((struct value){.kind = K_LIST, .list = (l)})
#define V_TUPLE(l)   ((struct value){.kind = K_TUPLE, .list = (l)})
#define V_DICT(d)    ((struct value){.kind = K_DICT, .dict = (d)})
#define V_HINT(text) ((struct value){.kind = K_UNDEFINED, .flag = WHY_HINT, .s = TEXT(text)})

/* The name of a value's type, as messages of the language print it: "str", "int", "dict"... */
const char *value_type(const struct value *v);
const char *kind_name(enum kind k);
bool value_truth(const struct value *v);
bool value_is_number(const struct value *v); /* bool, int or float */
double value_number(const struct value *v);  /* of a number */
/* bool and int: their whole number in *i. */
bool value_as_int(const struct value *v, int64_t *i);

struct list *list_new(struct render *r, size_t n); /* n elements, uninitialised; NULL on failure */
/* Appends to a list under construction; *cap is its room. */
int list_push(struct render *r, struct list *l, size_t *cap, struct value v);

struct dict *dict_new(struct render *r, size_t cap); /* NULL on failure */
/* Sets *found to the entry or NULL. An unhashable key is an error. */
int dict_find(struct render *r, const struct dict *d, const struct value *key, struct pair **found);
int dict_set(struct render *r, struct dict *d, struct value key, struct value v);
/* By string key, never fails; NULL when absent. */
struct value *dict_get(const struct dict *d, struct text key);
/* The value as its own kind of language value; strings stay in j, which must outlive the
 * rendering. */
int value_from_json(struct render *r, const json_t *j, struct value *out);

/* Going through a value: list, tuple, string (by character), dictionary (keys), range, view,
 * iterator, nothing of an undefined. A K_ITER is a cursor shared by all who hold it. */
struct cursor {
    struct value over;
    size_t at; /* next element, or byte of a string */
    bool backwards;
};
int cursor_init(struct render *r, struct cursor *c, const struct value *over);
/* *out is K_MISSING at the end. */
int cursor_next(struct render *r, struct cursor *c, struct value *out);
/* The elements of anything that can be gone through, as a new list. */
int value_to_list(struct render *r, const struct value *v, struct list **out);
/* An iterator over the list. */
int value_iter(struct render *r, struct list *l, bool backwards, struct value *out);
/* The length as len() gives it, an error for what has none. */
int value_length(struct render *r, const struct value *v, int64_t *n);
bool value_has_length(const struct value *v);
bool value_is_iterable(const struct value *v);
/* Element i (0 <= i < length) of a list, tuple, range or view. */
int value_at(struct render *r, const struct value *v, size_t i, struct value *out);

#endif
