/* Names that the server makes up: see id.h. */
#include "server/id.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"

char *id_make(const char *prefix, int digits, char *to)
{
    unsigned char bytes[ID_LONG / 2];
    const size_t n = strlen(prefix);
    assert(digits <= ID_LONG && n + (size_t)digits < ID_ROOM);
    os_random(bytes, sizeof bytes);
    memcpy(to, prefix, n);
    for (int i = 0; i < digits; i += 2)
        snprintf(to + n + i, 3, "%02x", bytes[i / 2]);
    return to;
}
