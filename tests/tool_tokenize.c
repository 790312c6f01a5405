/* Encodes and decodes many texts at once, for tests/npm/tokenizer.mjs.
 *
 *   tool_tokenize TOKENIZER.JSON <REQUEST.json >ANSWER.json
 *
 * Request {"texts": [text...], "ids": [[id...]...]}; answer {"ids": [[id...]...], "texts": [...],
 * "shown": [...], "load": s, "encode": s}: of each text its ids; of each list of ids its text, and
 * that without special tokens; processor time for loading and for encoding all. */
#include <jansson.h>
#include <stdio.h>
#include <time.h>

#include "text/tokenizer.h"

static int encode_all(const struct tokenizer *t, json_t *texts, json_t *answer, struct err *e)
{
    json_t *all = json_array(), *text;
    size_t i;
    int rc = 0;
    json_object_set_new(answer, "ids", all);
    json_array_foreach(texts, i, text) {
        struct tokens ids = {0};
        json_t *list = json_array();
        rc = rc ? rc
                : tokenizer_encode(t, json_string_value(text), json_string_length(text), false,
                                   &ids, e);
        for (size_t k = 0; k < ids.n; k++)
            json_array_append_new(list, json_integer(ids.ids[k]));
        json_array_append_new(all, list);
        tokens_free(&ids);
    }
    return rc;
}

static int decode_all(const struct tokenizer *t, json_t *lists, bool skip, json_t *texts,
                      struct err *e)
{
    json_t *list, *id;
    size_t i, k;
    int rc = 0;
    json_array_foreach(lists, i, list) {
        struct tokens ids = {0};
        struct buf b = BUF_INIT;
        json_array_foreach(list, k, id)
            rc = rc ? rc : tokens_push(&ids, (int32_t)json_integer_value(id), e);
        rc = rc ? rc : tokenizer_decode(t, ids.ids, ids.n, skip, &b, e);
        json_array_append_new(texts, json_stringn(buf_str(&b), b.len));
        buf_free(&b);
        tokens_free(&ids);
    }
    return rc;
}

/* Notes the processor time since *start, and starts again. */
static void note_time(json_t *answer, const char *what, clock_t *start)
{
    json_object_set_new(answer, what, json_real((double)(clock() - *start) / CLOCKS_PER_SEC));
    *start = clock();
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct tokenizer *t = NULL;
    json_error_t je;
    json_t *request = json_loadf(stdin, JSON_ALLOW_NUL, &je), *answer = json_object();
    if (argc != 2 || !request) {
        fprintf(stderr, "usage: tool_tokenize TOKENIZER.JSON <REQUEST.json; %s\n",
                request ? "" : je.text);
        return 2;
    }
    json_t *ids = json_object_get(request, "ids"), *texts = json_array(), *shown = json_array();
    clock_t start = clock();
    int rc = tokenizer_open(argv[1], &t, &e);
    note_time(answer, "load", &start);
    rc = rc ? rc : encode_all(t, json_object_get(request, "texts"), answer, &e);
    note_time(answer, "encode", &start);
    rc = rc ? rc : decode_all(t, ids, false, texts, &e);
    rc = rc ? rc : decode_all(t, ids, true, shown, &e);
    json_object_set_new(answer, "texts", texts);
    json_object_set_new(answer, "shown", shown);
    if (!rc && json_dumpf(answer, stdout, JSON_COMPACT))
        rc = ERR(&e, E_IO, "writing the answer failed");
    if (rc)
        fprintf(stderr, "%s\n", e.msg);
    json_decref(request);
    json_decref(answer);
    tokenizer_close(t);
    return rc != 0;
}
