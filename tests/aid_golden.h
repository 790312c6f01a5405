/* The checkpoints of the goldens, with those that are left out of the repository for their size.
 *
 * A golden's weights are numbers seeded by the tensor's name (tests/data/goldens/scripts), so that
 * they can be made again, bit for bit; tests/data/goldens/checksums.tsv pins the files. */
#ifndef TESTS_AID_GOLDEN_H
#define TESTS_AID_GOLDEN_H

#include "base/err.h"

/* A folder with the mlx4 checkpoint of this golden and its goldens.json: the one in the repository,
 * or for "deep" and "wide" one below build/, made when it is first asked for. Fails the test when
 * it cannot. The string is good until the program ends. */
const char *aid_golden(const char *name);

/* Writes the safetensors files of a golden's mlx4 checkpoint into a folder that exists. */
int aid_golden_write(const char *name, const char *dir, struct err *e);
/* E_DIFFER unless the safetensors files in dir are the ones that checksums.tsv pins for it. */
int aid_golden_check(const char *name, const char *dir, struct err *e);

#endif
