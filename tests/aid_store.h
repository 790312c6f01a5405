/* Stores made of made-up tensors (aid_tensors.h), written by a few lines of their own, so that what
 * reads stores is tested against the format and not against the packer. */
#ifndef TESTS_AID_STORE_H
#define TESTS_AID_STORE_H

#include <jansson.h>

#include "tests/aid_tensors.h"

/* A manifest of the tensors, for json_decref. */
json_t *aid_store_manifest(const struct aid_tensors *t);
/* Writes a store into an existing directory: the manifest given, config.json as it is at
 * config_path, dense.bin with the tensors, and experts.bin and ngram.bin in which byte i is
 * aid_store_byte(i), but all scales and biases are finite. */
void aid_store_write(const char *dir, const char *config_path, const struct aid_tensors *t,
                     const json_t *manifest);
uint8_t aid_store_byte(uint64_t i);

/* Sets or (text NULL) removes a value inside: "experts.group", "dense.0.shape.1". text is JSON. */
void aid_json_set(json_t *root, const char *path, const char *text);
/* Writes dir/name. */
void aid_store_write_json(const char *dir, const char *name, const json_t *value);

#endif
