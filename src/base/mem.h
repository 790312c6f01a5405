/* Memory: the only malloc of the program, so that tests can make the Nth allocation fail. Every
 * function returns NULL when it fails and leaves errno ENOMEM; the caller writes the error. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t bytes);            /* uninitialised; bytes 0 gives a unique pointer */
void *mem_zalloc(size_t n, size_t bytes); /* n * bytes, zeroed; overflow is a failure */
void *mem_array(size_t n, size_t bytes);  /* n * bytes, uninitialised; overflow is a failure */
void *mem_realloc(void *p, size_t bytes); /* p stays valid on failure */
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n);
void mem_free(void *p); /* of all above; NULL is fine */

/* `align` a power of two, at least sizeof(void *). Freed by mem_free. */
void *mem_aligned(size_t align, size_t bytes);

/* Tests: the nth allocation from now (1 is the next) fails, and all after it; 0 ends this. */
void mem_fail_at(long nth);
/* Allocations since the program started; a test that a step allocates nothing compares two. */
long mem_count(void);

#endif
