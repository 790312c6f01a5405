/* Numbers as people read them: see units.h. */
#include "base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *units_count(char room[UNITS_ROOM], uint64_t n)
{
    char plain[UNITS_ROOM];
    int len = snprintf(plain, sizeof plain, "%llu", (unsigned long long)n);
    char *to = room;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            *to++ = ',';
        *to++ = plain[i];
    }
    *to = '\0';
    return room;
}

const char *units_bytes(char room[UNITS_ROOM], uint64_t n)
{
    static const char *const unit[] = {"kB", "MB", "GB", "TB", "PB"};
    double v = (double)n / 1000;
    int u = 0;
    if (n < 1000) {
        snprintf(room, UNITS_ROOM, "%d bytes", (int)n);
        return room;
    }
    for (; v >= 999.5 && u < 4; u++)
        v /= 1000;
    snprintf(room, UNITS_ROOM,
             v < 9.995   ? "%.2f %s"
             : v < 99.95 ? "%.1f %s"
                         : "%.0f %s",
             v, unit[u]);
    return room;
}

const char *units_seconds(char room[UNITS_ROOM], double time)
{
    uint64_t s = time < 1e15 ? (uint64_t)(time + 0.5) : 0;
    if (time < 59.95)
        snprintf(room, UNITS_ROOM, "%.1f s", time);
    else if (s < 3600)
        snprintf(room, UNITS_ROOM, "%d min %d s", (int)(s / 60), (int)(s % 60));
    else
        snprintf(room, UNITS_ROOM, "%llu h %d min", (unsigned long long)(s / 3600),
                 (int)(s % 3600 / 60));
    return room;
}

const char *units_real(char room[UNITS_ROOM], double x)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(room, UNITS_ROOM, "%.*g", digits, x);
        if (strtod(room, NULL) == x)
            break;
    }
    return room;
}
