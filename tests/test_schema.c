/* JSON schemas as grammars: keywords beside $ref, enum, const and the alternatives are kept to, or
 * refused by name; numbers of a range are those and no others; whatever a grammar allows is a value
 * of its schema. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "text/grammar.h"
#include "text/schema_parts.h"

static int make(const char *schema, struct grammar **g, json_t **v, struct err *e)
{
    char *text = aid_quotes(schema);
    const int bad = json_parse(text, strlen(text), "test", v, e);
    mem_free(text);
    *g = NULL;
    return bad ? bad : grammar_open(&(struct grammar_spec){.schema = *v}, g, e);
}

/* Whether a text is allowed whole. */
static bool follows(struct automaton *a, const char *text)
{
    int32_t state = automaton_root(a);
    for (const char *p = text; *p && state != STATE_DEAD; p++)
        state = automaton_next(a, state, (uint8_t)*p);
    return automaton_flags(a, state) & STATE_DONE;
}

static bool allowed(const char *schema, const char *text)
{
    struct err e = {0};
    struct grammar *g;
    struct automaton *a;
    json_t *v;
    char *plain = aid_quotes(text);
    if (make(schema, &g, &v, &e))
        fail_msg("%s: %s", schema, e.msg);
    assert_ok(automaton_open(&g->rules, &a, &e), e);
    const bool yes = follows(a, plain);
    mem_free(plain);
    automaton_close(a);
    grammar_close(g);
    json_decref(v);
    return yes;
}

#define POINT      "'type':'object','properties':{'x':{'type':'integer'},'y':{'type':'integer'}}"
#define DEFS       "'$defs':{'p':{" POINT "}}"
#define KIND(word) "{'type':'object','properties':{'k':{'const':'" word "'}},'required':['k']}"

static const struct {
    const char *schema, *yes, *no;
} cases[] = {
    {"{'$ref':'#/$defs/p'," DEFS "}", "{}", "{'x':'a'}"},
    {"{'$ref':'#/$defs/p','required':['x']," DEFS "}", "{'x':1}", "{}"},
    {"{'$ref':'#/$defs/p','properties':{'z':{'type':'null'}}," DEFS "}", "{'x':1,'z':null}",
     "{'z':1}"},
    {"{'$ref':'#/$defs/p','properties':{'x':{'maximum':3}}," DEFS "}", "{'x':3}", "{'x':4}"},
    {"{'$ref':'#/$defs/p','additionalProperties':false,'properties':{'y':true}," DEFS "}",
     "{'y':1}", "{'x':1}"},
    {"{'$ref':'#/$defs/l','minItems':1,'$defs':{'l':{'type':'array','items':{'$ref':'#/$defs/"
     "l'}}}}",
     "[[]]", "[]"},
    {"{'$ref':'#/$defs/l','type':'array','$defs':{'l':{'type':'array','items':{'$ref':'#/$defs/l',"
     "'maxItems':1}}}}",
     "[[],[[]]]", "[[[],[]]]"},
    {"{'type':'string','enum':['a',1,null]}", "'a'", "1"},
    {"{'enum':['a','abc'],'minLength':2}", "'abc'", "'a'"},
    {"{'const':'a','type':['string','null']}", "'a'", "null"},
    {"{'enum':[1,2,3],'anyOf':[{'const':1},{'minimum':3}]}", "3", "2"},
    {"{'type':'object','properties':{'a':{'const':1},'b':{'const':2}},"
     "'anyOf':[{'required':['a']},{'required':['b']}]}",
     "{'b':2}", "{}"},
    {"{'anyOf':[{'type':'string'},{'type':'integer'}],'maxLength':1,'maximum':4}", "'a'", "5"},
    {"{'anyOf':[{'type':'string'},{'type':'integer'}],'type':'integer'}", "7", "'a'"},
    {"{'allOf':[{" POINT "},{'required':['y']},{'properties':{'w':{'type':'null'}}}]}",
     "{'y':1,'w':null}", "{'x':1}"},
    {"{'allOf':[{'anyOf':[{'const':1},{'const':2}]},{'anyOf':[{'const':2},{'type':'null'}]}]}", "2",
     "1"},
    {"{'allOf':[{'type':['integer','string']},{'type':'number'}]}", "3", "3.5"},
    {"{'oneOf':[" KIND("a") "," KIND("b") "]}", "{'k':'b'}", "{'k':'c'}"},
    {"{'oneOf':[{'type':'string'},{'type':'integer'}]}", "3", "3.5"},
    {"{'oneOf':[{'const':'a'},{'const':'b'}]}", "'b'", "'c'"},
    {"{'oneOf':[{'enum':['a',1]},{'type':'integer','minimum':2,'maximum':9}]}", "7", "'b'"},
    {"{'oneOf':[{'const':'a','title':'A'},{'enum':['b',null]},{'type':'object'}]}", "null", "1"},
    {"{'$ref':'#/$defs/a~1b~0c','$defs':{'a/b~c':{'const':1}}}", "1", "2"},
    {"{'$ref':'#/$defs/a%20b','$defs':{'a b':{'const':1}}}", "1", "2"},
    {"{'type':'array','items':{'$ref':'#/$defs/l/1'},'$defs':{'l':[true,{'const':1}]}}", "[1]",
     "[2]"},
    {"{'minLength':2}", "'ab'", "'a'"},
    {"{'minItems':1}", "[1]", "[]"},
    {"{'required':['a'],'properties':{'a':true}}", "{'a':1}", "{}"},
    {"{'type':'array','items':false}", "[]", "[1]"},
    {"{'type':'object','propertyNames':{'type':'string'},'additionalProperties':{'type':'null'}}",
     "{'a':null}", "{'a':1}"},
    {"{'type':'integer','minimum':-9007199254740991,'maximum':9007199254740991}",
     "-9007199254740991", "9007199254740992"},
    {"{'type':'integer','minimum':1.5}", "999999999999999999", "1"},
    {"{'type':'integer','minimum':999999999999999999}", "999999999999999999", "1"},
    {"{'type':'number','maximum':1000000000000000000}", "5", "5e18"},
    {"{'type':'number','minimum':0,'maximum':1}", "0.25", "1.5"},
    {"{'type':'number','maximum':-2,'minimum':-3}", "-2.75", "-1.5"},
};

static void test_keywords_beside_others_hold(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (!allowed(cases[i].schema, cases[i].yes) || allowed(cases[i].schema, cases[i].no))
            fail_msg("case %zu: %s", i, cases[i].schema);
}

/* What is refused, and what the message says. */
static const struct {
    const char *schema, *says;
} bad[] = {
    {"{'$ref':'#/$defs/p','pattern':'a'," DEFS "}", "root: pattern cannot be kept to"},
    {"{'enum':['a'],'pattern':'a'}", "root: pattern cannot"},
    {"{'enum':['a'],'anyOf':[{'pattern':'a'}]}", "root/enum/anyOf: pattern cannot"},
    {"{'enum':['a'],'type':'integer'}", "root: no value of enum fits"},
    {"{'const':1,'minimum':2}", "root: no value of const fits"},
    {"{'anyOf':[{'type':'string'}],'type':'null'}", "root: what is said there leaves no value"},
    {"{'allOf':[{'const':1},{'const':2}]}", "root: what is said there leaves no value"},
    {"{'allOf':[{'type':'string','format':'date'}]}", "root/allOf: format cannot"},
    {"{'oneOf':[{'type':'string'},{'minLength':1}]}", "root: oneOf of parts that may"},
    {"{'oneOf':[{'const':'a'},{'enum':['b','a']}]}", "root: oneOf of parts that may"},
    {"{'oneOf':[{'const':1},{'const':1.0}]}", "root: oneOf of parts that may"},
    {"{'oneOf':[{'const':'abc'},{'type':'string','maxLength':3}]}",
     "root: oneOf of parts that may"},
    {"{'$ref':'#/$defs/a~2','$defs':{'a~2':true}}",
     "root: $ref: want a part of this schema, as #/$defs/NAME, found the string "
     "\"#/$defs/a~2\""},
    {"{'$ref':'#/$defs/%4','$defs':{'%4':true}}", "root: $ref: want a part of this schema"},
    {"{'type':'number','minimum':0.5}", "root: minimum with a fraction cannot"},
    {"{'type':'integer','minimum':1000000000000000000}", "root: minimum of more than 18 digits"},
    {"{'type':'number','minimum':1e300}", "root: minimum of more than 18 digits"},
    {"{'type':'integer','maximum':-1e19}", "root: maximum below all numbers of 18"},
    {"{'type':'integer','minimum':3,'maximum':2}",
     "no integer lies between minimum, the integer 3, and maximum, the integer 2"},
    {"{'properties':{'a':{'items':{'minLength':'3'}}}}",
     "schema: root/a/items: minLength: want a whole number from 0 to 10000, found the string "
     "\"3\""},
    {"{'type':'string','maxLength':-1}", "maxLength: want a whole number from 0 to 10000, found"},
    {"{'minLength':5,'maxLength':4}",
     "root: maxLength: want at least the 5 of minLength, found the integer 4"},
    {"{'minItems':5,'maxItems':4}", "root: maxItems: want at least the 5 of minItems, found"},
    {"{'minItems':1,'items':false}", "root: minItems: want 0, as items is false, found"},
    {"{'items':[{}]}", "root: items that is an array cannot"},
    {"{'items':3}", "root: items: want a schema, an object, found the integer 3"},
    {"{'maximum':'4'}", "root: maximum: want a number, found the string \"4\""},
    {"{'type':3}", "root: type: want string, number, integer, boolean, object, array or null, or "
                   "an array of them, found the integer 3"},
    {"{'type':['string',null]}", "array of them, found null"},
    {"{'type':'text'}", "array or null, found the string \"text\""},
    {"{'properties':[]}", "root: properties: want an object of schemas, found an empty array"},
    {"{'properties':{'a':[]}}", "root/a: want a schema, an object, found an empty array"},
    {"{'properties':{'a':{}},'required':true}",
     "root: required: want an array of strings, found true"},
    {"{'properties':{'a':{}},'required':['a',1]}",
     "root: required: want an array of strings, found the integer 1"},
    {"{'additionalProperties':'no'}",
     "root: additionalProperties: want a schema, true or false, found the string"},
    {"{'$ref':7}", "root: $ref: want a part of this schema, as #/$defs/NAME, found the integer 7"},
    {"{'anyOf':{}}", "root: anyOf: want an array of schemas, not empty, found an empty object"},
    {"{'allOf':[{'type':'null'},3]}", "want schemas, objects, as its parts, found the integer 3"},
    {"{'enum':[]}", "root: enum: want an array of values, not empty, found an empty array"},
    {"{'type':'object','propertyNames':{'maxLength':3}}", "propertyNames other than"},
    {"{'allOf':[]}", "allOf: want an array of schemas, not empty, found an empty array"},
    {"{'$ref':'#/a','type':'null','a':{'$ref':'#/a','type':'null'}}", "root: a cannot"},
    {"{'$ref':'#/$defs/a','$defs':{'a':{'$ref':'#/$defs/a','type':'null'}}}", "more than 32"},
};

static void test_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = {0};
        struct grammar *g;
        json_t *v;
        if (make(bad[i].schema, &g, &v, &e) == 0)
            fail_msg("case %zu is not refused: %s", i, bad[i].schema);
        if (!strstr(e.msg, bad[i].says))
            fail_msg("case %zu says: %s", i, e.msg);
        json_decref(v);
    }
}

static void test_ranges(void **state)
{
    static const int bounds[][2] = {{0, 0},   {0, 9},      {3, 7},      {10, 99},   {8, 123},
                                    {95, 96}, {213, 478},  {999, 1001}, {-7, 12},   {-120, -8},
                                    {-1, 0},  {-300, 300}, {100, 1000}, {-1, 1100}, {209, 301}};
    (void)state;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        struct err e = {0};
        struct grammar *g;
        struct automaton *a;
        json_t *v;
        char text[96];
        snprintf(text, sizeof text, "{'type':'integer','minimum':%d,'maximum':%d}", bounds[i][0],
                 bounds[i][1]);
        assert_ok(make(text, &g, &v, &e), e);
        assert_ok(automaton_open(&g->rules, &a, &e), e);
        for (int n = -1250; n <= 1250; n++) {
            snprintf(text, sizeof text, "%d", n);
            if (follows(a, text) != (n >= bounds[i][0] && n <= bounds[i][1]))
                fail_msg("range %zu: %d", i, n);
        }
        automaton_close(a);
        grammar_close(g);
        json_decref(v);
    }
}

/* A text of random bytes that the grammar allows, or nothing when it gets long. */
static void draw(struct automaton *a, uint64_t seed, struct buf *out)
{
    int32_t state = automaton_root(a);
    for (uint64_t k = 0; k < 400; k++) {
        unsigned char can[256];
        int n = 0;
        for (int b = 0; b < 0x7F; b++) /* plain text is enough */
            if (automaton_next(a, state, (uint8_t)b) != STATE_DEAD &&
                (k < 60 || strchr("\"}]:,0123456789", b)))
                can[n++] = (unsigned char)b;
        const bool done = automaton_flags(a, state) & STATE_DONE;
        if (!n || (done && rng_at(seed, 2 * k) % 3 == 0)) {
            if (!done)
                buf_clear(out);
            return;
        }
        const unsigned char byte = can[rng_at(seed, 2 * k + 1) % (uint64_t)n];
        buf_putc(out, (char)byte);
        state = automaton_next(a, state, byte);
    }
    buf_clear(out);
}

static void test_what_is_allowed_is_valid(void **state)
{
    int n_valid = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        struct grammar *g;
        struct automaton *a;
        json_t *schema;
        assert_ok(make(cases[i].schema, &g, &schema, &e), e);
        assert_ok(automaton_open(&g->rules, &a, &e), e);
        for (uint64_t seed = 0; seed < 40; seed++) {
            struct buf text = BUF_INIT;
            draw(a, seed + 1000 * i, &text);
            json_t *v =
                json_loadb(buf_str(&text), text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            if (text.len && (!v || !schema_fits(schema, schema, v)))
                fail_msg("case %zu: %s allows %s", i, cases[i].schema, buf_str(&text));
            n_valid += text.len > 0;
            json_decref(v);
            buf_free(&text);
        }
        automaton_close(a);
        grammar_close(g);
        json_decref(schema);
    }
    printf("note: %d random texts of %zu schemas are valid\n", n_valid,
           sizeof cases / sizeof cases[0]);
    assert_true(n_valid > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keywords_beside_others_hold),
        cmocka_unit_test(test_refused_by_name),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_what_is_allowed_is_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
