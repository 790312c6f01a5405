/* Packing copied a broken tokenizer, template or generation_config.json unseen, and only `run`,
 * after an hour of packing, refused the store. Now pack refuses the source, in the words of run. */
#include "tests/aid_demo.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#define MICRO GOLDENS "micro/bf16"

static char *good; /* a folder whose packed/ is the store of MICRO */

/* A folder of links to MICRO's files, and one of them replaced by this text, or (NULL) left out. */
static char *source_with(const char *name, const char *text)
{
    char *dir = aid_tmpdir(), *here = realpath(MICRO, NULL), *path = file_join(dir, name);
    DIR *all = opendir(MICRO);
    assert_true(all && here && path);
    for (struct dirent *d; (d = readdir(all));) {
        char *from = file_join(here, d->d_name), *to = file_join(dir, d->d_name);
        if (d->d_name[0] != '.' && strcmp(d->d_name, name) != 0 && symlink(from, to))
            fail_msg("cannot link %s", to);
        mem_free(from);
        mem_free(to);
    }
    closedir(all);
    if (text)
        aid_write(path, text, strlen(text));
    mem_free(path);
    free(here);
    return dir;
}

static int setup(void **state)
{
    (void)state;
    good = source_with("", NULL);
    const char *argv[] = {"cherenkov", "pack", good, NULL};
    struct aid_output o;
    aid_run(argv, NULL, &o);
    aid_output_free(&o);
    return o.status;
}

static int teardown(void **state)
{
    (void)state;
    aid_rmdir(good);
    return 0;
}

/* Its status, and what it says from the name of the file on. */
static struct buf says(const char *const *argv, const char *name, int status)
{
    struct aid_output o;
    struct buf b = BUF_INIT;
    aid_run(argv, NULL, &o);
    const char *from = strstr(buf_str(&o.err), name);
    if (o.status != status || !from)
        fail_msg("%s: status %d, want %d, and %s: %s", argv[1], o.status, status, name,
                 buf_str(&o.err));
    buf_puts(&b, from);
    aid_output_free(&o);
    return b;
}

static void test_broken_texts(void **state)
{
    (void)state;
    static const char *const broken[][2] = {
        {"tokenizer.json", "{"},
        {"tokenizer.json", "{\"model\": {\"type\": \"Unigram\"}}"},
        {"chat_template.jinja", "{% if %}"},
        {"chat_template.jinja", ""}, /* packed, and then no prompt had any tokens */
        {"chat_template.jinja", "\n"},
        {"generation_config.json", "{\"eos_token_id\": 99999}"},
    };
    char *packed = file_join(good, "packed");
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        const char *name = broken[i][0];
        char *source = source_with(name, broken[i][1]);
        char *store = aid_demo_with(packed, name, broken[i][1]), *output = file_join(source, "out");
        const char *const runs[] = {"cherenkov", "run", store, "x", "--raw", NULL};
        const char *const packs[] = {"cherenkov", "pack", source, "--output", output, NULL};
        const char *const plans[] = {"cherenkov", "pack", source, "--dry-run", NULL};
        struct buf want = says(runs, name, 3), found = says(packs, name, 3),
                   planned = says(plans, name, 3);
        assert_string_equal(buf_str(&found), buf_str(&want));
        assert_string_equal(buf_str(&planned), buf_str(&want));
        assert_false(file_exists(output));
        buf_free(&want);
        buf_free(&found);
        buf_free(&planned);
        mem_free(output);
        aid_rmdir(source);
        aid_rmdir(store);
    }
    mem_free(packed);
}

/* Of a user's words run said "the prompt has no tokens: give at least one". */
static void test_renders_nothing(void **state)
{
    (void)state;
    char *packed = file_join(good, "packed");
    char *store = aid_demo_with(packed, "chat_template.jinja", "{# to be written #}");
    const char *const runs[] = {"cherenkov", "run", store, "x", NULL};
    struct buf found = says(runs, "the chat template renders these messages to nothing", 3);
    buf_free(&found);
    aid_rmdir(store);
    mem_free(packed);
}

/* A link to nowhere, as an unfinished download leaves it, was met when all weights were written. */
static void test_unreadable_text(void **state)
{
    (void)state;
    char *source = source_with("tokenizer.json", NULL), *link = file_join(source, "tokenizer.json");
    char *output = file_join(source, "out");
    assert_int_equal(symlink("no/such/blob", link), 0);
    const char *const packs[] = {"cherenkov", "pack", source, "--output", output, NULL};
    struct buf found = says(packs, "tokenizer.json: cannot open", 3);
    assert_false(file_exists(output));
    buf_free(&found);
    mem_free(output);
    mem_free(link);
    aid_rmdir(source);
}

/* Without a tokenizer there is nothing that `run` could use, and `logits` needs none. */
static void test_without_tokenizer(void **state)
{
    (void)state;
    char *source = source_with("tokenizer.json", NULL), *store = file_join(source, "packed");
    const char *packs[] = {"cherenkov", "pack", source, NULL};
    const char *logits[] = {"cherenkov", "logits", store, "--ids", "1,2", NULL};
    struct aid_output o;
    aid_run(packs, NULL, &o);
    assert_int_equal(o.status, 0);
    aid_output_free(&o);
    aid_run(logits, NULL, &o);
    assert_int_equal(o.status, 0);
    aid_output_free(&o);
    mem_free(store);
    aid_rmdir(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_texts),
        cmocka_unit_test(test_renders_nothing),
        cmocka_unit_test(test_unreadable_text),
        cmocka_unit_test(test_without_tokenizer),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
