/* Values of parameters: see toolvalue.h. */
#include "text/toolvalue.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"

/* JSON's own words come first, then those that other languages have for them. */
static const struct {
    const char *word, *json;
    unsigned type;
} words[] = {
    {"true", "true", TOOL_BOOLEAN},
    {"false", "false", TOOL_BOOLEAN},
    {"null", "null", TOOL_NULL},
    {"none", "null", TOOL_NULL},
};

void toolvalue_escape(const char *text, size_t len, struct buf *out)
{
    static const char plain[] = "\"\"\\\\\nn\tt\rr"; /* pairs: a byte, what stands behind the \ */
    size_t from = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7F)
            continue;
        buf_add(out, text + from, i - from);
        from = i + 1;
        const char *p = plain;
        while (*p && *p != (char)c)
            p += 2;
        if (*p && c)
            buf_printf(out, "\\%c", p[1]);
        else
            buf_printf(out, "\\u%04x", c);
    }
    buf_add(out, text + from, len - from);
}

static unsigned type_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return TOOL_OBJECT;
    case JSON_ARRAY:
        return TOOL_ARRAY;
    case JSON_STRING:
        return TOOL_STRING;
    case JSON_INTEGER:
        return TOOL_INTEGER | TOOL_NUMBER;
    case JSON_REAL:
        return TOOL_NUMBER;
    case JSON_NULL:
        return TOOL_NULL;
    default:
        return TOOL_BOOLEAN;
    }
}

/* 1e5 and 3.0 are whole numbers, and are written as such where one is wanted. */
static bool put_integer(const json_t *v, unsigned types, struct buf *out)
{
    double d = json_real_value(v);
    if (!json_is_real(v) || !(types & TOOL_INTEGER) || (types & TOOL_NUMBER) || d != floor(d) ||
        fabs(d) > 0x1p53)
        return false;
    buf_printf(out, "%.0f", d);
    return true;
}

static bool put_word(unsigned types, const char *s, size_t n, struct buf *out)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if ((types & words[i].type) && strlen(words[i].word) == n &&
            strncasecmp(words[i].word, s, n) == 0) {
            buf_puts(out, words[i].json);
            return true;
        }
    return false;
}

static void put_string(const char *s, size_t n, struct buf *out)
{
    buf_putc(out, '"');
    toolvalue_escape(s, n, out);
    buf_putc(out, '"');
}

bool toolvalue_json(unsigned types, const char *text, size_t len, struct buf *out)
{
    static const char blanks[] = " \t\r\n";
    const char *s = text;
    size_t n = len;
    struct err e = {0};
    json_t *v = NULL;
    while (n && strchr(blanks, s[0]) && s[0])
        s++, n--;
    while (n && strchr(blanks, s[n - 1]) && s[n - 1])
        n--;
    if (!n) {
        buf_puts(out, types ? "" : "\"\"");
        return true;
    }
    if (put_word(types, s, n, out))
        return true;
    json_parse(s, n, "value", &v, &e);
    bool fits = v ? !types || (type_of(v) & types) : !types;
    if (!v)
        put_string(types ? s : text, types ? n : len, out);
    else if (put_integer(v, types, out))
        fits = true;
    else
        json_print(v, JSON_COMPACT | JSON_ENCODE_ANY, out, &e);
    json_decref(v);
    return fits;
}
