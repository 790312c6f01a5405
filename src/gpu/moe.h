/* Mixture of experts on a device: src/cpu/moe.c and route.c have the equations.
 *
 * Experts are found by a layer's table on the device, by number of expert (params.h); whoever fills
 * it sees to it that the records stay. Outputs are added in routing order, then the shared
 * expert's, so nothing depends on where a record lies. Many rows are sorted by expert, so that the
 * weights of each are read once for all rows of a tile; the bits are the same. h, inter and shared
 * inter are multiples of 64. */
#ifndef GPU_MOE_H
#define GPU_MOE_H

#include "gpu/linear.h"

/* The router's choice of R rows. Logits and what the shared expert's gate gives are left as they
 * are. */
struct gpu_route {
    struct device *d;
    struct tape *t;
    int R, E, K;
    bool norm; /* weights over the sum of the K */
    bool late; /* the choice is left to gpu_moe_record */
    u64 x, q;  /* [R][h]: f32, and as activations */
    struct gpu_matrix router, shared_gate;
    u64 logits, open;  /* f32 [R][E], f32 [R] */
    u64 route, weight; /* u32 [R][K], largest first; f32 [R][K] */
};
/* Ends with a barrier. */
int gpu_route_record(const struct gpu_route *x, struct err *e);

struct gpu_moe {
    struct device *d;
    struct tape *t;
    int R, E, K, h, inter, shared_inter;
    u64 q;                            /* activations [R][h] */
    u64 table, route, weight, open;   /* u64 [E]; as above */
    u64 logits;                       /* route and weight are yet to be made of these; 0: not */
    u64 act, shared_act;              /* room: activations [R][K][inter], [R][shared_inter] */
    u64 room;                         /* gpu_moe_room bytes */
    u64 to;                           /* f32 [R][h] */
    struct gpu_matrix gate, up, down; /* the shared expert, Q4 */
    int bits;                         /* of all records; 0: each says it in the table */
    bool host; /* some entries may be outputs (GPU_RECORD_HOST); 23 rows at most */
    bool far;  /* records may lie in the host's memory */
    int depth; /* for measuring: groups of weights under way in a lane; 0: as is best */
};
/* Whether gpu_moe_record can make the choice of R rows. */
bool gpu_moe_chooses(int R, bool norm);
/* Bytes of x->room for x->R rows, or fewer. */
size_t gpu_moe_room(const struct gpu_moe *x);
/* Workgroups of moe_act for rows of n columns: 65,535 in a line at most. */
struct grid gpu_act_grid(size_t rows, int n);
/* Ends with a barrier. */
int gpu_moe_record(const struct gpu_moe *x, struct err *e);

#endif
