/* Packing in tests: a temporary place, packing by the library, and comparing stores. */
#ifndef TESTS_AID_PACK_H
#define TESTS_AID_PACK_H

#include "pack/pack.h"

/* Packs source into dir, quietly. Returns what plan_open or pack_run return; r may be NULL. */
int aid_pack(const char *source, const char *dir, const struct plan_choices *choices,
             struct pack_report *r, struct err *e);
/* Packs, and fails the test if that fails. */
void aid_pack_ok(const char *source, const char *dir, const struct plan_choices *choices);
/* Verifies a store: 0, or the code with its message in e. */
int aid_verify(const char *dir, struct err *e);
/* Fails the test when a file of two stores differs. */
void aid_same_file(const char *dir_a, const char *dir_b, const char *name);
/* dense.bin, experts.bin, ngram.bin and checksums.bin the same, and manifests but for
 * source_dir. */
void aid_same_store(const char *dir_a, const char *dir_b);
bool aid_has(const char *dir, const char *name); /* there is such a file */
/* "dir/name", good for the next 63 calls. */
const char *aid_path(const char *dir, const char *name);

#endif
