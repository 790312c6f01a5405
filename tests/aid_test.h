/* What every test program needs: cmocka, temporary folders, the project's test data, and running
 * the built program as a user would. Tests run from the project's root. */
#ifndef TESTS_AID_TEST_H
#define TESTS_AID_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"

#define DATA    "tests/data/"
#define GOLDENS "tests/data/goldens/"
#define DEMO    "models/demo"

/* A call that must succeed: prints the message of e when it does not. */
#define assert_ok(call, e)                                                                         \
    do {                                                                                           \
        if (call)                                                                                  \
            fail_msg("%s: %s", #call, (e).msg);                                                    \
    } while (0)

/* A new empty directory below $TMPDIR, removed with all in it by aid_rmdir; to free with
 * mem_free. */
char *aid_tmpdir(void);
void aid_rmdir(char *dir); /* also frees dir */
/* Writes a file, failing the test if it cannot. */
void aid_write(const char *path, const void *data, size_t n);

struct aid_output {
    int status; /* exit status, or 128 + signal */
    struct buf out, err;
};
/* Runs argv (NULL at the end); argv[0] "cherenkov" means the program under test. `in` is standard
 * input, or NULL for none. Waits. */
void aid_run(const char *const *argv, const char *in, struct aid_output *o);
void aid_output_free(struct aid_output *o);
char *aid_quotes(const char *text); /* " for '; to free with mem_free */
const char *aid_program(void);      /* the path of the program under test */

/* How many times slower than a release build this one may be: for limits on processor time, which
 * must hold in every build, and under valgrind. */
double aid_slower(void);

#endif
