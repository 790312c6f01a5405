/* What turns written files into a store: metadata beside them, checksums.bin, and manifest.json
 * last. A directory without a manifest is an unfinished store, which nothing opens. */
#ifndef PACK_PUBLISH_H
#define PACK_PUBLISH_H

#include "pack/plan.h"

/* Whether dir can become the store of this plan: the source's texts must open, and a config.json
 * that is there already, which is never overwritten, describe this model (else E_FORMAT). */
int publish_check(const struct plan *p, const char *dir, struct err *e);
/* Copies the texts (texts.h) that dir lacks. config.json of a source without a draft head says 0
 * draft layers. */
int publish_metadata(const struct plan *p, const char *dir, struct err *e);
/* The same from a folder of another model, without config.json; and the plan's config alone. */
int publish_texts(const char *from, const char *dir, struct err *e);
int publish_config(const struct plan *p, const char *dir, struct err *e);
/* Writes texts.xxh3 and checksums.bin, syncs dir, and then writes manifest.json. The data files
 * must be on disk. sum: [pieces->n]. */
int publish_manifest(const struct plan *p, const struct pieces *pieces, const uint64_t *sum,
                     const char *dir, struct err *e);

#endif
