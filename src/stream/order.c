/* Heapsort: see order.h. */
#include "stream/order.h"

static void swap(int *v, int i, int j)
{
    int x = v[i];
    v[i] = v[j];
    v[j] = x;
}

/* Sinks v[i] until no child in v[0..n) comes after it. */
static void sink(int *v, int i, int n, bool (*before)(const void *, int, int), const void *ctx)
{
    for (;;) {
        int last = i;
        for (int child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
            if (before(ctx, v[last], v[child]))
                last = child;
        if (last == i)
            return;
        swap(v, i, last);
        i = last;
    }
}

void order_sort(int *v, int n, bool (*before)(const void *ctx, int a, int b), const void *ctx)
{
    for (int i = n / 2 - 1; i >= 0; i--)
        sink(v, i, n, before, ctx);
    for (int end = n - 1; end > 0; end--) {
        swap(v, 0, end);
        sink(v, 0, end, before, ctx);
    }
}
