/* cherenkov prompt, as a user runs it: what a conversation renders to, from files and standard
 * input, and what is said of those that are not as they should be. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"

static char *dir;
static char *file[5];
enum { MESSAGES, TOOLS, TEMPLATE, BROKEN, ENDLESS };

static const char *const contents[] = {
    [MESSAGES] = "[{\"role\": \"user\", \"content\": \"Hi é\"}]",
    [TOOLS] = "[{\"type\": \"function\", \"function\": {\"name\": \"look\"}}]",
    [TEMPLATE] = "{%- for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
                 "{%- if tools %}{{ tools | tojson }}{% endif %}"
                 "{%- if mood is defined %}[{{ mood }}]{% endif %}"
                 "{%- if add_generation_prompt %}<assistant>{% endif %}",
    [BROKEN] = "line one\n{% if x %}",
    [ENDLESS] = ("\n{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}"
                 "{% endfor %}"),
};

static int setup(void **state)
{
    (void)state;
    static const char *const names[] = {"messages", "tools", "template", "broken", "endless"};
    dir = aid_tmpdir();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        file[i] = file_join(dir, names[i]);
        aid_write(file[i], contents[i], strlen(contents[i]));
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof file / sizeof file[0]; i++)
        mem_free(file[i]);
    aid_rmdir(dir);
    return 0;
}

/* Runs the words behind "cherenkov prompt"; out NULL: any, says: part of standard error. */
static void expect(int status, const char *out, const char *says, const char *in,
                   const char *const *words)
{
    const char *argv[16] = {"cherenkov", "prompt"};
    struct aid_output o;
    for (int i = 0; words[i]; i++)
        argv[2 + i] = words[i];
    aid_run(argv, in, &o);
    if (o.status != status || (out && strcmp(buf_str(&o.out), out) != 0) ||
        !strstr(buf_str(&o.err), says))
        fail_msg("status %d, want %d\nstdout: %s\nwant:   %s\nstderr: %s\nwant:   %s", o.status,
                 status, buf_str(&o.out), out ? out : "(any)", buf_str(&o.err), says);
    aid_output_free(&o);
}

#define EXPECT(status, out, says, in, ...)                                                         \
    expect(status, out, says, in, (const char *const[]){__VA_ARGS__, NULL})

static void test_renders(void **state)
{
    (void)state;
    EXPECT(0, "<user>Hi é<assistant>", "1 messages", NULL, file[TEMPLATE], "--messages",
           file[MESSAGES]);
    EXPECT(0, "<user>Hi é", "", NULL, file[TEMPLATE], "--messages", file[MESSAGES],
           "--no-generation-prompt");
    EXPECT(0,
           "<user>Hi é[{\"type\": \"function\", \"function\": {\"name\": \"look\"}}][calm]"
           "<assistant>",
           "", NULL, file[TEMPLATE], "--messages", file[MESSAGES], "--tools", file[TOOLS], "--set",
           "mood=\"calm\"");
    EXPECT(0, "<user>Hi é[4]<assistant>", "", NULL, file[TEMPLATE], "--messages", file[MESSAGES],
           "--set", "mood=3", "--set", "mood=4");
}

/* `-` was taken for a file of that name. */
static void test_standard_input(void **state)
{
    (void)state;
    EXPECT(0, "<user>Hi é<assistant>", "1 messages", contents[MESSAGES], file[TEMPLATE],
           "--messages", "-");
    EXPECT(0, NULL, "", contents[TOOLS], file[TEMPLATE], "--messages", file[MESSAGES], "--tools",
           "-");
    EXPECT(2, "", "cannot both be standard input", contents[TOOLS], file[TEMPLATE], "--messages",
           "-", "--tools", "-");
    EXPECT(3, "", "standard input: line 1, column 2", "[}", file[TEMPLATE], "--messages", "-");
}

/* A model folder has template and tokenizer: text and ids belong to one another. */
static void test_model(void **state)
{
    (void)state;
    struct aid_output text, ids, again;
    aid_run((const char *[]){"cherenkov", "prompt", DEMO, "--messages", file[MESSAGES], NULL}, NULL,
            &text);
    assert_int_equal(text.status, 0);
    aid_run(
        (const char *[]){"cherenkov", "prompt", DEMO, "--messages", file[MESSAGES], "--ids", NULL},
        NULL, &ids);
    assert_int_equal(ids.status, 0);
    aid_run((const char *[]){"cherenkov", "tokenize", DEMO, "--decode", "-", NULL},
            buf_str(&ids.out), &again);
    buf_puts(&text.out, "\n"); /* --decode ends its line */
    assert_string_equal(buf_str(&again.out), buf_str(&text.out));
    assert_non_null(strstr(buf_str(&text.out), "Hi é"));
    aid_output_free(&text);
    aid_output_free(&ids);
    aid_output_free(&again);
    EXPECT(2, "", "--ids wants a store or model folder", NULL, file[TEMPLATE], "--messages",
           file[MESSAGES], "--ids");
}

static void test_mistakes(void **state)
{
    (void)state;
    EXPECT(2, "", "--messages FILE is missing", NULL, file[TEMPLATE]);
    EXPECT(2, "", "want NAME=JSON", NULL, file[TEMPLATE], "--messages", file[MESSAGES], "--set",
           "mood");
    EXPECT(2, "", "'calm' is no JSON", NULL, file[TEMPLATE], "--messages", file[MESSAGES], "--set",
           "mood=calm");
    EXPECT(3, "", "broken, line 2: the template ends where", NULL, file[BROKEN], "--messages",
           file[MESSAGES]);
    EXPECT(1, "", "endless, line 2", NULL, file[ENDLESS], "--messages", file[MESSAGES]);
    EXPECT(3, "", "want", "{\"role\": \"user\"}", file[TEMPLATE], "--messages", "-");
    EXPECT(3, "", "/no/such", NULL, "/no/such", "--messages", file[MESSAGES]);
    EXPECT(3, "", "/no/such", NULL, file[TEMPLATE], "--messages", "/no/such");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_renders),
        cmocka_unit_test(test_standard_input),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
