/* Memory: see mem.h. Counting is relaxed: only single-threaded tests read it exactly. */
#include "base/mem.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static atomic_long count, fail_at; /* fail_at: the value of count from which on all fail; 0 never */

static int refused(void)
{
    long n = atomic_fetch_add_explicit(&count, 1, memory_order_relaxed) + 1;
    long at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    if (!at || n < at)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *mem_alloc(size_t bytes)
{
    return refused() ? NULL : malloc(bytes ? bytes : 1);
}

static int overflows(size_t n, size_t bytes)
{
    if (!bytes || n <= SIZE_MAX / bytes)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *mem_zalloc(size_t n, size_t bytes)
{
    if (overflows(n, bytes)) /* calloc says so too, but a sanitizer's ends the program */
        return NULL;
    return refused() ? NULL : calloc(n ? n : 1, bytes ? bytes : 1);
}

void *mem_array(size_t n, size_t bytes)
{
    return overflows(n, bytes) ? NULL : mem_alloc(n * bytes);
}

void *mem_realloc(void *p, size_t bytes)
{
    return refused() ? NULL : realloc(p, bytes ? bytes : 1);
}

char *mem_strndup(const char *s, size_t n)
{
    char *d = mem_alloc(n + 1);
    if (d) {
        memcpy(d, s, n);
        d[n] = '\0';
    }
    return d;
}

char *mem_strdup(const char *s)
{
    return mem_strndup(s, strlen(s));
}

void mem_free(void *p)
{
    free(p);
}

void *mem_aligned(size_t align, size_t bytes)
{
    void *p = NULL;
    if (refused())
        return NULL;
    int rc = posix_memalign(&p, align, bytes ? bytes : 1);
    if (rc) {
        errno = rc;
        return NULL;
    }
    return p;
}

void mem_fail_at(long nth)
{
    atomic_store(&fail_at, nth ? atomic_load(&count) + nth : 0);
}

long mem_count(void)
{
    return atomic_load(&count);
}
