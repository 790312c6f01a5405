/* A published checkpoint as a source of weights, so that the equations are tested without packing:
 * Q4 tensors as they are, BF16 tensors unquantised (a store never holds those).
 *
 * Raw norms are handed out as F32 with one added, fused gate_up experts are split. Everything that
 * was asked for stays in memory until it closes. Failures end the test. */
#ifndef TESTS_AID_CHECKPOINT_H
#define TESTS_AID_CHECKPOINT_H

#include "model/weights.h"

struct aid_checkpoint;

struct aid_weights {
    struct weights w; /* w.source may be replaced by the test */
    struct aid_checkpoint *source;
};

/* dir: a folder with config.json and safetensors. */
void aid_weights_open(struct aid_weights *m, const char *dir);
void aid_weights_close(struct aid_weights *m);

#endif
