/* Tags: see tooltag.h. */
#include "text/tooltag.h"

#include <string.h>

static const struct {
    enum tag_kind kind;
    const char *text; /* the whole tag, or what stands before its name */
} tags[] = {
    {TAG_CALL, "<tool_call>"},      {TAG_CALL_END, "</tool_call>"},
    {TAG_FUNCTION, "<function="},   {TAG_FUNCTION_END, "</function>"},
    {TAG_PARAMETER, "<parameter="}, {TAG_PARAMETER_END, "</parameter>"},
};

size_t tag_blanks(const char *s, size_t n)
{
    size_t k = 0;
    while (k < n && (s[k] == ' ' || s[k] == '\n' || s[k] == '\t' || s[k] == '\r'))
        k++;
    return k;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/* Behind the name: > or, with blanks before it, the < of a next tag. */
static void read_function(const char *s, size_t n, struct tag *t)
{
    size_t len = 0, blanks;
    while (len < n && len <= TOOL_NAME_MAX && is_name(s[len]))
        len++;
    if (len > TOOL_NAME_MAX || (len < n && !len))
        return;
    blanks = tag_blanks(s + len, n - len);
    if (blanks > TAG_BLANKS_MAX)
        return;
    if (len + blanks == n) {
        t->kind = TAG_PARTIAL;
        return;
    }
    t->open = s[len + blanks] == '<' && blanks;
    if (s[len + blanks] != '>' && !t->open)
        return;
    t->kind = TAG_FUNCTION;
    memcpy(t->name, s, len);
    t->name[len] = '\0';
    t->len += len + blanks + !t->open;
}

static void read_parameter(const char *s, size_t n, struct tag *t)
{
    size_t len = 0;
    while (len < n && len <= TOOL_NAME_MAX && !strchr("<>\r\n", s[len]))
        len++; /* strchr finds the NUL too */
    if (len > TOOL_NAME_MAX || (len < n && (s[len] != '>' || !len)))
        return;
    t->kind = len == n ? TAG_PARTIAL : TAG_PARAMETER;
    memcpy(t->name, s, len);
    t->name[len] = '\0';
    t->len += len + 1;
}

void tag_read(const char *s, size_t n, struct tag *t)
{
    *t = (struct tag){0};
    if (!n)
        t->kind = TAG_PARTIAL;
    for (size_t i = 0; i < sizeof tags / sizeof tags[0] && n; i++) {
        size_t len = strlen(tags[i].text), most = n < len ? n : len;
        if (memcmp(s, tags[i].text, most) != 0)
            continue;
        if (n < len) {
            t->kind = TAG_PARTIAL;
            return;
        }
        t->len = len;
        if (tags[i].kind == TAG_FUNCTION)
            read_function(s + len, n - len, t);
        else if (tags[i].kind == TAG_PARAMETER)
            read_parameter(s + len, n - len, t);
        else
            t->kind = tags[i].kind;
        return;
    }
}
