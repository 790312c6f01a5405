/* The packed demonstration model: see aid_demo.h. */
#include "tests/aid_demo.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

char *aid_demo_folder, *aid_demo_store;

char *aid_demo_pack(void)
{
    char *dir = aid_tmpdir(), *packed = file_join(dir, "packed");
    const char *argv[] = {"cherenkov", "pack", DEMO, "--output", packed, NULL};
    struct aid_output o;
    aid_run(argv, NULL, &o);
    if (o.status)
        fail_msg("packing %s: %s", DEMO, buf_str(&o.err));
    aid_output_free(&o);
    mem_free(packed);
    return dir;
}

int aid_demo_open(void **state)
{
    (void)state;
    aid_demo_folder = aid_demo_pack();
    aid_demo_store = file_join(aid_demo_folder, "packed");
    return 0;
}

int aid_demo_close(void **state)
{
    (void)state;
    mem_free(aid_demo_store);
    aid_rmdir(aid_demo_folder);
    return 0;
}

char *aid_demo_with(const char *packed, const char *name, const char *text)
{
    static const char *const names[] = {
        "manifest.json",      "dense.bin",      "experts.bin",           "ngram.bin",
        "config.json",        "tokenizer.json", "tokenizer_config.json", "generation_config.json",
        "chat_template.jinja"};
    char *dir = aid_tmpdir(), *path = file_join(dir, name);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *from = file_join(packed, names[i]), *to = file_join(dir, names[i]);
        if (strcmp(names[i], name) != 0 && symlink(from, to))
            fail_msg("cannot link %s", to);
        mem_free(from);
        mem_free(to);
    }
    if (text)
        aid_write(path, text, strlen(text));
    mem_free(path);
    return dir;
}

json_t *aid_demo_goldens(void)
{
    json_error_t je;
    json_t *g = json_load_file(GOLDENS "demo/goldens.json", 0, &je);
    if (!g)
        fail_msg("demo goldens: %s", je.text);
    return g;
}

char *aid_id_list(const json_t *ids)
{
    struct buf b = BUF_INIT;
    for (size_t i = 0; i < json_array_size(ids); i++)
        buf_printf(&b, "%s%d", i ? "," : "", (int)json_integer_value(json_array_get(ids, i)));
    return b.data;
}

bool aid_is_raw(const json_t *greedy)
{
    return strcmp(json_string_value(json_object_get(greedy, "name")), "Once upon a time") == 0;
}
