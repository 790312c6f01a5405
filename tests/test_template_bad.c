/* Templates and conversations that are wrong, hostile or too large: each is refused with a message
 * that
 * names the template, the line and the cause, and nothing is printed, leaked or overrun. */
#include "tests/aid_test.h"

#include <jansson.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/chat.h"
#include "text/template.h"

#define VARS                                                                                       \
    "{\"s\": \"text\", \"n\": 5, \"l\": [1, 2], \"d\": {\"k\": \"v\"}, \"none\": null, \"f\": "    \
    "1.5}"

static const struct template_limits small = {.steps = 100000, .depth = 16, .bytes = 1 << 20};

static int render(const char *source, size_t len, struct buf *out, struct err *e)
{
    struct template *t;
    json_t *vars = json_loads(VARS, 0, NULL);
    assert_non_null(vars);
    int rc = template_compile(source, len, "t.jinja", &t, e);
    if (!rc)
        rc = template_render(t, vars, &small, out, e);
    template_close(t);
    json_decref(vars);
    return rc;
}

struct bad {
    const char *source;
    int code;
    const char *says; /* part of the message */
};

static void check(const struct bad *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct err e = {0};
        struct buf out = BUF_INIT;
        int rc = render(b[i].source, strlen(b[i].source), &out, &e);
        if (rc != -b[i].code || !strstr(e.msg, b[i].says) || !strstr(e.msg, "t.jinja, line"))
            fail_msg("%.200s\n  gave %d, '%s' and '%.60s'\n  want %d, '%s'", b[i].source, rc, e.msg,
                     buf_str(&out), -b[i].code, b[i].says);
        assert_int_equal(out.len, 0);
        buf_free(&out);
    }
}
#define CHECK(list) check((list), sizeof(list) / sizeof(list)[0])

static void test_syntax(void **state)
{
    (void)state;
    static const struct bad list[] = {
        {"a\n{{ s", E_FORMAT, "line 2: a tag {{ has no end }}"},
        {"{% if s", E_FORMAT, "has no end %}"},
        {"{# x", E_FORMAT, "comment"},
        {"{% raw %}x", E_FORMAT, "endraw"},
        {"{{ 'x }}", E_FORMAT, "closing '"},
        {"{{ \"x\n }}", E_FORMAT, "closing \""},
        {"{{ (s }}", E_FORMAT, "found '}', want ')'"},
        {"{{ s) }}", E_FORMAT, "closes nothing"},
        {"{{ s ! }}", E_FORMAT, "unexpected character '!'"},
        {"{{ s é }}", E_FORMAT, "found 'é'"},
        {"{{ }}", E_FORMAT, "want an expression"},
        {"{{ 1 + }}", E_FORMAT, "want an expression"},
        {"{{ s. }}", E_FORMAT, "behind '.'"},
        {"{{ l[] }}", E_FORMAT, "want an index"},
        {"{{ s s }}", E_FORMAT, "found 's'"},
        {"{{ f(a=1, 2) }}", E_FORMAT, "without a name"},
        {"{{ f(a=1, a=2) }}", E_FORMAT, "twice"},
        {"{{ {1: } }}", E_FORMAT, "want an expression"},
        {"{{ {1} }}", E_FORMAT, "want ':'"},
        {"{{ s|nofilter }}", E_FORMAT, "no filter called 'nofilter'"},
        {"\n\n{{ s is notest }}", E_FORMAT, "line 3: there is no test called 'notest'"},
        {"{% if n %}\n{{ s|nofilter }}{% endif %}", E_FORMAT, "line 2: there is no filter"},
        {"{{ l|map('nofilter')|list }}", E_FORMAT, "no filter called 'nofilter'"},
        {"{{ l|select('notest')|list }}", E_FORMAT, "no test called 'notest'"},
        {"{{ nofunction() }}", E_FORMAT, "'nofunction' is not defined"},
        {"{{ s|urlize }}", E_UNSUPPORTED, "'urlize' is not supported"},
        {"{{ lipsum() }}", E_UNSUPPORTED, "'lipsum'"},
        {"{{ s.encode() }}", E_UNSUPPORTED, "'encode'"},
        {"{% notag %}", E_FORMAT, "no tag 'notag'"},
        {"{% endif %}", E_FORMAT, "no tag 'endif'"},
        {"{% 5 %}", E_FORMAT, "the name of a tag"},
        {"{% if n %}", E_FORMAT, "{% endif %}"},
        {"{% for x in l %}{% endif %}", E_FORMAT, "no tag 'endif'"},
        {"{% for x of l %}{% endfor %}", E_FORMAT, "want 'in'"},
        {"{% for 5 in l %}{% endfor %}", E_FORMAT, "only names"},
        {"{% set s() = 1 %}", E_FORMAT, "found '('"},
        {"{% set 'a' = 1 %}", E_FORMAT, "only names"},
        {"{% for x in l %}{% set loop = 1 %}{% endfor %}", E_FORMAT, "'loop'"},
        {"{% break %}", E_FORMAT, "outside a loop"},
        {"{% for x in l %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}", E_FORMAT,
         "'continue' outside"},
        {"{% macro m(a, a) %}{% endmacro %}", E_FORMAT, "two parameters"},
        {"{% macro m(a=1, b) %}{% endmacro %}", E_FORMAT, "without a default"},
        {"{% call s %}{% endcall %}", E_FORMAT, "wants a call"},
        {"{% include 'x' %}", E_UNSUPPORTED, "'include'"},
        {"{% import 'x' as y %}", E_UNSUPPORTED, "'import'"},
        {"{% from 'x' import y %}", E_UNSUPPORTED, "'from'"},
        {"{% extends 'x' %}", E_UNSUPPORTED, "'extends'"},
        {"{% block b %}{% endblock %}", E_UNSUPPORTED, "'block'"},
        {"{{ '\\ud800' }}", E_FORMAT, "escape"},
        {"{{ '\\x4' }}", E_FORMAT, "escape"},
        {"{{ '\\U00110000' }}", E_FORMAT, "escape"},
        {"{{ 99999999999999999999 }}", E_LIMIT, "64 bits"},
    };
    CHECK(list);
}

static void test_values(void **state)
{
    (void)state;
    static const struct bad list[] = {
        {"{{ nope.x }}", E_FORMAT, "'nope' is not defined"},
        {"{{ d.nope.x }}", E_FORMAT, "'nope' is not defined: no attribute of that name in a dict"},
        {"{{ l[7].x }}", E_FORMAT, "element 7 is not defined"},
        {"{{ none.x.y }}", E_FORMAT, "NoneType"},
        {"{{ nope + 1 }}", E_FORMAT, "'nope'"},
        {"{{ -nope }}", E_FORMAT, "'nope'"},
        {"{{ nope < 1 }}", E_FORMAT, "'nope'"},
        {"{{ nope() }}", E_FORMAT, "'nope'"},
        {"{{ nope|int }}", E_FORMAT, "'nope'"},
        {"{{ nope|tojson }}", E_FORMAT, "'nope'"},
        {"{{ l.append(3) }}", E_FORMAT, "unsafe"},
        {"{{ d.update(a=1) }}", E_FORMAT, "unsafe"},
        {"{{ s.__class__.x }}", E_FORMAT, "unsafe"},
        {"{{ s + 1 }}", E_FORMAT, "'+' does not work between str and int"},
        {"{{ s - s }}", E_FORMAT, "'-'"},
        {"{{ l * l }}", E_FORMAT, "'*'"},
        {"{{ s < n }}", E_FORMAT, "'<'"},
        {"{{ d < d }}", E_FORMAT, "'<'"},
        {"{{ [1, 'a']|sort }}", E_FORMAT, "'<'"},
        {"{{ n in n }}", E_FORMAT, "`in`"},
        {"{{ n in s }}", E_FORMAT, "`in`"},
        {"{{ n / 0 }}{{ n }}", E_FORMAT, "division by zero"},
        {"{{ n // 0 }}", E_FORMAT, "division by zero"},
        {"{{ f % 0 }}", E_FORMAT, "division by zero"},
        {"{{ 0 ** -1 }}", E_FORMAT, "zero"},
        {"{{ (-8) ** 0.5 }}", E_UNSUPPORTED, "complex"},
        {"{{ {l: 1} }}", E_FORMAT, "key"},
        {"{{ n() }}", E_FORMAT, "cannot be called"},
        {"{{ n|length }}", E_FORMAT, "no length"},
        {"{{ n|list }}", E_FORMAT, "iterable"},
        {"{% for x in n %}{% endfor %}", E_FORMAT, "iterable"},
        {"{% set a, b = l + l %}", E_FORMAT, "want 2 values to take apart, found 4"},
        {"{% set d.x = 1 %}", E_FORMAT, "namespace"},
        {"{{ d|tojson(indent=[1]) }}", E_FORMAT, "indent must be a whole number"},
        {"{{ [range]|tojson }}", E_FORMAT, "no JSON form"},
        {"{{ {(1, 2): 3}|tojson }}", E_FORMAT, "key"},
        {"{{ s|replace('a') }}", E_FORMAT, "'new' is missing"},
        {"{{ s|upper(1) }}", E_FORMAT, "takes at most 0 arguments"},
        {"{{ s|trim(x=1) }}", E_FORMAT, "no argument 'x'"},
        {"{{ s.replace(1, 2) }}", E_FORMAT, "must be text"},
        {"{{ s.split('') }}", E_FORMAT, "empty"},
        {"{{ s.index('zz') }}", E_FORMAT, "does not contain"},
        {"{{ ','.join(l) }}", E_FORMAT, "found int"},
        {"{{ '%d'|format(s) }}", E_FORMAT, "wants a number"},
        {"{{ '%s %s'|format(1) }}", E_FORMAT, "more values than there are"},
        {"{{ '%s' % (1, 2) }}", E_FORMAT, "more values than the format wants"},
        {"{{ '%q' % 1 }}", E_FORMAT, "conversion 'q'"},
        {"{{ '{}'.format() }}", E_FORMAT, "no argument for place 0"},
        {"{{ '{x'.format(x=1) }}", E_FORMAT, "without its '}'"},
        {"{{ '{:d}'.format(s) }}", E_FORMAT, "does not suit"},
        {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", E_FORMAT, "at most 1 arguments"},
        {"{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", E_FORMAT, "no argument 'b'"},
        {"{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}", E_FORMAT, "'a' got no argument"},
        {"{% for x in l %}{{ loop(x) }}{% endfor %}", E_FORMAT, "recursive"},
        {"{{ raise_exception('one\\ntwo') }}", E_FORMAT, "line 1: one two"},
        {"{{ range(1, 2, 0) }}", E_FORMAT, "step"},
        {"{{ l[::0] }}", E_FORMAT, "step"},
        {"{{ 5[1:] }}", E_FORMAT, "sliced"},
    };
    CHECK(list);
}

static void test_limits(void **state)
{
    (void)state;
    static const struct bad list[] = {
        {"{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", E_LIMIT,
         "steps"},
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", E_LIMIT, "16 levels"},
        {"{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
         E_LIMIT, "16 levels"},
        {"{% macro m() %}{{ caller() }}{% endmacro %}"
         "{% macro n() %}{% call m() %}{{ n() }}{% endcall %}{% endmacro %}{{ n() }}",
         E_LIMIT, "16 levels"},
        {"{% for x in l recursive %}{{ loop(l) }}{% endfor %}", E_LIMIT, "16 levels"},
        {"{{ range(10 ** 12) }}", E_LIMIT, "range"},
        {"{% for x in range(0, 9223372036854775807, 2) %}{% endfor %}", E_LIMIT, "range"},
        {"{{ 'x' * 10 ** 9 }}", E_LIMIT, "longer than 1048576 bytes"},
        {"{{ [1] * 10 ** 9 }}", E_LIMIT, "longer than"},
        {"{{ 10 ** 10 ** 10 }}", E_LIMIT, "64 bits"},
        {"{{ 9223372036854775807 + 1 }}", E_LIMIT, "64 bits"},
        {"{{ -(-9223372036854775807 - 1) }}", E_LIMIT, "64 bits"},
        {"{{ (-9223372036854775807 - 1) // -1 }}", E_LIMIT, "64 bits"},
        {"{{ 1e300 ** 2 }}", E_LIMIT, "float"},
        {"{{ 1e300|int }}", E_LIMIT, "64 bits"},
        {"{{ '99999999999999999999'|int }}", E_LIMIT, "64 bits"},
        {"{% set q = namespace(x='a') %}"
         "{% for i in range(64) %}{% set q.x = q.x ~ q.x %}{% endfor %}",
         E_LIMIT, "longer than"},
        {"{% set q = namespace(x=l) %}"
         "{% for i in range(64) %}{% set q.x = q.x + q.x %}{% endfor %}",
         E_LIMIT, "memory"},
        {"{% set q = namespace(x=l) %}"
         "{% for i in range(64) %}{% set q.x = [q.x, q.x] %}{% endfor %}{{ q.x }}",
         E_LIMIT, ""},
        {"{% set q = namespace(x=l) %}"
         "{% for i in range(64) %}{% set q.x = [q.x, q.x] %}{% endfor %}{{ q.x|tojson }}",
         E_LIMIT, ""},
        {"{% set q = namespace(x=1, y=1) %}{% for i in range(64) %}{% set q.x = [q.x, q.x] %}"
         "{% set q.y = [q.y, q.y] %}{% endfor %}{{ q.x == q.y }}",
         E_LIMIT, "steps"},
        {"{% set q = namespace() %}{% set q.me = q %}{{ q }}", E_LIMIT, "nested"},
        {"{% set q = namespace(x=1) %}{% for i in range(2000) %}{% set q.x = [q.x] %}{% endfor %}"
         "{{ q.x|tojson }}",
         E_LIMIT, "nested"},
        {"{% set q = namespace(x=1) %}{% for i in range(2000) %}{% set q.x = (q.x,) %}{% endfor %}"
         "{{ {q.x: 1} }}",
         E_LIMIT, "nested"},
        {"{% for i in range(99999) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }}{% endfor %}", E_LIMIT,
         "longer than"},
        {"{{ '%999999999d' % 1 }}", E_LIMIT, "longer than"},
        {"{{ '%*d' % (9223372036854775807, 1) }}", E_LIMIT, "longer than"},
        {"{{ '%.9999f' % 1 }}", E_LIMIT, "precision"},
        {"{{ '{:999999999}'.format(1) }}", E_LIMIT, "longer than"},
        {"{{ 'x'.ljust(9223372036854775807) }}", E_LIMIT, "longer than"},
        {"{{ s|center(9223372036854775807) }}", E_LIMIT, "longer than"},
        {"{{ '1'.zfill(9223372036854775807) }}", E_LIMIT, "longer than"},
        {"{{ ('x' * 999).replace('', 'y' * 9999) }}", E_LIMIT, "longer than"},
        {"{{ ('x' * 999999).split('x') }}", E_LIMIT, ""},
        {"{{ ('y' * 999999)|list }}", E_LIMIT, ""},
        {"{{ 'x\\ny'|indent(9999999) }}", E_LIMIT, "longer than"},
        {"{{ l|tojson(indent=9999999) }}", E_LIMIT, "longer than"},
        {"{{ '\\t'.expandtabs(99999999) }}", E_LIMIT, "tabs"},
    };
    CHECK(list);
}

/* n times `part` with `middle` in between, as a template of its own. */
static void check_repeated(const char *before, const char *middle, const char *after, int code)
{
    struct buf source = BUF_INIT, out = BUF_INIT;
    struct err e = {0};
    for (int i = 0; i < 20000; i++)
        buf_puts(&source, before);
    buf_puts(&source, middle);
    for (int i = 0; i < 20000; i++)
        buf_puts(&source, after);
    int rc = render(buf_str(&source), source.len, &out, &e);
    if (rc != -code)
        fail_msg("20000 times %s %s %s: %d, %s", before, middle, after, rc, e.msg);
    buf_free(&source);
    buf_free(&out);
}

static void test_deep_nesting(void **state)
{
    (void)state;
    check_repeated("{{ (", "1", ") }}", E_LIMIT);
    check_repeated("(", "{{", ")", E_FORMAT);
    check_repeated("{% if n %}", "x", "{% endif %}", E_LIMIT);
    check_repeated("{% for i in l %}", "x", "{% endfor %}", E_LIMIT);
    check_repeated("{% macro m() %}", "x", "{% endmacro %}", E_LIMIT);
    check_repeated("{% set q %}", "x", "{% endset %}", E_LIMIT);
    check_repeated("{% if n %}", "", "", E_LIMIT);
    check_repeated("", "{{ s", ".upper()", E_FORMAT);
    struct buf b = BUF_INIT;
    static const struct {
        const char *open, *close;
    } kinds[] = {{"(", ")"},          {"[", "]"},       {"{1:", "}"},  {"not ", ""},
                 {"- ", ""},          {"s.x(", ")"},    {"1 if ", ""}, {"l[", "]"},
                 {"s|replace(", ")"}, {"s is eq(", ")"}};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct err e = {0};
        struct buf out = BUF_INIT;
        buf_clear(&b);
        buf_puts(&b, "{{ ");
        for (int i = 0; i < 5000; i++)
            buf_puts(&b, kinds[k].open);
        buf_puts(&b, "1");
        for (int i = 0; i < 5000; i++)
            buf_puts(&b, kinds[k].close);
        buf_puts(&b, " }}");
        assert_int_equal(render(buf_str(&b), b.len, &out, &e), -E_LIMIT);
        buf_free(&out);
    }
    buf_free(&b);
}

/* Long rows are fine where they need no stack: 20,000 additions, 20,000 comparisons, 20,000 elifs.
 * */
static void test_long_rows(void **state)
{
    (void)state;
    static const char *const forms[][3] = {
        {"{{ 1", " + 1", " }}"},         {"{{ s", " ~ s", " }}"},
        {"{{ 1", " < 2 > 1", " }}"},     {"{{ 0", " or 0", " }}"},
        {"{{ [1", ", 1", "]|length }}"}, {"{% if 0 %}", "{% elif 0 %}", "{% endif %}"}};
    for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
        struct err e = {0};
        struct buf b = BUF_INIT, out = BUF_INIT;
        buf_puts(&b, forms[k][0]);
        for (int i = 0; i < 20000; i++)
            buf_puts(&b, forms[k][1]);
        buf_puts(&b, forms[k][2]);
        assert_ok(render(buf_str(&b), b.len, &out, &e), e);
        buf_free(&b);
        buf_free(&out);
    }
    struct err e = {0};
    struct buf b = BUF_INIT, out = BUF_INIT;
    buf_puts(&b, "{{ s");
    for (int i = 0; i < 20000; i++)
        buf_puts(&b, "|upper");
    buf_puts(&b, " }}");
    assert_int_equal(render(buf_str(&b), b.len, &out, &e), -E_LIMIT);
    assert_non_null(strstr(e.msg, "in a row"));
    buf_free(&b);
    buf_free(&out);
}

/* An `if` once copied and compared all names of its scope with one another: 2,000 names in as many
 * branches took a minute. */
static void test_many_names_in_branches(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf b = BUF_INIT, out = BUF_INIT;
    for (int i = 0; i < 1900; i++)
        buf_printf(&b, "{%% if n %%}{%% set v%d = %d %%}{%% endif %%}", i, i);
    buf_puts(&b, "{{ v7 }}{{ v1899 }}");
    assert_ok(render(buf_str(&b), b.len, &out, &e), e);
    assert_string_equal(buf_str(&out), "71899");
    for (int i = 0; i < 200; i++)
        buf_printf(&b, "{%% set w%d = %d %%}", i, i);
    assert_int_equal(render(buf_str(&b), b.len, &out, &e), -E_LIMIT);
    assert_non_null(strstr(e.msg, "names"));
    buf_free(&b);
    buf_free(&out);
}

static void test_bytes(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf out = BUF_INIT;
    struct template *t;
    assert_int_equal(render("ab\xC3", 3, &out, &e), -E_FORMAT);
    assert_non_null(strstr(e.msg, "t.jinja: not valid UTF-8 at byte 2"));
    err_clear(&e);
    assert_int_equal(render("{{ '\xED\xA0\x80' }}", 11, &out, &e), -E_FORMAT);
    err_clear(&e);
    char *huge = mem_alloc((1 << 20) + 1);
    memset(huge, 'x', (1 << 20) + 1);
    assert_int_equal(render(huge, (1 << 20) + 1, &out, &e), -E_LIMIT);
    mem_free(huge);
    err_clear(&e);
    assert_ok(render("a\0{{ n }}\0", 10, &out, &e), e); /* NUL is a character like others */
    assert_int_equal(out.len, 4);
    assert_memory_equal(out.data, "a\0005\0", 4);
    buf_clear(&out);
    assert_ok(template_compile("", 0, "empty", &t, &e), e);
    json_t *list = json_array();
    assert_int_equal(template_render(t, list, NULL, &out, &e), -E_ARG);
    json_decref(list);
    template_close(t);
    buf_free(&out);
}

/* Output is whole or absent, and what was in the buffer stays. */
static void test_output_unchanged_on_failure(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf out = BUF_INIT;
    buf_puts(&out, "before");
    assert_int_equal(render("text {{ nope.x }}", 17, &out, &e), -E_FORMAT);
    assert_string_equal(buf_str(&out), "before");
    err_clear(&e);
    assert_ok(render("{{ s }}", 7, &out, &e), e);
    assert_string_equal(buf_str(&out), "beforetext");
    buf_free(&out);
}

static const char everything[] =
    "{% macro m(a, b=[1]) %}{{ a ~ b }}{{ caller('x') if caller else varargs }}{% endmacro %}"
    "{% set q %}{% for k, v in d.items() if v %}{{ loop.length }}{{ k|upper }}{% endfor %}{% "
    "endset %}"
    "{% call(x) m(q, b={'y': l|map('string')|list}) %}{{ x * 40 }}{% endcall %}{{ m(1, 2, 3) }}"
    "{{ d|tojson(indent=2) }}{{ '%s-%5.2f'|format(s, f) }}{{ '{:>9}'.format(s) }}{{ l|sort|join }}"
    "{{ s.split('x') }}{{ s[::-1] }}{{ namespace(a=1) }}{{ range(3)|list }}{{ s|indent(2, true) }}"
    "{% filter replace('t', 'T') %}{{ l|groupby('real')|list if false else s }}{% endfilter %}"
    "{% for n in [[1, [2]]] recursive %}{{ n }}{{ loop([]) }}{% endfor %}{{ s.replace('t', '<'|e) "
    "}}";

/* Every allocation of compiling and rendering fails once. */
static void test_no_memory(void **state)
{
    (void)state;
    json_t *vars = json_loads(VARS, 0, NULL);
    long n = 0;
    for (int rc = -1; rc; n++) {
        struct err e = {0};
        struct buf out = BUF_INIT;
        struct template *t = NULL;
        mem_fail_at(n + 1);
        rc = template_compile(everything, sizeof everything - 1, "t.jinja", &t, &e);
        if (!rc)
            rc = template_render(t, vars, NULL, &out, &e);
        mem_fail_at(0);
        if (rc) {
            if (rc != -E_NOMEM)
                fail_msg("allocation %ld: %d, %s", n + 1, rc, e.msg);
            assert_int_equal(out.len, 0);
        } else {
            assert_true(out.len > 150);
        }
        template_close(t);
        buf_free(&out);
    }
    print_message("note: %ld allocations failed one by one\n", n - 1);
    assert_true(n > 40);
    json_decref(vars);
}

static void check_chat(const char *messages, const char *tools, const char *set, const char *says)
{
    struct err e = {0};
    struct buf out = BUF_INIT;
    struct chat *c;
    assert_ok(chat_open(DEMO, &c, &e), e);
    json_t *m = json_loads(messages, JSON_DECODE_ANY, NULL);
    json_t *t = tools ? json_loads(tools, JSON_DECODE_ANY, NULL) : NULL;
    json_t *s = set ? json_loads(set, JSON_DECODE_ANY, NULL) : NULL;
    assert_non_null(m);
    assert_true(chat_render(c, m, t, s, &out, &e) < 0);
    if (!strstr(e.msg, says))
        fail_msg("%s: '%s', want '%s'", messages, e.msg, says);
    json_decref(m);
    json_decref(t);
    json_decref(s);
    chat_close(c);
    buf_free(&out);
}

static void test_bad_conversations(void **state)
{
    (void)state;
    check_chat("{}", NULL, NULL, "messages: want a list, found an empty object");
    check_chat("[5]", NULL, NULL, "messages[0]: want an object, found the integer 5");
    check_chat("[{}]", NULL, NULL, "messages[0].role");
    check_chat("[{\"role\": 5}]", NULL, NULL, "messages[0].role");
    check_chat("[{\"role\": \"user\", \"content\": 5}]", NULL, NULL, "messages[0].content");
    check_chat("[{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", \"content\": "
               "\"x\", \"tool_calls\": {}}]",
               NULL, NULL, "messages[1].tool_calls");
    check_chat("[]", "{}", NULL, "tools: want a list");
    check_chat("[]", "[1]", NULL, "tools[0]");
    check_chat("[]", NULL, "[]", "variables");
    check_chat("[]", NULL, NULL, "chat_template.jinja, line 20: no messages");
}

/* A folder whose tokenizer_config.json has this content, and what chat_open says. */
static void check_folder(const char *config, int code, const char *says)
{
    struct err e = {0};
    struct chat *c;
    char *dir = aid_tmpdir(), *path = file_join(dir, "tokenizer_config.json");
    if (config)
        aid_write(path, config, strlen(config));
    int rc = chat_open(dir, &c, &e);
    if (rc != -code || !strstr(e.msg, says))
        fail_msg("%s: %d, '%s', want %d, '%s'", config ? config : "nothing", rc, e.msg, -code,
                 says);
    chat_close(c);
    mem_free(path);
    aid_rmdir(dir);
}

static void test_bad_folders(void **state)
{
    (void)state;
    check_folder(NULL, E_NOTFOUND, "no chat template");
    check_folder("{}", E_NOTFOUND, "no chat template");
    check_folder("{\"chat_template\": null}", E_NOTFOUND, "no chat template");
    check_folder("{\"chat_template\": 5}", E_FORMAT, "want a string or a list");
    check_folder("{\"chat_template\": [{\"name\": \"rag\", \"template\": \"x\"}]}", E_FORMAT,
                 "\"default\"");
    check_folder("{\"chat_template\": \"{{ x\"}", E_FORMAT,
                 "/tokenizer_config.json: chat_template, line 1");
    check_folder("{", E_FORMAT, "not valid JSON");
    check_folder("{\"chat_template\": \"ok\"}", 0, "");
    check_folder("{\"chat_template\": [{\"name\": \"default\", \"template\": \"x\"}]}", 0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_syntax),     cmocka_unit_test(test_values),
        cmocka_unit_test(test_limits),     cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_long_rows),  cmocka_unit_test(test_many_names_in_branches),
        cmocka_unit_test(test_bytes),      cmocka_unit_test(test_output_unchanged_on_failure),
        cmocka_unit_test(test_no_memory),  cmocka_unit_test(test_bad_conversations),
        cmocka_unit_test(test_bad_folders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
