/* Sorting numbers in place, without allocating, by what they stand for. */
#ifndef STREAM_ORDER_H
#define STREAM_ORDER_H

#include <stdbool.h>

/* Sorts v [n]; before(ctx, a, b): a comes before b. Equal ones end in no particular order. */
void order_sort(int *v, int n, bool (*before)(const void *ctx, int a, int b), const void *ctx);

#endif
