/* cherenkov devices: the GPUs of this machine, what they can do, and which one the gpu engine would
 * use. The facts are gathered into one JSON value; --json prints it, and the text is made from it.
 */
#include <jansson.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/env.h"
#include "base/json.h"
#include "cli/flags.h"
#include "gpu/device.h"

static json_t *features_json(const struct device_info *d)
{
    const struct {
        const char *name;
        bool has;
    } all[] = {
        {"integer dot products", d->dot},
        {"16-bit floats", d->half},
        {"host memory in place", d->import_align != 0},
        {"device memory written by the host", d->shared_local},
        {"memory shared with the host", d->unified},
        {"matrices of bytes", d->matrix.m != 0},
        {"a queue for copies", d->copy_queue},
        {"a clock", d->tick_ns > 0},
    };
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].has)
            json_array_append_new(list, json_string(all[i].name));
    return list;
}

static json_t *device_json(const struct device_info *d, int number, bool used)
{
    json_t *o = json_object(), *sizes = json_array();
    json_array_append_new(sizes, json_integer(d->subgroup_min));
    json_array_append_new(sizes, json_integer(d->subgroup_max));
    json_object_set_new(o, "number", json_integer(number));
    json_object_set_new(o, "name", json_string(d->name));
    json_object_set_new(o, "kind", json_string(device_kind_name(d->kind)));
    json_object_set_new(o, "driver", json_string(d->driver));
    json_object_set_new(o, "memory_bytes", json_integer((json_int_t)d->memory_bytes));
    json_object_set_new(o, "free_bytes", json_integer((json_int_t)d->free_bytes));
    json_object_set_new(o, "buffer_bytes_max", json_integer((json_int_t)d->buffer_bytes_max));
    json_object_set_new(o, "subgroup", json_integer(d->subgroup));
    json_object_set_new(o, "subgroup_sizes", sizes);
    json_object_set_new(o, "features", features_json(d));
    json_object_set_new(o, "runs", json_boolean(!d->why_not[0]));
    json_object_set_new(o, "why_not", json_string(d->why_not));
    json_object_set_new(o, "used", json_boolean(used));
    return o;
}

/* What is there, and why nothing would run if that is so. */
static json_t *gather(void)
{
    struct device_info all[DEVICES_MAX], picked;
    struct err e = {0};
    int n = 0;
    bool any = false;
    json_t *o = json_object(), *list = json_array();
    if (!device_list(all, &n, &e))
        any = !device_pick(NULL, &picked, &e);
    const char *asked = env_get(ENV_DEVICE);
    for (int i = 0; i < n; i++) {
        bool used = any && picked.number == i;
        json_array_append_new(list, device_json(&all[i], i, used));
    }
    json_object_set_new(o, "devices", list);
    json_object_set_new(o, "asked", asked ? json_string(asked) : json_null());
    json_object_set_new(o, "reason", any ? json_null() : json_string(e.msg));
    return o;
}

static const char *text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static double gib(const json_t *o, const char *key)
{
    return (double)json_integer_value(json_object_get(o, key)) / 0x1p30;
}

static void print_device(const json_t *d)
{
    size_t i;
    json_t *f;
    printf("%d  %s\n", (int)json_integer_value(json_object_get(d, "number")), text(d, "name"));
    printf("   %s, %.1f GiB (%.1f free), subgroups of %d, %s\n", text(d, "kind"),
           gib(d, "memory_bytes"), gib(d, "free_bytes"),
           (int)json_integer_value(json_object_get(d, "subgroup")), text(d, "driver"));
    printf("   has: ");
    json_array_foreach(json_object_get(d, "features"), i, f)
        printf("%s%s", i ? ", " : "", json_string_value(f));
    printf("\n");
    if (text(d, "why_not")[0])
        printf("   cannot run the gpu engine: it %s\n", text(d, "why_not"));
    if (json_is_true(json_object_get(d, "used")))
        printf("   the gpu engine uses this one\n");
}

static void print_text(const json_t *o)
{
    size_t i;
    json_t *d;
    json_array_foreach(json_object_get(o, "devices"), i, d)
        print_device(d);
    if (text(o, "reason"))
        printf("The gpu engine does not run: %s.\n", text(o, "reason"));
}

static int run(int argc, char **argv, struct err *e)
{
    bool json = false;
    const struct flag flag[] = {
        {"json", FLAG_BOOL, &json, NULL, "print JSON", 0, 0},
        {0},
    };
    struct flags f = {.command = &cmd_devices, .flag = flag};
    int rc = flags_parse(&f, argc, argv, e);
    if (rc || f.help)
        return rc;
    json_t *o = gather();
    struct buf out = BUF_INIT;
    if (json)
        rc = json_print(o, JSON_INDENT(2), &out, e);
    else
        print_text(o);
    if (json && !rc)
        printf("%s\n", buf_str(&out));
    buf_free(&out);
    json_decref(o);
    return rc;
}

const struct command cmd_devices = {"devices", "", "list the GPUs, and what would run on them",
                                    run};
